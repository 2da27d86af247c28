//! Which pods may be deleted, and on what proof.
//!
//! A pod is deleted by nobody's decision alone: either it has left service for good on a grant, or the gate has let its removal go and
//! that stands in the ledger, or the place is named here that needs neither. [`crate::Write::delete_pod`] takes nothing else.

use hitless_api::Grant;
use hitless_api::lifecycle::{self, DELETE_ID, Step};
use hitless_api::names::{DRAINED, GATES_NOT_READY};
use hitless_api::pod::{ConditionView, PodView};

use crate::object::Object;
use crate::world::World;

/// A pod that serves nobody is to be deleted. No agent has to drain it, and none may be there to do it: once the rules have let it go and
/// its reservation is written, the controller deletes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Another pod is made in its place. `room`: so many pods of its workload may be reserved for that at a time, as things are.
    Anew {
        /// Number of pods.
        room: u32,
    },
    /// None is made in its place, or that one is there.
    Surplus,
}

/// Proof that this pod may be deleted. Only the functions here make one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayGo<'a> {
    pod: &'a PodView,
}

impl<'a> MayGo<'a> {
    /// Its agent has taken it out of service for good, as it was granted.
    pub(crate) fn drained(pod: &'a PodView, world: &World<'_>) -> Option<Self> {
        world.left.contains(&pod.id.uid).then_some(Self { pod })
    }

    /// The rules have let it go, its removal stands in the ledger, it still serves nobody, and nobody protects it.
    pub(crate) fn reserved(pod: &'a PodView, world: &World<'_>) -> Option<Self> {
        let is_reserved = world.removable.contains(&pod.id.uid);
        (is_reserved && !serves(pod, world) && !pod.is_protected()).then_some(Self { pod })
    }

    /// An exception: its workload is being deleted, and nobody is to miss it.
    pub(crate) fn of_deleted(pod: &'a PodView, workload: &Object) -> Option<Self> {
        let is_own = pod.owner.as_ref().is_some_and(|owner| owner.uid == workload.id.uid);
        (workload.deleting && is_own).then_some(Self { pod })
    }

    /// It has left service on a grant for `PodOpsLifecycle`'s own deletion.
    pub(crate) fn let_go(pod: &'a PodView, grant: Option<&Grant>) -> Option<Self> {
        let operate = pod.labels.contains_key(&Step::Operate.key(DELETE_ID));
        let is_meant = pod.labels.contains_key(lifecycle::TO_DELETE) && operate;
        grant.filter(|grant| is_meant && grant.pod.uid == pod.id.uid).map(|_| Self { pod })
    }

    pub(crate) fn pod(self) -> &'a PodView {
        self.pod
    }
}

/// Whether requests may reach the pod, or connections to it may be open: it has to leave service before it goes.
pub(crate) fn serves(pod: &PodView, world: &World<'_>) -> bool {
    let uid = &pod.id.uid;
    let is_operated = || world.operating.contains(uid) && !world.removable.contains(uid);
    pod.available() || is_returning(pod) || is_leaving(pod) || is_operated()
}

/// It has been put back into service, and the kubelet has not said yet that it is Ready. Of one that is lost or crashes the kubelet
/// gives another reason.
fn is_returning(pod: &PodView) -> bool {
    let waits_for_gates = |ready: &ConditionView| !ready.is_true && ready.reason == GATES_NOT_READY;
    let is_there = !pod.terminating && !pod.finished && pod.in_service().is_some_and(|condition| condition.is_true);
    is_there && pod.conditions.get("Ready").is_some_and(waits_for_gates)
}

/// An agent has taken it out of service and has not said that it is drained. A new leader may see that before it sees the grant. What
/// its readiness probe says does not matter: many servers fail it on purpose while they drain. Nobody is connected to a pod of which no
/// container runs.
fn is_leaving(pod: &PodView) -> bool {
    let is_out = |condition: &ConditionView| !condition.is_true && condition.reason != DRAINED;
    let started = |status: &hitless_api::pod::ContainerState| status.running_since.is_some();
    let runs = pod.containers.iter().any(|container| container.status.as_ref().is_some_and(started));
    !pod.terminating && !pod.finished && runs && pod.in_service().is_some_and(is_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    /// A pod whose agent has said this of InService; its probe fails.
    fn pod(reason: &str, state: &serde_json::Value) -> PodView {
        let pod = json!({
            "metadata": {"name": "p", "uid": "u"},
            "spec": {"containers": [{"name": "web", "image": "web:v1"}]},
            "status": {
                "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
                    {"type": "ContainersReady", "status": "False"},
                    {"type": "hitless.dev/InService", "status": "False", "reason": reason}],
                "containerStatuses": [{"name": "web", "image": "web:v1", "imageID": "", "ready": false, "restartCount": 0,
                    "containerID": "c://1", "state": state}]
            }
        });
        PodView::from(&serde_json::from_value::<Pod>(pod).unwrap())
    }

    #[test]
    fn a_pod_that_drains_is_draining_whatever_its_readiness_probe_says() {
        let runs = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        assert!(is_leaving(&pod("Leaving", &runs)), "clients are connected to it");
        assert!(!is_leaving(&pod(DRAINED, &runs)), "nobody is");
        assert!(!is_leaving(&pod("Leaving", &json!({"waiting": {"reason": "CrashLoopBackOff"}}))), "to whom?");
    }

    #[test]
    fn what_is_reserved_and_serves_again_is_not_deleted() {
        let world = |removable: &[&str]| {
            let uids = || removable.iter().map(|uid| (*uid).to_owned()).collect();
            World::new(&[], &[], uids()).removing(uids())
        };
        let down = pod(DRAINED, &json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}));
        assert!(MayGo::reserved(&down, &world(&["u"])).is_some());
        assert!(MayGo::reserved(&down, &world(&[])).is_none(), "nobody was asked");
        let mut protected = down.clone();
        let finalizers = vec![format!("{}/x", lifecycle::PROTECTION)];
        protected.lifecycle = Some(Box::new(lifecycle::LifecycleView { finalizers, ..Default::default() }));
        assert!(MayGo::reserved(&protected, &world(&["u"])).is_none(), "others send it requests");
        let mut back = down;
        back.conditions.insert("Ready", ConditionView::new(true, String::new(), String::new(), None));
        assert!(MayGo::reserved(&back, &world(&["u"])).is_none());
    }
}

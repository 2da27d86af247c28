//! Companion pods when nobody looks after them any more: nobody would end them later.
//!
//! One that never served is deleted at once. One that serves stays until pods of its workload serve its clients; then it leaves
//! service, and is deleted when kube-proxy has had time to follow on all nodes. Agents are gone by then, so nobody counts its
//! connections: what is still open ends as in any deletion of a pod. One that is needed to the end of our time stays: an outage
//! would be worse than a pod too many, and it goes with its workload.

use std::sync::Arc;

use hitless_api::PodRef;
use hitless_api::pod::PodView;
use hitless_rollout::companion;
use hitless_rollout::mode::{ServiceView, Serving, StandIn, Traffic};
use jiff::{SignedDuration, Timestamp};

/// From leaving service to the deletion. Longer than kube-proxy needs on a busy node (docs/draining.md).
const LEAVES_FOR: SignedDuration = SignedDuration::from_secs(5);

/// What is to be done about a companion pod now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    /// It serves nobody.
    Delete(PodRef),
    /// Others serve: it is taken out of service.
    Lower { pod: PodRef, resource_version: String },
    /// It is waited for, for this reason.
    Wait(PodRef, &'static str),
}

/// Of all companion pods among `pods`.
pub(super) fn farewells(pods: &[Arc<PodView>], services: &[Arc<ServiceView>], now: Timestamp) -> Vec<Farewell> {
    let traffic = Traffic::new(services, pods);
    let companions = pods.iter().filter(|pod| companion::is_companion(pod) && !pod.terminating);
    companions.map(|pod| farewell(pod, &traffic, now)).collect()
}

fn farewell(pod: &PodView, traffic: &Traffic<'_>, now: Timestamp) -> Farewell {
    let id = pod.id.clone();
    let Some(condition) = pod.in_service().filter(|_| !pod.finished) else { return Farewell::Delete(id) };
    if !condition.is_true {
        let left = condition.since.map_or(LEAVES_FOR, |since| now.duration_since(since));
        // The time on the wire is in whole seconds.
        let is_over = left > LEAVES_FOR;
        return if is_over { Farewell::Delete(id) } else { Farewell::Wait(id, "it leaves service") };
    }
    // Another companion is no pod that stays.
    let serving = |other: &PodView| Serving::of(other, companion::is_companion(other));
    let is_served = traffic.takes_clients(pod);
    match traffic.stand_in(pod, &serving) {
        StandIn::ExceptFor(_) | StandIn::None if is_served => Farewell::Wait(id, "no pod of its workload serves yet"),
        StandIn::Serves
        | StandIn::ExceptFor(_)
        | StandIn::ExceptOnNode(_)
        | StandIn::OnOtherNodes(_)
        | StandIn::None => Farewell::Lower { pod: id, resource_version: pod.resource_version.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::names;
    use k8s_openapi::api::core::v1::{Pod, Service};
    use serde_json::{Value, json};

    const NOW: &str = "2026-01-01T00:01:00Z";

    fn pod(name: &str, labels: &Value, conditions: &Value) -> Arc<PodView> {
        let pod = json!({
            "metadata": {"namespace": "a", "name": name, "uid": name, "resourceVersion": "7", "labels": labels},
            "spec": {"containers": [], "readinessGates": [{"conditionType": names::IN_SERVICE}]},
            "status": {"conditions": conditions}
        });
        Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod).unwrap()))
    }

    fn companion(conditions: &Value) -> Arc<PodView> {
        pod("c", &json!({"app": "web", "hitless.dev/companion": "0123"}), conditions)
    }

    fn own(ready: &str) -> Arc<PodView> {
        pod("own", &json!({"app": "web"}), &json!([{"type": "Ready", "status": ready}]))
    }

    fn decide(pods: &[Arc<PodView>], selector: &Value) -> String {
        let service = json!({"metadata": {"namespace": "a", "name": "web"}, "spec": {"selector": selector}});
        let service = Arc::new(ServiceView::from(&serde_json::from_value::<Service>(service).unwrap()));
        match &farewells(pods, &[service], NOW.parse().unwrap())[..] {
            [Farewell::Delete(pod)] => format!("delete {}", pod.name),
            [Farewell::Lower { pod, resource_version }] => format!("lower {} at {resource_version}", pod.name),
            [Farewell::Wait(pod, why)] => format!("{} waits: {why}", pod.name),
            other => panic!("{other:?}"),
        }
    }

    fn serves() -> Arc<PodView> {
        companion(&json!([{"type": "Ready", "status": "True"}, {"type": names::IN_SERVICE, "status": "True"}]))
    }

    #[test]
    fn one_that_serves_leaves_only_when_a_pod_of_its_workload_serves() {
        let web = json!({"app": "web"});
        assert_eq!(decide(&[serves(), own("False")], &web), "c waits: no pod of its workload serves yet");
        assert_eq!(decide(&[serves()], &web), "c waits: no pod of its workload serves yet");
        assert_eq!(decide(&[serves(), own("True")], &web), "lower c at 7");
        assert_eq!(decide(&[serves(), own("False")], &json!({"app": "other"})), "lower c at 7", "it has no clients");
    }

    #[test]
    fn one_that_has_left_is_deleted_when_every_node_knows() {
        let left = |at: &str| {
            let conditions = json!([{"type": names::IN_SERVICE, "status": "False", "lastTransitionTime": at}]);
            decide(&[companion(&conditions), own("True")], &json!({"app": "web"}))
        };
        assert_eq!(left("2026-01-01T00:00:56Z"), "c waits: it leaves service");
        assert_eq!(left("2026-01-01T00:00:55Z"), "c waits: it leaves service", "that second may just have ended");
        assert_eq!(left("2026-01-01T00:00:54Z"), "delete c");
    }

    #[test]
    fn one_that_only_tries_a_version_is_deleted_at_once() {
        assert_eq!(decide(&[companion(&json!([])), own("False")], &json!({"app": "web"})), "delete c");
    }
}

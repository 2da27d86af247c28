//! Who waits for which pod. Without an operation nobody looks at a pod's connections; while somebody waits for one that is
//! being deleted the agent does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hitless_api::DrainSpec;
use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::drain::observed::{Stage, Target};
use crate::view::NodePod;

/// Everybody who waits. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Waiters {
    /// By pod uid.
    pods: Arc<Mutex<BTreeMap<String, Awaited>>>,
    wake: Arc<Notify>,
}

/// A pod that somebody waits for.
#[derive(Debug)]
struct Awaited {
    waiters: usize,
    since: Instant,
    leaving: Option<Timestamp>,
}

/// A kubelet runs a preStop hook at once when a pod is deleted; the agent's watch tells of the deletion a little later. A pod of
/// which nothing is heard for so long is not deleted.
pub(crate) const DELETION_SHOWS: Duration = Duration::from_secs(2);

/// Somebody who waits, until it is dropped.
#[derive(Debug)]
pub struct Waiter {
    waiters: Waiters,
    uid: String,
}

impl Waiters {
    /// Nobody yet. `wake` is notified when a pod is awaited that was not, or not any more.
    #[must_use]
    pub fn new(wake: Arc<Notify>) -> Self {
        Self { pods: Arc::default(), wake }
    }

    /// Somebody waits for the pod with this uid.
    #[must_use = "who is dropped does not wait"]
    pub fn enter(&self, uid: &str) -> Waiter {
        let mut pods = self.pods();
        let new = || Awaited { waiters: 0, since: Instant::now(), leaving: None };
        let awaited = pods.entry(uid.to_owned()).or_insert_with(new);
        awaited.waiters += 1;
        if awaited.waiters == 1 {
            self.wake.notify_one();
        }
        Waiter { waiters: self.clone(), uid: uid.to_owned() }
    }

    /// uid of each pod that somebody waits for.
    #[must_use]
    pub fn awaited(&self) -> Vec<String> {
        self.pods().keys().cloned().collect()
    }

    /// Whether somebody waits for a pod that is being deleted, or has just begun to wait: whether the pod is deleted may not be seen yet.
    #[must_use]
    pub fn any_leaving(&self) -> bool {
        self.pods().values().any(|awaited| awaited.leaving.is_some() || awaited.since.elapsed() < DELETION_SHOWS)
    }

    /// Since when the pod has been looked at because it is being deleted and somebody waits for it.
    #[must_use]
    pub fn leaving(&self, uid: &str) -> Option<Timestamp> {
        self.pods().get(uid)?.leaving
    }

    /// Which of `pods` are to be looked at for the sake of those who wait, beside those with an operation (`is_operated`): they
    /// are being deleted, so their endpoints go. Pods on the host's network are left alone: their connections are not told from
    /// those of the node.
    #[must_use]
    pub fn targets<'a>(
        &self,
        pods: impl IntoIterator<Item = &'a NodePod>,
        is_operated: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> BTreeMap<String, Target> {
        let mut awaited = self.pods();
        if awaited.is_empty() {
            return BTreeMap::new();
        }
        let target = |pod: &PodView| {
            let uid = pod.id.uid.as_str();
            let awaited = awaited.get_mut(uid)?;
            if !is_leaving(pod) || pod.host_network || is_operated(uid) {
                awaited.leaving = None;
                return None;
            }
            awaited.leaving.get_or_insert(now);
            // Nobody's replacement is waited for.
            Some((uid.to_owned(), Target::new(pod, Stage::Draining, drain_of(pod), Vec::new())))
        };
        pods.into_iter().map(|pod| &pod.view).filter_map(target).collect()
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, Awaited>> {
        // Every change leaves it whole, so a panic elsewhere can't have left it broken.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut pods = self.waiters.pods();
        let Some(awaited) = pods.get_mut(&self.uid) else { return };
        awaited.waiters -= 1;
        if awaited.waiters == 0 {
            pods.remove(&self.uid);
            self.waiters.wake.notify_one();
        }
    }
}

/// Whether the pod goes for good, so that Kubernetes takes its endpoints away. A kubelet that evicts a pod, or shuts its node
/// down, says so by a condition only.
pub(crate) fn is_leaving(pod: &PodView) -> bool {
    (pod.terminating || pod.is("DisruptionTarget")) && !pod.finished
}

/// How a pod is drained that is deleted. The policies are the controller's to know; what the pod itself says counts, and where
/// that makes no sense, what is built in.
pub(crate) fn drain_of(pod: &PodView) -> DrainSpec {
    DrainSpec::of(pod).unwrap_or_else(|_| {
        let mut plain = pod.clone();
        plain.annotations.remove(annotations::DRAIN);
        DrainSpec::of(&plain).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn pod(uid: &str, metadata: &serde_json::Value) -> NodePod {
        let mut pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": [{"name": "web",
            "ports": [{"containerPort": 80, "name": "http"}], "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 3}}]}}))
        .unwrap();
        pod.metadata.uid = Some(uid.to_owned());
        NodePod::from(&pod)
    }

    fn deleted() -> serde_json::Value {
        json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn only_a_pod_that_is_deleted_awaited_and_not_operated_is_looked_at() {
        let waiters = Waiters::default();
        let mut proxy = pod("proxy", &deleted());
        proxy.view.host_network = true;
        let pods = [pod("gone", &deleted()), pod("stays", &json!({})), pod("nobody", &deleted()), proxy];
        let _waiting = ["gone", "stays", "unknown", "proxy"].map(|uid| waiters.enter(uid));
        let now = Timestamp::UNIX_EPOCH;
        let targets = waiters.targets(&pods, |_| false, now);
        assert_eq!(targets.keys().collect::<Vec<_>>(), ["gone"]);
        assert_eq!((targets["gone"].stage, &targets["gone"].probe_periods), (Stage::Draining, &vec![3]));
        assert_eq!(targets["gone"].drain.ports.len(), 1);
        assert_eq!((waiters.leaving("gone"), waiters.leaving("stays")), (Some(now), None));
        assert!(waiters.targets(&pods, |_| true, now).is_empty(), "an operation has its own target");
        assert_eq!(waiters.leaving("gone"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_pod_that_stays_may_wait_for_ever() {
        let waiters = Waiters::default();
        let pods = [pod("gone", &deleted()), pod("stays", &json!({}))];
        let (gone, _stays) = (waiters.enter("gone"), waiters.enter("stays"));
        assert_eq!(waiters.targets(&pods, |_| false, Timestamp::UNIX_EPOCH).len(), 1);
        tokio::time::advance(DELETION_SHOWS).await;
        assert!(waiters.any_leaving());
        drop(gone);
        assert!(!waiters.any_leaving());
        let _just_come = waiters.enter("other");
        assert!(waiters.any_leaving(), "its deletion may not be seen yet");
    }

    #[test]
    fn it_is_looked_at_until_the_last_one_stops_waiting() {
        let waiters = Waiters::default();
        let pods = [pod("a", &deleted())];
        let (first, second) = (waiters.enter("a"), waiters.enter("a"));
        drop(first);
        let start = Timestamp::UNIX_EPOCH;
        assert_eq!(waiters.targets(&pods, |_| false, start).len(), 1);
        assert_eq!(waiters.targets(&pods, |_| false, Timestamp::MAX).len(), 1);
        assert_eq!(waiters.leaving("a"), Some(start), "the first look counts");
        drop(second);
        assert!(waiters.targets(&pods, |_| false, start).is_empty() && waiters.awaited().is_empty());
    }

    #[test]
    fn a_pod_that_its_kubelet_evicts_goes_as_one_that_is_deleted() {
        let with = |status: serde_json::Value| {
            let pod: Pod = serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap();
            is_leaving(&PodView::from(&pod))
        };
        let condition = json!([{"type": "DisruptionTarget", "status": "True"}]);
        assert!(with(json!({"conditions": condition})));
        assert!(!with(json!({"conditions": condition, "phase": "Failed"})), "nothing is left to drain");
        assert!(!with(json!({})));
    }

    #[test]
    fn an_annotation_that_makes_no_sense_leaves_what_is_built_in() {
        let pod = pod("a", &json!({"annotations": {"hitless.dev/drain": "{"}}));
        assert_eq!(drain_of(&pod.view).deadline_seconds, DrainSpec::default().deadline_seconds);
        assert_eq!(drain_of(&pod.view).ports.len(), 1);
    }
}

//! What an agent that is to be replaced still does: it ends what it has begun, so that the rollout of the agents themselves breaks no
//! drain and no Hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::published::Published;
use crate::waiters::Waiters;

/// So long at most; less than the pod's `terminationGracePeriodSeconds`. The next agent goes on with what is left.
pub const LONGEST: Duration = Duration::from_secs(50);
/// Between two looks without news: who has just begun to wait is taken for somebody who waits for a deletion, for a moment.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Whether this agent is to be replaced. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Retiring(Arc<AtomicBool>);

impl Retiring {
    /// Whether it is: no pod is taken out of service from now on.
    #[must_use]
    pub fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// From now on, and until no operation is under way and nobody waits for a pod that is being deleted. A pod that is granted and
    /// has not left service stays: the next agent has the same grant, and at an uninstall pods are raised for good.
    pub async fn until_idle(&self, published: &Published, waiters: &Waiters) {
        self.0.store(true, Ordering::Relaxed);
        let end = Instant::now() + LONGEST;
        // Before the first look: what changes after it is heard of.
        let mut news = published.news().hear();
        while published.any_begun() || waiters.any_leaving() {
            if Instant::now() >= end {
                tracing::warn!(longest = ?LONGEST, "the next agent has to go on with what is under way");
                return;
            }
            // Whoever tells of news lives as long as the process.
            let _ = timeout_at(end.min(Instant::now() + LOOK_EVERY), news.changed()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::Step;
    use crate::view::NodePod;
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};
    use tokio::time::{Instant, sleep};

    fn step(result: &Value) -> Step {
        let now = "2026-01-01T00:00:00.000000Z";
        let mut transition = json!({"id": "g", "granted": now, "phase": "Draining", "since": now});
        if !result.is_null() {
            transition["result"] = result.clone();
        }
        let transition = serde_json::from_value(transition).unwrap();
        Step { pod_uid: "u".into(), transition, waiting_for: Vec::new(), leaves_service: false }
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_nothing_goes_at_once() {
        let (published, waiters) = (Published::default(), Waiters::default());
        published.set(vec![step(&json!({"outcome": "Done", "reason": "Done"}))]);
        let _waits_for_ever = waiters.enter("stays");
        let start = Instant::now();
        Retiring::default().until_idle(&published, &waiters).await;
        assert!(
            start.elapsed() <= Duration::from_secs(2),
            "only so long it is not known whether that pod is being deleted"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_has_not_left_service_is_the_next_agent_s() {
        let (published, waiters) = (Published::default(), Waiters::default());
        let leaves = Step { leaves_service: true, ..step(&Value::Null) };
        published.set(vec![leaves]);
        let start = Instant::now();
        Retiring::default().until_idle(&published, &waiters).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn operations_and_deletions_come_to_their_end_first() {
        let (published, waiters) = (Published::default(), Waiters::default());
        published.set(vec![step(&Value::Null)]);
        let gone: Pod = serde_json::from_value(
            json!({"metadata": {"uid": "gone", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"containers": []}}),
        )
        .unwrap();
        let hook = waiters.enter("gone");
        assert_eq!(waiters.targets(&[NodePod::from(&gone)], |_| false, Timestamp::UNIX_EPOCH).len(), 1);
        let start = Instant::now();
        let ends = async {
            sleep(Duration::from_secs(10)).await;
            published.set(Vec::new());
            sleep(Duration::from_secs(10)).await;
            drop(hook);
            published.set(Vec::new());
        };
        let retiring = Retiring::default();
        tokio::join!(retiring.until_idle(&published, &waiters), ends);
        assert!((20..=21).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
        assert!(retiring.is_so());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_the_kubelet_does() {
        let (published, waiters) = (Published::default(), Waiters::default());
        published.set(vec![step(&Value::Null)]);
        let start = Instant::now();
        Retiring::default().until_idle(&published, &waiters).await;
        assert_eq!(start.elapsed().as_secs(), LONGEST.as_secs());
    }
}

//! What an agent that is to be replaced still does: it ends what it has begun, so that the rollout of the agents themselves breaks no
//! drain and no Hold.

use std::time::Duration;

use tokio::time::timeout;

use crate::published::Published;
use crate::waiters::Waiters;

/// So long at most; less than the pod's `terminationGracePeriodSeconds`. The next agent goes on with what is left.
pub const LONGEST: Duration = Duration::from_secs(50);

/// Until no operation is under way, and nobody waits for a pod that is being deleted. No operation begins meanwhile: the controller
/// grants none to a node whose agent is being deleted.
pub async fn until_idle(published: &Published, waiters: &Waiters) {
    // Before the first look: what changes after it is heard of.
    let mut news = published.news().hear();
    let idle = async {
        while published.any_live() || waiters.any_leaving() {
            if news.changed().await.is_err() {
                return;
            }
        }
    };
    if timeout(LONGEST, idle).await.is_err() {
        tracing::warn!(longest = ?LONGEST, "the next agent has to go on with what is under way");
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
        Step { pod_uid: "u".into(), transition, waiting_for: Vec::new(), leaves_service: true }
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_nothing_goes_at_once() {
        let (published, waiters) = (Published::default(), Waiters::default());
        published.set(vec![step(&json!({"outcome": "Done", "reason": "Done"}))]);
        let _waits_for_ever = waiters.enter("stays");
        let start = Instant::now();
        until_idle(&published, &waiters).await;
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
        tokio::join!(until_idle(&published, &waiters), ends);
        assert_eq!(start.elapsed().as_secs(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_the_kubelet_does() {
        let (published, waiters) = (Published::default(), Waiters::default());
        published.set(vec![step(&Value::Null)]);
        let start = Instant::now();
        until_idle(&published, &waiters).await;
        assert_eq!(start.elapsed(), LONGEST);
    }
}

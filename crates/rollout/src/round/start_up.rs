//! How long a new version may take to get Ready, judged by what the version before it needed (docs/contract.md 32).

use std::collections::BTreeMap;

use hitless_api::pod::PodView;

use super::wishes::Wishes;

/// So many times what the version before needed.
const TIMES: u32 = 3;
/// But at least so many seconds.
const LEAST_SECONDS: u32 = 30;

/// In seconds from the image patch, by index of the plan; nothing for a workload one of whose pods does not tell.
pub(super) fn ready_within(wishes: &Wishes<'_>) -> BTreeMap<usize, u32> {
    let mut slowest: BTreeMap<usize, Option<u32>> = BTreeMap::new();
    for wish in wishes.by_pod.values() {
        let Some(workload) = wish.workload else { continue };
        let seconds = allowed(wish.pod);
        let known = slowest.entry(workload).or_insert(seconds);
        *known = known.zip(seconds).map(|(known, seconds)| known.max(seconds));
    }
    slowest.into_iter().filter_map(|(workload, seconds)| Some((workload, seconds?))).collect()
}

/// Judged by this pod alone: the end of the old containers, and then the start of the new ones.
fn allowed(pod: &PodView) -> Option<u32> {
    let ready = pod.conditions.get("Ready").filter(|ready| ready.is_true)?.since?;
    let starts = pod.containers.iter().map(|container| container.status.as_ref()?.running_since);
    let started = starts.collect::<Option<Vec<_>>>()?.into_iter().max()?;
    // A held pod stays Ready while its containers start anew.
    let seconds = u32::try_from(ready.duration_since(started).as_secs()).unwrap_or_default();
    Some(seconds.saturating_mul(TIMES).max(LEAST_SECONDS).saturating_add(pod.grace_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn pod(ready: &Value, started: &str) -> PodView {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"},
            "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "web"}]},
            "status": {"conditions": [ready], "containerStatuses": [{"name": "web", "image": "", "imageID": "", "ready": true,
                "restartCount": 0, "state": {"running": {"startedAt": started}}}]}}))
        .unwrap();
        PodView::from(&pod)
    }

    #[test]
    fn three_times_what_it_took_but_at_least_half_a_minute_and_the_grace_of_the_old_one() {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-23T00:00:40Z"});
        for (started, seconds) in [
            ("2026-11-23T00:00:39Z", 35),
            ("2026-11-23T00:00:20Z", 65),
            ("2026-11-22T00:00:40Z", 3 * 86_400 + 5),
            ("2026-11-23T00:01:00Z", 35),
        ] {
            assert_eq!(allowed(&pod(&ready, started)), Some(seconds), "{started}");
        }
        let not_ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-23T00:00:40Z"});
        assert_eq!(allowed(&pod(&not_ready, "2026-11-23T00:00:39Z")), None);
    }
}

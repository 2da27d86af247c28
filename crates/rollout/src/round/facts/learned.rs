//! Learns how long workloads' containers are away when they are operated, and keeps it on the workload (docs/contract.md#learned-gap).

use std::collections::BTreeMap;

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{Outcome, Transition};
use jiff::SignedDuration;

use crate::mode::Gaps;
use crate::round::facts::desired::DesiredState;

/// What reports tell that a workload does not know yet: gaps with what is new.
#[derive(Default)]
pub(crate) struct Learned {
    /// Until the new processes listened.
    pub(crate) to_listen: Option<Gaps>,
    /// Until the new containers were ready.
    pub(crate) to_ready: Option<Gaps>,
}

/// The same by index of the plan.
pub(crate) fn learned(desired: &DesiredState<'_>) -> BTreeMap<usize, Learned> {
    // With how long containers listened before they were ready.
    let mut longest: BTreeMap<(usize, &str), (u32, Option<u32>)> = BTreeMap::new();
    for (pod, transition) in desired.reports() {
        let is_done = transition.result.as_ref().is_some_and(|result| result.outcome == Outcome::Done);
        let Some(gap) = transition.gap_milliseconds.filter(|_| is_done) else { continue };
        let Some(gap) = plausible(gap, transition, pod) else { continue };
        let Some(revision) = pod.annotations.get(annotations::REVISION) else { continue };
        let Some(workload) = desired.workload_of(pod) else { continue };
        let (known, unready) = longest.entry((workload, revision)).or_default();
        *known = gap.max(*known);
        let to_ready = transition.ready_milliseconds.map(|time| plausible_to_ready(time, gap, transition, pod));
        *unready = to_ready.map(|time| time.saturating_sub(gap)).max(*unready);
    }
    let mut next: BTreeMap<usize, Learned> = BTreeMap::new();
    for ((workload, revision), (gap, unready)) in longest {
        let plan = &desired.plans[workload];
        let learned = next.entry(workload).or_default();
        let (gaps, to_ready) = (plan.gaps.as_deref(), plan.gaps_to_ready.as_deref());
        let before = unready_before(gaps, to_ready, revision);
        let longest = add(&mut learned.to_listen, gaps, revision, gap);
        if let Some(unready) = unready {
            add(&mut learned.to_ready, to_ready, revision, longest.saturating_add(unready.max(before)));
        }
    }
    next.retain(|_, learned| learned.to_listen.is_some() || learned.to_ready.is_some());
    next
}

/// How long pods of this revision listened before they were ready, as far as is known: of a revision both are written at once, and the
/// longest time of all pods stands between them, so that nobody takes it for shorter who sees one pod listen late and another be ready late.
fn unready_before(gaps: Option<&str>, to_ready: Option<&str>, revision: &str) -> u32 {
    Gaps::parse(to_ready).since(&Gaps::parse(gaps), revision).unwrap_or_default()
}

/// `annotation`: what is known. Says what is known then.
fn add(news: &mut Option<Gaps>, annotation: Option<&str>, revision: &str, milliseconds: u32) -> u32 {
    let known = news.take();
    let before = known.clone().unwrap_or_else(|| Gaps::parse(annotation));
    let with = before.with(revision, milliseconds);
    let longest = with.as_ref().unwrap_or(&before).of(revision).unwrap_or(milliseconds);
    *news = with.or(known);
    longest
}

impl Learned {
    pub(crate) fn annotations(&self) -> impl Iterator<Item = (&'static str, String)> {
        let all = [(annotations::GAP, &self.to_listen), (annotations::GAP_TO_READY, &self.to_ready)];
        all.into_iter().filter_map(|(name, gaps)| Some((name, gaps.as_ref()?.text())))
    }
}

/// Times of a container are whole seconds.
const COARSE: SignedDuration = SignedDuration::from_secs(1);
/// So are those of its readiness, of which the kubelet asks once a second at best, and its agent as soon as it listens.
const COARSE_TO_READY: SignedDuration = SignedDuration::from_secs(2);

/// The gap, or how long the kubelet says that a container was away if that is longer. One agent's report decides about the pods of
/// all nodes: a gap that is too short would have pods held that are away for too long.
///
/// `None`: a container was started after the operation had ended, so this is no report about the ones that run.
fn plausible(gap: u32, transition: &Transition, pod: &PodView) -> Option<u32> {
    let mut longest = gap;
    for state in pod.containers.iter().filter_map(|container| container.status.as_ref()) {
        let Some(started) = state.running_since else { continue };
        if started > transition.since.0 + COARSE {
            return None;
        }
        // One that had ended before was away for other reasons.
        let ended = state.last_ended.filter(|ended| *ended + COARSE >= transition.granted.0);
        let Some(ended) = ended else { continue };
        let away = started.duration_since(ended).saturating_sub(COARSE).as_millis();
        longest = longest.max(u32::try_from(away.max(0)).unwrap_or(u32::MAX));
    }
    Some(longest)
}

/// The same until the pod was ready: at least the gap, and at least as long as the kubelet says.
fn plausible_to_ready(time: u32, gap: u32, transition: &Transition, pod: &PodView) -> u32 {
    let during = transition.granted.0 - COARSE..=transition.since.0 + COARSE;
    let ended = pod.containers.iter().filter_map(|container| container.status.as_ref()?.last_ended);
    let ended = ended.filter(|ended| during.contains(ended)).min();
    let ready = pod.conditions.get("ContainersReady").filter(|ready| ready.is_true).and_then(|ready| ready.since);
    let ready = ready.filter(|ready| during.contains(ready));
    let away =
        ended.zip(ready).map(|(ended, ready)| ready.duration_since(ended).saturating_sub(COARSE_TO_READY).as_millis());
    let away = u32::try_from(away.unwrap_or_default().max(0)).unwrap_or(u32::MAX);
    time.max(gap).max(away)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::pod::ConditionView;
    use serde_json::json;

    /// A pod whose old container ended and whose new one started at these seconds. The operation began at 10 and was done at 20.
    fn operated(ended: Option<u32>, started: u32) -> (PodView, Transition) {
        let at = |second: u32| format!("2026-01-01T00:00:{second:02}Z");
        let last = ended.map_or(json!({}), |ended| json!({"terminated": {"exitCode": 0, "finishedAt": at(ended)}}));
        let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web"}]}, "status": {"containerStatuses": [
            {"name": "web", "ready": true, "restartCount": 1, "image": "web", "imageID": "", "state": {"running": {"startedAt": at(started)}},
                "lastState": last}]}});
        let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).unwrap();
        let transition: Transition = serde_json::from_value(json!({
            "id": "uid.op", "granted": "2026-01-01T00:00:10.000000Z", "phase": "Returning", "since": "2026-01-01T00:00:20.000000Z",
            "result": {"outcome": "Done", "reason": "Verified"}}))
        .unwrap();
        (PodView::from(&pod), transition)
    }

    /// What is learned of it where the agent reports this gap.
    fn learned(ended: Option<u32>, started: u32, gap: u32) -> Option<u32> {
        let (pod, transition) = operated(ended, started);
        plausible(gap, &transition, &pod)
    }

    #[test]
    fn a_pod_is_not_ready_before_it_listens_nor_before_the_kubelet_says_so() {
        let learned = |ready: u32, said: Option<u32>| {
            let (mut pod, transition) = operated(Some(12), 12);
            if let Some(second) = said {
                let since = format!("2026-01-01T00:00:{second:02}Z").parse().ok();
                let condition = ConditionView::new(true, "", "", since);
                pod.conditions.insert("ContainersReady", condition);
            }
            plausible_to_ready(ready, 300, &transition, &pod)
        };
        assert_eq!((learned(900, None), learned(100, None)), (900, 300));
        assert_eq!(learned(900, Some(13)), 900, "times are whole seconds");
        assert_eq!(learned(900, Some(14)), 900, "and the kubelet asks once a second");
        assert_eq!(learned(900, Some(18)), 4000);
        assert_eq!(learned(900, Some(30)), 900, "it has fallen since");
    }

    #[test]
    fn an_agent_s_gap_is_at_least_as_long_as_the_kubelet_says_that_the_container_was_away() {
        assert_eq!(learned(Some(12), 12, 80), Some(80));
        assert_eq!(learned(Some(12), 13, 80), Some(80), "times are whole seconds");
        assert_eq!(learned(Some(12), 19, 80), Some(6000), "a lie, or a node whose agent sees too little");
        assert_eq!(learned(Some(12), 19, 9000), Some(9000), "until somebody listens it may take longer");
        assert_eq!(learned(None, 12, 80), Some(80));
    }

    #[test]
    fn what_came_before_or_after_the_operation_is_not_learned() {
        assert_eq!(learned(Some(0), 8, 80), Some(80), "a sidecar that was restarted long before");
        assert_eq!(learned(Some(0), 12, 80), Some(80), "it had crashed, and was waiting for the kubelet's back-off");
        assert_eq!(learned(Some(40), 50, 80), None, "one that has crashed since");
    }
}

//! Starts that take much longer than any that was seen: said, and held against nobody. How long a start may take is its owner's to write
//! down (docs/contract.md#bad-version).

use hitless_api::event::{EventNote, Severity};
use hitless_api::pod::PodView;
use hitless_api::{Grant, Phase, Transition};
use hitless_workloads::Plan;
use jiff::{SignedDuration, Timestamp};

use crate::mode::start_seconds;
use crate::round::facts::Facts;
use crate::round::facts::companions::is_moving;
use crate::round::features::{Effects, FeatureContext};
use crate::round::note::{note, regarding};

/// So many times what the slowest one needed is worth a word.
const TIMES: u32 = 3;

/// But not before so long.
const LEAST: SignedDuration = SignedDuration::from_secs(30);

/// What is to be said of the starts that are under way, and when one of them gets slow, or late.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let FeatureContext { facts, now, .. } = *context;
    let mut effects = Effects::default().waking(late_at(facts, now));
    for view in facts.snapshot.node_transitions.values() {
        let starting = view.unfinished().filter_map(|grant| Some((grant, view.transition(grant)?)));
        for (grant, transition) in starting.filter(|(_, transition)| is_starting(transition)) {
            let Some((longest, at)) = slow_at(facts, grant, transition) else { continue };
            if now < at {
                effects.wake(at);
            } else {
                effects.notes.extend(words(facts, grant, transition, longest));
            }
        }
    }
    effects
}

/// When a pod that has the version has had as long as its owner allows to become Ready.
pub(crate) fn ready_by(plan: &Plan, pod: &PodView) -> Option<Timestamp> {
    let started = pod.containers.iter().filter_map(|container| container.status.as_ref()?.running_since);
    let allowed = SignedDuration::from_secs(start_seconds(pod, plan.progress_deadline_seconds).into());
    started.max().or(pod.created)?.saturating_add(allowed).ok()
}

/// When either is next the case with a pod that others wait for.
fn late_at(facts: &Facts<'_, '_>, now: Timestamp) -> Option<Timestamp> {
    let moving = facts.desired.plans.iter().filter(|plan| is_moving(plan));
    let starting = moving.flat_map(|plan| {
        let pods = facts.desired.pods_of(plan).filter(|pod| !pod.ready() && !plan.behind.contains(&pod.id.uid));
        pods.filter_map(|pod| ready_by(plan, pod))
    });
    let down = facts.ended.over().filter_map(|over| facts.down_from(over));
    starting.chain(down).filter(|at| *at > now).min()
}

fn is_starting(transition: &Transition) -> bool {
    transition.phase == Phase::Verifying && transition.rollback.is_none()
}

/// The longest start that was seen of the pod's workload, and when this one takes so many times as long.
fn slow_at(facts: &Facts<'_, '_>, grant: &Grant, transition: &Transition) -> Option<(SignedDuration, Timestamp)> {
    let pod = facts.desired.pods.get(grant.pod.uid.as_str())?;
    let plan = &facts.desired.plans[facts.desired.workload_of(pod)?];
    let others = facts.desired.pods_of(plan).filter(|other| other.id.uid != pod.id.uid).filter_map(needed);
    let companion = facts.companions.start_milliseconds(plan);
    let longest = others.chain(companion.map(|needed| SignedDuration::from_millis(needed.into()))).max()?;
    let limit = SignedDuration::from_secs(longest.as_secs().saturating_mul(TIMES.into())).max(LEAST);
    Some((longest, transition.since.0.saturating_add(limit).ok()?))
}

/// From the start of its containers to Ready; of a pod that was held, and so stayed Ready, nothing is known.
fn needed(pod: &PodView) -> Option<SignedDuration> {
    let ready = pod.conditions.get("Ready").filter(|ready| ready.is_true)?.since?;
    let starts = pod.containers.iter().map(|container| container.status.as_ref()?.running_since);
    let started = starts.collect::<Option<Vec<_>>>()?.into_iter().max()?;
    Some(ready.duration_since(started)).filter(|needed| !needed.is_negative())
}

pub(crate) fn words(
    facts: &Facts<'_, '_>,
    grant: &Grant,
    transition: &Transition,
    longest: SignedDuration,
) -> Option<EventNote> {
    let pod = facts.desired.pods.get(grant.pod.uid.as_str())?;
    let plan = &facts.desired.plans[facts.desired.workload_of(pod)?];
    let until = transition.deadline.as_ref().map(|deadline| format!(", at {}", deadline.0)).unwrap_or_default();
    let text = format!(
        "pod {} has been starting since {}, {TIMES} times as long as any start of this workload that was seen ({} s); it is judged when its \
         time is over{until}; for an earlier way back shorten progressDeadlineSeconds, or verify.progressSeconds of a DrainPolicy",
        pod.id.name,
        transition.since.0,
        longest.as_secs().max(1)
    );
    Some(note(regarding(plan), Severity::Normal, "SlowStart", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    #[test]
    fn a_start_is_seen_from_its_last_container_to_ready() {
        let needed = |status: &str, started: &str| {
            let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-11-23T00:00:40Z"});
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "web"}]},
                "status": {"conditions": [ready], "containerStatuses": [{"name": "web", "image": "", "imageID": "", "ready": true,
                    "restartCount": 0, "state": {"running": {"startedAt": started}}}]}}))
            .unwrap();
            needed(&PodView::from(&pod)).map(|needed| needed.as_secs())
        };
        assert_eq!(needed("True", "2026-11-23T00:00:20Z"), Some(20));
        assert_eq!(needed("False", "2026-11-23T00:00:20Z"), None);
        assert_eq!(needed("True", "2026-11-23T00:01:00Z"), None, "it was held");
    }
}

//! What all pods of a workload need is away while one of them is being operated.

use std::sync::Arc;

use hitless_api::pod::{ConditionView, PodView};
use hitless_api::{Grant, MicroTime};
use hitless_rollout::round::{Round, WaitReason};
use hitless_rollout::snapshot::Snapshot;
use hitless_workloads::{Object, Write};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::blips::{Is, V1, V2, a_pod, rollout};
use crate::scene::{LONG_AGO, decide, grants, now, transition, view, written};
use crate::stateful_set::granted;

/// The grant of the first pod of a StatefulSet of three, all of which serve.
pub(crate) fn first() -> Grant {
    let grants = granted(&decide(&rollout([(V1, Is::Ready), (V1, Is::Ready), (V1, Is::Ready)])));
    let [grant] = &grants[..] else { panic!("{grants:?}") };
    assert_eq!((grant.pod.name.as_str(), grant.verify.alone), ("web-2", false));
    grant.clone()
}

/// The other pods are so; those that are not Ready have become so since the grant. `result`: how the first one has ended.
pub(crate) fn others(is: [Is; 2], grant: &Grant, result: Option<&Value>) -> Snapshot {
    let version = if result.is_some() { V1 } else { V2 };
    let snapshot = rollout([(V1, is[0]), (V1, is[1]), (version, Is::Unready)]);
    let pods =
        [(V1, is[0]), (V1, is[1]), (version, Is::Unready)].into_iter().enumerate().map(|(number, (version, is))| {
            let mut pod = a_pod(number, version, is);
            if is != Is::Ready {
                pod["status"]["conditions"][0]["lastTransitionTime"] = json!(now());
            }
            if number == 2 {
                pod["status"]["containerStatuses"][0]["containerID"] = "containerd://2".into();
            }
            Arc::new(view(&pod))
        });
    let mut snapshot = snapshot.with_pods(pods.collect());
    let phase = if result.is_some() { "Returning" } else { "Verifying" };
    let mut report = json!({"id": grant.id, "granted": grant.granted, "phase": phase, "since": grant.granted});
    if let Some(result) = result {
        report["result"] = result.clone();
    }
    snapshot.node_transitions.insert("n1".to_owned(), Arc::new(transition(vec![grant.clone()], &json!([report]))));
    snapshot
}

/// Since when the clock of the first grant stands, as the round writes it.
fn stands(round: &Round) -> Option<MicroTime> {
    grants(round)?.first()?.stands.clone()
}

pub(crate) fn says(round: &Round, reason: &str) -> bool {
    round.events.iter().any(|note| note.reason == reason)
}

fn halts(round: &Round) -> bool {
    let text = |write: &Write| format!("{write:?}").contains("hitless.dev~1halted");
    round.steps.iter().any(|step| text(&step.write))
}

#[test]
fn the_clock_stands_while_at_least_half_of_the_old_pods_have_become_not_ready_too() {
    let grant = first();
    for (is, expected) in [
        ([Is::Ready, Is::Ready], None),
        ([Is::Unready, Is::Ready], Some(MicroTime(now()))),
        ([Is::Unready, Is::Crashing], Some(MicroTime(now()))),
    ] {
        let round = decide(&others(is, &grant, None));
        assert_eq!(
            stands(&round),
            expected,
            "{} others",
            usize::from(is[0] == Is::Ready) + usize::from(is[1] == Is::Ready)
        );
        assert!(grants(&round).is_none_or(|grants| grants.len() == 1), "nobody else goes");
    }
    let away = Grant { stands: Some(MicroTime(now())), ..grant };
    let round = decide(&others([Is::Unready, Is::Unready], &away, None));
    assert!(says(&round, "DependencyAway"), "{:?}", round.events);
    let waits = round.verdicts.iter().filter_map(|verdict| verdict.waiting.as_ref());
    assert!(
        waits.clone().any(|waiting| matches!(waiting, WaitReason::Dependency(_))),
        "{:?}",
        waits.collect::<Vec<_>>()
    );
}

#[test]
fn pods_that_were_not_ready_before_are_no_witnesses() {
    let grant = first();
    let earlier = now().checked_sub(SignedDuration::from_secs(5)).unwrap();
    let mut snapshot = others([Is::Unready, Is::Unready], &grant, None);
    let pods = snapshot.pods.iter().map(|pod| {
        let mut pod = PodView::clone(pod);
        if let Some(ready) = pod.conditions.get_mut("Ready") {
            ready.since = Some(earlier);
        }
        Arc::new(pod)
    });
    snapshot = {
        let pods = pods.collect();
        snapshot.with_pods(pods)
    };
    assert_eq!(stands(&decide(&snapshot)), None);
}

#[test]
fn pods_that_have_not_been_ready_yet_are_no_witnesses() {
    let grant = first();
    let snapshot = others([Is::Unready, Is::Unready], &grant, None);
    for (initialized, expected) in [(now(), None), (LONG_AGO.parse().unwrap(), Some(MicroTime(now())))] {
        let pods = snapshot.pods.iter().map(|pod| {
            let mut pod = PodView::clone(pod);
            pod.conditions.insert("Initialized", ConditionView::new(true, "", "", Some(initialized)));
            Arc::new(pod)
        });
        let pods = pods.collect();
        assert_eq!(stands(&decide(&snapshot.clone().with_pods(pods))), expected, "started at {initialized}");
    }
}

#[test]
fn the_clock_goes_on_when_they_are_back_and_has_lost_no_time() {
    let since = now().checked_sub(SignedDuration::from_secs(60)).unwrap();
    let grant = Grant { stands: Some(MicroTime(since)), ..first() };
    let before = grant.verify.progress_seconds;
    let round = decide(&others([Is::Ready, Is::Ready], &grant, None));
    let grants = grants(&round).unwrap();
    assert_eq!((grants[0].stands.clone(), grants[0].verify.progress_seconds), (None, before + 61));
}

#[test]
fn a_version_is_halted_beside_healthy_old_pods_only_and_tried_again_where_they_had_failed_too() {
    let grant = first();
    let bad = json!({"outcome": "RolledBack", "reason": "ProgressDeadlineExceeded"});
    let round = decide(&others([Is::Ready, Is::Ready], &grant, Some(&bad)));
    assert!(halts(&round), "{:?}", round.steps);
    let round = decide(&others([Is::Unready, Is::Unready], &grant, Some(&bad)));
    assert!(!halts(&round) && stands(&round).is_some(), "{:?}", round.steps);
    let marked = Grant { stands: Some(MicroTime(now())), ..grant };
    let back = others([Is::Ready, Is::Ready], &marked, Some(&bad));
    let round = decide(&back);
    assert!(!halts(&round) && says(&round, "TriedAgain"), "{:?}", round.events);
    assert!(tries_again(&round) && grants(&round).is_none(), "it is written down first: {:?}", round.steps);
    let round = decide(&tried(&back, now()));
    assert!(!tries_again(&round) && !says(&round, "PodRolledBack"), "{:?} {:?}", round.steps, round.events);
    let is_halted = |waiting: &WaitReason| matches!(waiting, WaitReason::Halted { .. });
    assert!(
        !round.verdicts.iter().filter_map(|verdict| verdict.waiting.as_ref()).any(is_halted),
        "{:?}",
        round.verdicts
    );
}

fn tries_again(round: &Round) -> bool {
    !written(round, "try-again").is_empty()
}

/// Its version got another chance then.
fn tried(snapshot: &Snapshot, at: Timestamp) -> Snapshot {
    let target = first().annotations["hitless.dev/revision"].to.clone();
    let value = json!({"revision": target, "at": MicroTime(at)}).to_string();
    let with = |object: &Arc<Object>| {
        let mut object = Object::clone(object);
        if object.stateful_set().is_some() {
            object.annotations.insert("hitless.dev/tried-again".to_owned(), value.clone());
        }
        Arc::new(object)
    };
    Snapshot { objects: snapshot.objects.iter().map(with).collect(), ..snapshot.clone() }
}

#[test]
fn a_version_gets_another_chance_once_and_no_third_one() {
    let bad = json!({"outcome": "RolledBack", "reason": "ProgressDeadlineExceeded"});
    let marked = Grant { stands: Some(MicroTime(now())), ..first() };
    let before = marked.granted.0.checked_sub(SignedDuration::from_secs(1)).unwrap();
    for others_are in [[Is::Ready, Is::Ready], [Is::Unready, Is::Unready]] {
        let round = decide(&tried(&others(others_are, &marked, Some(&bad)), before));
        assert!(halts(&round) && !tries_again(&round) && says(&round, "NotTriedAgain"), "{:?}", round.events);
    }
}

#[test]
fn a_node_that_does_not_do_its_part_keeps_no_pod_of_another_node_back() {
    for reason in ["NotReplaced", "NotLeaving"] {
        let node = json!({"outcome": "Failed", "reason": reason});
        let round = decide(&others([Is::Ready, Is::Ready], &first(), Some(&node)));
        assert!(!halts(&round) && says(&round, "PodFailed"));
        let others = round.verdicts.iter().filter(|verdict| verdict.pod.name != "web-2");
        let is_halted = |waiting: &WaitReason| matches!(waiting, WaitReason::Halted { .. });
        assert!(
            !others.filter_map(|verdict| verdict.waiting.as_ref()).any(is_halted),
            "{reason}: {:?}",
            round.verdicts
        );
    }
}

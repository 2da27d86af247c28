//! A kubelet that has not ended the old containers within their time: it may replace them at any moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::Grant;
use hitless_gate::Consumption;
use hitless_rollout::round::{Lasting, Round, WaitReason};
use hitless_rollout::snapshot::{Evidence, OperationKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::removals::after;
use crate::scene::{self, decide, grants, transition};
use crate::siblings::{only, pod, restarted, snapshot};

/// One of two pods is operated, and so many minutes ago its kubelet was too late. The round that reads this of the pod; `change`: how it is now.
fn after_the_end(minutes: i64, evidence: Evidence, change: impl FnOnce(&mut Value, &Grant)) -> (Round, Grant) {
    after_the("NotReplaced", minutes, evidence, change)
}

fn after_the(
    reason: &str,
    minutes: i64,
    evidence: Evidence,
    change: impl FnOnce(&mut Value, &Grant),
) -> (Round, Grant) {
    let first = decide(&snapshot(&[pod("one"), pod("two")]));
    let grant = only(grants(&first).unwrap());
    let since = scene::now().checked_sub(SignedDuration::from_mins(minutes)).unwrap();
    let report = json!([{"id": grant.id, "granted": grant.granted, "phase": "Returning", "since": since,
        "result": {"outcome": "Failed", "reason": reason}}]);
    let mut pods = ["one", "two"].map(pod);
    change(&mut pods[usize::from(grant.pod.name == "two")], &grant);
    let mut ended = after(snapshot(&pods), &first);
    ended.evidence.insert(OperationKey::granted(&grant), evidence);
    ended.node_transitions = BTreeMap::from([("n1".to_owned(), Arc::new(transition(vec![grant.clone()], &report)))]);
    (decide(&ended), grant)
}

/// What that round leaves of the pod's reservation, if it writes the ledger.
fn place(minutes: i64, change: impl FnOnce(&mut Value, &Grant)) -> (Option<usize>, Option<Timestamp>) {
    let (round, grant) = after_the_end(minutes, Evidence::Ready, change);
    (reserved(&round, &grant.pod.uid), round.wake_at)
}

fn replaced(pod: &mut Value, grant: &Grant) {
    *pod = restarted(pod.take(), grant);
}

fn replaced_and_down(pod: &mut Value, grant: &Grant) {
    replaced(pod, grant);
    pod["status"]["conditions"][0]["status"] = json!("False");
}

fn reserved(round: &Round, uid: &str) -> Option<usize> {
    scene::ledgers(round).first().map(|spec| usize::from(spec.reservations.contains_key(uid)))
}

#[test]
fn a_pod_whose_containers_may_still_be_replaced_keeps_its_place() {
    let (kept, wake_at) = place(1, |_, _| {});
    let until = scene::now().checked_add(SignedDuration::from_mins(9)).unwrap();
    assert_ne!(kept, Some(0), "it is Ready, and may be away at any moment");
    assert_eq!(wake_at, Some(until));
    let (kept, _) = place(11, |_, _| {});
    assert_eq!(kept, Some(0), "nobody waits for it for ever");
}

#[test]
fn once_they_are_its_place_ends_when_the_pod_is_ready() {
    assert_eq!(place(1, replaced).0, Some(0));
    assert_ne!(place(1, replaced_and_down).0, Some(0));
}

/// Something else is wanted of it, which can't begin before the kubelet has replaced them.
#[test]
fn its_place_is_kept_too_where_another_restart_waits_for_it() {
    let (round, grant) = after_the_end(0, Evidence::Ready, |pod, grant| {
        for (name, change) in &grant.annotations {
            pod["metadata"]["annotations"][name] = change.to.clone().into();
        }
        pod["spec"]["containers"][0]["image"] = json!("r.io/web:next");
        pod["metadata"]["annotations"]["hitless.dev/replaced"] = json!(grant.before).to_string().into();
        pod["metadata"]["annotations"]["hitless.dev/restart"] = json!("again");
    });
    let waits = |is_own: bool| {
        let verdict = round.verdicts.iter().find(|verdict| (verdict.pod.name == grant.pod.name) == is_own).unwrap();
        verdict.waiting.as_ref().map(WaitReason::reason)
    };
    assert_eq!((waits(true), waits(false)), (Some("NotReplaced"), Some("Rules")));
}

/// The others wait for it, and nothing that is under way brings it back.
#[test]
fn whoever_waits_for_a_pod_whose_operation_has_ended_is_not_told_that_it_is_being_operated() {
    let (round, grant) = after_the_end(0, Evidence::NotReady, replaced_and_down);
    let verdict = round.verdicts.iter().find(|verdict| verdict.pod.name != grant.pod.name).unwrap();
    let holders: Vec<Consumption> = verdict
        .gate
        .iter()
        .flat_map(hitless_gate::Verdict::denied)
        .flat_map(|rule| rule.holders.iter().map(|held| held.why))
        .collect();
    assert_eq!((holders, verdict.lasting()), (vec![Consumption::NotBack], Lasting::BySomebody));
}

#[test]
fn a_pod_whose_node_was_at_fault_is_tried_again_after_ten_minutes() {
    for (reason, minutes, is_again) in
        [("NotLeaving", 9, false), ("NotLeaving", 10, true), ("NotReplaced", 9, false), ("NotReplaced", 10, true)]
    {
        let (round, grant) = after_the(reason, minutes, Evidence::Ready, |_, _| {});
        let is_over = grants(&round).is_some_and(|left| left.is_empty()) && reserved(&round, &grant.pod.uid) == Some(0);
        assert_eq!(is_over, is_again, "{reason} {minutes}: {:?}", round.verdicts);
        let said = round.events.iter().any(|note| note.text.contains("it is tried again at 2026-01-03T00:01:00Z"));
        assert_eq!(said, !is_again, "{reason} {minutes}: {:?}", round.events);
        let verdict = round.verdicts.iter().find(|verdict| verdict.pod.uid == grant.pod.uid).unwrap();
        let why = verdict.waiting.as_ref().map(WaitReason::text).unwrap_or_default();
        assert_eq!(
            why.contains("; it is tried again at 2026-01-03T00:01:00Z; look at the kubelet"),
            !is_again,
            "the same as the Event: {why}"
        );
        let until = scene::now().checked_add(SignedDuration::from_mins(1)).unwrap();
        assert_eq!(round.wake_at == Some(until), !is_again, "{reason} {minutes}: {:?}", round.wake_at);
    }
}

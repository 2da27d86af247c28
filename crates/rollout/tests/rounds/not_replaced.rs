//! A kubelet that has not ended the old containers within their time: it may replace them at any moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_gate::Consumption;
use hitless_rollout::round::{Lasting, Round, WaitReason, Write};
use hitless_rollout::snapshot::{Evidence, OperationKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::removals::after;
use crate::scene::{self, decide, grants, transition};
use crate::siblings::{only, pod, restarted, snapshot};

/// What the round after such an end leaves of the pod's reservation, if it writes the ledger. `change`: how the pod is now.
fn place(minutes: i64, is_replaced: bool, change: fn(&mut Value)) -> (Option<usize>, Option<Timestamp>) {
    let first = decide(&snapshot(&[pod("one"), pod("two")]));
    let grant = only(grants(&first).unwrap());
    let since = scene::now().checked_sub(SignedDuration::from_mins(minutes)).unwrap();
    let report = json!([{"id": grant.id, "granted": grant.granted, "phase": "Returning", "since": since,
        "result": {"outcome": "Failed", "reason": "NotReplaced"}}]);
    let mut pods = ["one", "two"].map(pod);
    let own = usize::from(grant.pod.name == "two");
    if is_replaced {
        pods[own] = restarted(pods[own].clone(), &grant);
    }
    change(&mut pods[own]);
    let mut ended = after(snapshot(&pods), &first);
    ended.evidence.insert(OperationKey::granted(&grant), Evidence::Ready);
    ended.node_transitions = BTreeMap::from([("n1".to_owned(), Arc::new(transition(vec![grant.clone()], &report)))]);
    let round = decide(&ended);
    (reserved(&round, &grant.pod.uid), round.wake_at)
}

fn reserved(round: &Round, uid: &str) -> Option<usize> {
    round.steps.iter().find_map(|step| match &step.write {
        Write::Ledger(write) => Some(usize::from(write.spec.reservations.contains_key(uid))),
        _ => None,
    })
}

#[test]
fn a_pod_whose_containers_may_still_be_replaced_keeps_its_place() {
    let (kept, wake_at) = place(1, false, |_| {});
    let until = scene::now().checked_add(SignedDuration::from_mins(9)).unwrap();
    assert_ne!(kept, Some(0), "it is Ready, and may be away at any moment");
    assert_eq!(wake_at, Some(until));
    let (kept, _) = place(11, false, |_| {});
    assert_eq!(kept, Some(0), "nobody waits for it for ever");
}

#[test]
fn once_they_are_its_place_ends_when_the_pod_is_ready() {
    assert_eq!(place(1, true, |_| {}).0, Some(0));
    let down = |pod: &mut Value| pod["status"]["conditions"][0]["status"] = json!("False");
    assert_ne!(place(1, true, down).0, Some(0));
}

/// Something else is wished of it, which can't begin before the kubelet has replaced them.
#[test]
fn its_place_is_kept_too_where_another_restart_waits_for_it() {
    let first = decide(&snapshot(&[pod("one"), pod("two")]));
    let grant = only(grants(&first).unwrap());
    let report = json!([{"id": grant.id, "granted": grant.granted, "phase": "Returning", "since": scene::now(),
        "result": {"outcome": "Failed", "reason": "NotReplaced"}}]);
    let mut pods = ["one", "two"].map(pod);
    let own = usize::from(grant.pod.name == "two");
    for (name, change) in &grant.annotations {
        pods[own]["metadata"]["annotations"][name] = change.to.clone().into();
    }
    pods[own]["metadata"]["annotations"]["hitless.dev/restart"] = json!("again");
    let mut ended = after(snapshot(&pods), &first);
    ended.evidence.insert(OperationKey::granted(&grant), Evidence::Ready);
    ended.node_transitions = BTreeMap::from([("n1".to_owned(), Arc::new(transition(vec![grant.clone()], &report)))]);
    let round = decide(&ended);
    let waits = |is_own: bool| {
        let verdict = round.verdicts.iter().find(|verdict| (verdict.pod.name == grant.pod.name) == is_own).unwrap();
        verdict.waiting.as_ref().map(WaitReason::reason)
    };
    assert_eq!((waits(true), waits(false)), (Some("NotStarted"), Some("Rules")));
}

/// The others wait for it, and nothing that is under way brings it back.
#[test]
fn whoever_waits_for_a_pod_whose_operation_has_ended_is_not_told_that_it_is_being_operated() {
    let first = decide(&snapshot(&[pod("one"), pod("two")]));
    let grant = only(grants(&first).unwrap());
    let report = json!([{"id": grant.id, "granted": grant.granted, "phase": "Returning", "since": scene::now(),
        "result": {"outcome": "Failed", "reason": "NotReplaced"}}]);
    let mut pods = ["one", "two"].map(pod);
    let own = usize::from(grant.pod.name == "two");
    pods[own] = restarted(pods[own].clone(), &grant);
    pods[own]["status"]["conditions"][0]["status"] = json!("False");
    let mut ended = after(snapshot(&pods), &first);
    ended.evidence.insert(OperationKey::granted(&grant), Evidence::NotReady);
    ended.node_transitions = BTreeMap::from([("n1".to_owned(), Arc::new(transition(vec![grant.clone()], &report)))]);
    let round = decide(&ended);
    let verdict = round.verdicts.iter().find(|verdict| verdict.pod.name != grant.pod.name).unwrap();
    let holders: Vec<Consumption> = verdict
        .gate
        .iter()
        .flat_map(hitless_gate::Verdict::denied)
        .flat_map(|rule| rule.holders.iter().map(|held| held.why))
        .collect();
    assert_eq!((holders, verdict.lasting()), (vec![Consumption::NotBack], Lasting::BySomebody));
}

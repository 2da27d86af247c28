//! Pods that are Ready, but not for as long as their workload wants (`minReadySeconds`).

use hitless_gate::{Consumption, Verdict};
use serde_json::json;

use crate::scene::Namespace;

/// One pod is asked about while p0 was Ready only recently.
fn ask(namespace: &Namespace, name: &str) -> Verdict {
    let mut gate = namespace.gate();
    gate.set_recently_ready(["uid-p0"]);
    gate.decide(&[Namespace::candidate(name)], &namespace.approvals, namespace.now).remove(0)
}

#[test]
fn to_others_it_is_unavailable_and_to_itself_it_is_not() {
    let pods = || Namespace::of(3).on(&["a1", "b1", "b2"]);
    for namespace in [
        pods().max(1),
        pods().min(2),
        pods().budget(json!({"maxUnavailable": 1})),
        pods().budget(json!({"minAvailable": 2})),
        pods().budget(json!({"maxUnavailableNodes": 1})),
        pods().budget(json!({"topology": {"key": "topology.kubernetes.io/zone"}})),
        pods().pdb(json!({"matchLabels": {"app": "web"}}), json!(2), json!(null)),
    ] {
        let other = ask(&namespace, "p1");
        assert!(!other.allowed, "{other}");
        let itself = ask(&namespace, "p0");
        assert!(itself.allowed && !itself.rests_on_unavailability(), "{itself}");
        let (later, all) = (namespace.one("p1"), namespace.all());
        assert!(later.allowed && all.iter().filter(|verdict| verdict.allowed).count() == 1, "{later}");
    }
}

#[test]
fn on_its_node_it_is_missed_by_others_and_not_by_itself() {
    let namespace = Namespace::of(2).on(&["a1", "a1"]).budget(json!({"perNodeMinAvailable": 1}));
    assert!(!ask(&namespace, "p1").allowed);
    assert!(ask(&namespace, "p0").allowed);
}

#[test]
fn one_more_that_is_down_stands_in_its_way_as_in_that_of_any_other() {
    let down = || Namespace::of(4).on(&["a1", "b1", "c1", "c1"]).down(&["p3"]);
    for namespace in [
        down().max(1),
        down().budget(json!({"maxUnavailableNodes": 1})),
        down().budget(json!({"topology": {"key": "topology.kubernetes.io/zone"}})),
    ] {
        let itself = ask(&namespace, "p0");
        assert!(!itself.allowed, "{itself}");
    }
    assert!(ask(&down().max(2), "p0").allowed);
}

#[test]
fn it_is_named_as_the_one_that_holds_the_budget() {
    let verdict = ask(&Namespace::of(3).max(1), "p1");
    let holders: Vec<_> = verdict.rules[0].holders.iter().map(|each| (each.pod.as_str(), each.why)).collect();
    assert_eq!(holders, [("p0", Consumption::RecentlyReady)]);
}

#[test]
fn it_settles_when_it_is_told_so() {
    let namespace = Namespace::of(3).max(1);
    let mut gate = namespace.gate();
    let allowed = |gate: &hitless_gate::Gate| {
        gate.decide(&[Namespace::candidate("p1")], &namespace.approvals, namespace.now)[0].allowed
    };
    gate.set_recently_ready(["uid-p0"]);
    assert!(!allowed(&gate));
    gate.upsert_pod(&namespace.pods[0]);
    assert!(!allowed(&gate), "another look at the pod does not change that");
    gate.set_recently_ready([]);
    assert!(allowed(&gate));
}

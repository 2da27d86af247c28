//! How many pods, nodes and zones at a time.

use hitless_gate::{Allows, Denies, Reason};
use serde_json::{Value, json};

use crate::scene::Namespace;

#[test]
fn a_maximum_rounds_down_and_a_minimum_up_where_upstreams_round_the_other_way() {
    for (pods, spec, allowed) in [
        (3, json!({"maxUnavailable": "50%"}), 1),
        (4, json!({"maxUnavailable": "50%"}), 2),
        (9, json!({"maxUnavailable": "10%"}), 0),
        (3, json!({"maxUnavailable": 2}), 2),
        (3, json!({"minAvailable": "50%"}), 1),
        (10, json!({"minAvailable": "91%"}), 0),
        (3, json!({"minAvailable": 1}), 2),
        (3, json!({"maxUnavailable": 2, "minAvailable": 2}), 1),
        (3, json!({}), 3),
    ] {
        assert_eq!(Namespace::of(pods).budget(spec.clone()).allowed().len(), allowed, "{spec} of {pods}");
    }
}

#[test]
fn what_is_down_or_reserved_counts_and_does_not_stand_in_its_own_way() {
    let namespace = Namespace::of(5).budget(json!({"maxUnavailable": 2})).down(&["p4"]).reserved(&["p3"]);
    assert_eq!(namespace.allowed(), ["p4", "p3"]);
    let because = namespace.one("p4").rules[0].because.clone();
    assert!(
        matches!(because, Reason::Allows(Allows::WithinBudget { unavailable: 1, max_unavailable: Some(2), .. })),
        "{because}"
    );
}

#[test]
fn so_many_nodes_at_a_time_and_all_of_a_node_together() {
    let namespace = Namespace::of(6).on(&["a1", "a2", "b1"]).budget(json!({"maxUnavailableNodes": 1}));
    assert_eq!(namespace.allowed(), ["p0", "p3"], "both of the first node");
    let because = namespace.one("p0").rules[0].because.clone();
    assert_eq!(because, Allows::WithinNodes { quota: 1, unavailable: 0, total: 3 });
    let down = namespace.down(&["p1"]);
    assert_eq!(down.allowed(), ["p1", "p4"], "the node that has one down already");
    let because = down.one("p0").rules[0].because.clone();
    assert_eq!(because, Denies::MaxUnavailableNodes { quota: 1, unavailable: 1, total: 3 });
}

#[test]
fn a_share_of_nodes_rounds_down_over_the_nodes_that_have_pods() {
    let nodes = ["a1", "a2", "a3", "b1", "b2"];
    for (share, allowed) in [("19%", 0), ("20%", 1), ("59%", 2), ("100%", 5)] {
        let namespace = Namespace::of(5).on(&nodes).budget(json!({"maxUnavailableNodes": share}));
        assert_eq!(namespace.allowed().len(), allowed, "{share}");
    }
}

#[test]
fn one_zone_at_a_time() {
    let zone = json!({"topology": {"key": "topology.kubernetes.io/zone"}});
    let namespace = Namespace::of(6).on(&["a1", "b1", "a2", "b2", "c1", "c2"]).budget(zone);
    assert_eq!(namespace.allowed(), ["p0", "p2"], "all of zone a, over its nodes");
    let reserved = namespace.reserved(&["p3"]);
    assert_eq!(reserved.allowed(), ["p1", "p3"], "zone b has begun");
    let because = reserved.one("p0").rules[0].because.clone();
    let key = "topology.kubernetes.io/zone".to_owned();
    assert_eq!(because, Denies::MaxUnavailableDomains { key, most: 1, unavailable: 1, domains: vec!["b".into()] });
    let two = json!({"topology": {"key": "topology.kubernetes.io/zone", "maxUnavailableDomains": 2}});
    assert_eq!(Namespace::of(3).on(&["a1", "b1", "c1"]).budget(two).allowed(), ["p0", "p1"]);
}

#[test]
fn nodes_without_the_label_are_one_domain() {
    let rack = json!({"topology": {"key": "rack"}});
    let namespace = Namespace::of(3).on(&["a1", "b1", "c1"]).budget(rack);
    let mut gate = namespace.gate();
    gate.set_node("d1", [("rack", "r1")]);
    let candidates = ["p0", "p1", "p2"].map(Namespace::candidate);
    let verdicts = gate.decide(&candidates, &namespace.approvals, namespace.now);
    assert_eq!(verdicts.iter().filter(|verdict| verdict.allowed).count(), 3);
}

#[test]
fn a_label_that_no_node_has_lets_nobody_go() {
    let misspelt = json!({"topology": {"key": "topology.kubernetes.io/zonee"}});
    let namespace = Namespace::of(3).on(&["a1", "b1", "c1"]).budget(misspelt);
    assert_eq!(namespace.allowed(), Vec::<String>::new());
    let because = namespace.one("p0").rules[0].because.to_string();
    assert!(because.contains("no node has the label topology.kubernetes.io/zonee"), "{because}");
}

#[test]
fn a_node_that_is_relabelled_moves_to_another_domain() {
    let zone = json!({"topology": {"key": "topology.kubernetes.io/zone"}});
    let namespace = Namespace::of(2).on(&["a1", "b1"]).budget(zone).down(&["p0"]);
    let mut gate = namespace.gate();
    let allowed = |gate: &hitless_gate::Gate| {
        gate.decide(&[Namespace::candidate("p1")], &namespace.approvals, namespace.now)[0].allowed
    };
    assert!(!allowed(&gate));
    gate.set_node("b1", [("topology.kubernetes.io/zone", "a")]);
    assert!(allowed(&gate));
    gate.remove_node("b1");
    assert!(!allowed(&gate));
}

#[test]
fn so_many_stay_on_every_node() {
    let namespace = Namespace::of(5).on(&["a1", "a2"]).budget(json!({"perNodeMinAvailable": 1}));
    // p0, p2, p4 are on a1, p1 and p3 on a2.
    assert_eq!(namespace.allowed(), ["p0", "p1", "p2"]);
    let last = namespace.down(&["p0", "p2"]);
    assert_eq!(last.allowed(), ["p0", "p2", "p1"]);
    let verdict = last.one("p4");
    let because = Denies::PerNodeMinAvailable { node: "a1".into(), fewest: 1, available: 1 };
    assert_eq!(verdict.rules[0].because, because);
    let holders: Vec<_> = verdict.rules[0].holders.iter().map(|holder| holder.pod.as_str()).collect();
    assert_eq!(holders, ["p0", "p2"], "only those of the node");
}

#[test]
fn so_many_operations_at_a_time_available_or_not() {
    let namespace = Namespace::of(4).budget(json!({"maxConcurrent": 2})).down(&["p3"]);
    assert_eq!(namespace.allowed(), ["p3", "p0"], "a pod that is down anyway takes a place too");
    let reserved = namespace.reserved(&["p1"]);
    assert_eq!(reserved.allowed(), ["p3", "p1"]);
    let verdict = reserved.one("p0");
    assert!(verdict.allowed, "one is running, p3 is only down");
    let full = reserved.reserved(&["p2"]).one("p0");
    assert_eq!(full.rules[0].because, Denies::MaxConcurrent { most: 2, running: 2 });
    let holders: Vec<_> = full.rules[0].holders.iter().map(|holder| holder.pod.as_str()).collect();
    assert_eq!(holders, ["p1", "p2"], "not p3, which is not operated");
    assert!(Namespace::of(1).budget(json!({"maxConcurrent": 0})).denial().contains("at most 0 may be"));
}

#[test]
fn a_disruption_budget_is_never_pushed_below_its_bound() {
    let all = || json!({});
    for (pods, min, max, allowed) in [
        (4, json!(3), Value::Null, 1),
        (4, json!("60%"), Value::Null, 1),
        (4, Value::Null, json!(2), 2),
        (5, Value::Null, json!("30%"), 2),
        (2, Value::Null, json!(0), 0),
        (2, Value::Null, Value::Null, 2),
    ] {
        let namespace = Namespace::of(pods).pdb(all(), min.clone(), max.clone());
        assert_eq!(namespace.allowed().len(), allowed, "{min} {max} of {pods}");
    }
    for (min, max) in [(json!("100%"), Value::Null), (Value::Null, json!(0))] {
        let namespace = Namespace::of(3).desired(2).pdb(all(), min.clone(), max.clone());
        assert_eq!(namespace.allowed().len(), 1, "{min} {max}: a pod more than desired makes room");
    }
    assert_eq!(Namespace::of(2).pdb(Value::Null, json!(2), Value::Null).allowed().len(), 2, "no selector: nobody");
    let broken = Namespace::of(2).pdb(all(), json!("two"), Value::Null);
    assert!(broken.denial().contains("pdb:pdb0: the rule can't be understood: minAvailable is \"two\""));
}

#[test]
fn overlapping_budgets_each_count_their_own_and_nobody_waits_for_half_a_place() {
    let half = json!({"matchLabels": {"half": "left"}});
    let namespace = Namespace::of(6)
        .budget(json!({"maxUnavailable": 3}))
        .max(4)
        .pdb(half, Value::Null, json!(1))
        .label("p0", "half", "left")
        .label("p1", "half", "left")
        .label("p2", "half", "left");
    // Of the left half one; the budget has room for two more, which the right half gets.
    assert_eq!(namespace.allowed(), ["p0", "p3", "p4"]);
    // One that is down and reserved counts once in each of them.
    let down = namespace.down(&["p0"]).reserved(&["p0"]);
    assert_eq!(down.allowed(), ["p0", "p3", "p4"]);
}

#[test]
fn a_place_of_a_pod_that_is_not_known_counts_once_the_pod_is() {
    let namespace = Namespace::of(3).budget(json!({"maxUnavailable": 1, "maxConcurrent": 1})).reserved(&["p2"]);
    let mut gate = namespace.gate();
    let allowed = |gate: &hitless_gate::Gate| {
        gate.decide(&[Namespace::candidate("p0")], &namespace.approvals, namespace.now)[0].allowed
    };
    assert!(!allowed(&gate));
    gate.remove_pod("uid-p2");
    // It is missing, as its owner wants three.
    assert!(!allowed(&gate));
    gate.set_owner(&crate::scene::owner("web"), Some(hitless_gate::OwnerFacts::of(2)));
    assert!(allowed(&gate), "its operation ended with it");
    gate.upsert_pod(&namespace.pods[2]);
    assert!(!allowed(&gate));
    gate.set_reserved([].into());
    assert!(allowed(&gate));
}

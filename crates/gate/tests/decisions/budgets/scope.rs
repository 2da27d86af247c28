//! Whom a budget counts, and what takes the place of the implicit one.

use hitless_gate::{ImplicitBudget, PodFacts};
use serde_json::json;

use crate::scene::{Namespace, pod};

fn elsewhere() -> PodFacts {
    PodFacts { namespace: "other".into(), ..pod("q0", None) }
}

#[test]
fn a_budget_of_hitless_system_with_scope_cluster_counts_everybody() {
    let spec = json!({"scope": "Cluster", "selector": {}, "maxConcurrent": 1});
    let mut namespace = Namespace::of(1).budget_in("hitless-system", "all", spec);
    namespace.pods.push(elsewhere());
    let verdicts = namespace.all();
    assert_eq!(
        verdicts.iter().map(|verdict| (verdict.pod.as_str(), verdict.allowed)).collect::<Vec<_>>(),
        [("p0", true), ("q0", false)]
    );
    assert_eq!(&*verdicts[1].rules[0].rule, "budget:hitless-system.all/maxConcurrent");
    assert_eq!(verdicts[1].rules[0].rule_set(), None);
    assert!(namespace.gate().counts_cluster_wide("uid-p0") && !namespace.gate().counts_cluster_wide("uid-p7"));
    assert_eq!(namespace.gate().selected_by_budget("hitless-system", "all"), 2);
}

/// An operator of others that died keeps its pod out; one namespace does not hold up the whole cluster with that.
#[test]
fn what_others_have_operated_for_too_long_counts_in_its_own_namespace_only() {
    for (limit, others_go) in [
        (json!({"maxUnavailable": 1}), true),
        (json!({"maxConcurrent": 1}), true),
        (json!({"minAvailable": "60%"}), true),
        // So many have to be there, whosever fault it is that they are not.
        (json!({"minAvailable": 3}), false),
    ] {
        let mut spec = json!({"scope": "Cluster", "selector": {}});
        spec.as_object_mut().unwrap().extend(limit.as_object().unwrap().clone());
        let mut namespace = Namespace::of(2).budget_in("hitless-system", "all", spec).down(&["p0"]).reserved(&["p0"]);
        namespace.pods.extend([elsewhere(), PodFacts { namespace: "other".into(), ..pod("q1", None) }]);
        let is_allowed = |overdue: &[&str], name: &str| {
            let mut gate = namespace.gate();
            gate.set_overdue(overdue.iter().copied());
            gate.decide(&[Namespace::candidate(name)], &namespace.approvals, namespace.now)[0].allowed
        };
        assert!(!is_allowed(&[], "q0"), "{limit}: as long as it is young it counts for everybody");
        assert_eq!(is_allowed(&["uid-p0"], "q0"), others_go, "{limit}");
        assert!(!is_allowed(&["uid-p0"], "p1"), "{limit}: for its own namespace it counts for ever");
    }
    let namespaced = Namespace::of(2).budget(json!({"maxUnavailable": 1})).down(&["p0"]).reserved(&["p0"]);
    let mut gate = namespaced.gate();
    gate.set_overdue(["uid-p0"]);
    assert!(!gate.decide(&[Namespace::candidate("p1")], &namespaced.approvals, namespaced.now)[0].allowed);
}

#[test]
fn scope_cluster_elsewhere_is_a_fault_and_lets_nobody_of_that_namespace_go() {
    let spec = json!({"scope": "Cluster", "selector": {}, "maxConcurrent": 9});
    let mut namespace = Namespace::of(1).budget_in("default", "all", spec);
    namespace.pods.push(elsewhere());
    assert_eq!(namespace.allowed(), ["q0"]);
    assert!(namespace.budgets[0].faults()[0].contains("obeyed in namespace hitless-system only"));
    assert!(!namespace.gate().counts_cluster_wide("uid-p0"));
    assert!(namespace.budgets[0].selects(&namespace.pods[0]) && !namespace.budgets[0].selects(&namespace.pods[1]));
}

#[test]
fn a_budget_without_a_selector_limits_nobody_and_is_a_fault() {
    let namespace = Namespace::of(1).budget_in("default", "b", json!({"paused": true}));
    assert_eq!(namespace.allowed(), ["p0"]);
    assert!(namespace.budgets[0].faults()[0].contains("spec.selector is absent"));
}

#[test]
fn a_selector_that_is_not_understood_limits_the_whole_scope() {
    let bad = json!({"matchExpressions": [{"key": "app", "operator": "in", "values": ["db"]}]});
    // The same with limits that let everybody go: what counts is that nobody knows for whom they are.
    for spec in [json!({"paused": true}), json!({"maxUnavailable": "100%"})] {
        let mut spec = spec;
        spec["selector"] = bad.clone();
        let mut here = Namespace::of(1).budget_in("default", "b", spec.clone());
        here.pods.push(elsewhere());
        assert_eq!(here.allowed(), ["q0"]);
        assert!(here.budgets[0].selects(&here.pods[0]) && !here.budgets[0].selects(&here.pods[1]));
        spec["scope"] = json!("Cluster");
        let mut everywhere = Namespace::of(1).budget_in("hitless-system", "all", spec);
        everywhere.pods.push(elsewhere());
        assert!(everywhere.allowed().is_empty());
        assert!(everywhere.denial().starts_with("all/spec.selector: "), "{}", everywhere.denial());
        assert!(everywhere.budgets[0].faults()[0].contains("operator \"in\""));
    }
    let guarded = Namespace::of(1).pdb(bad, json!(null), json!("100%"));
    assert!(guarded.denial().starts_with("pdb0/spec.selector: "), "{}", guarded.denial());
}

#[test]
fn what_a_budget_says_and_can_not_be_understood_lets_nobody_go() {
    for spec in [
        json!({"maxUnavailable": "many"}),
        json!({"minAvailable": -1}),
        json!({"maxUnavailableNodes": "x"}),
        json!({"windows": [{"start": "22:00", "end": "04:00", "timeZone": "Mars/Olympus"}]}),
    ] {
        let namespace = Namespace::of(1).budget(spec.clone()).down(&["p0"]);
        assert!(!namespace.one("p0").allowed, "{spec}");
        assert_eq!(namespace.budgets[0].faults().len(), 1, "{spec}");
    }
}

#[test]
fn only_a_limit_of_availability_takes_the_place_of_the_implicit_budget() {
    let implicit = || Namespace { implicit: Some(ImplicitBudget::default()), ..Namespace::of(8) };
    assert_eq!(implicit().allowed().len(), 2);
    assert_eq!(implicit().budget(json!({"maxUnavailable": 5})).allowed().len(), 5);
    assert_eq!(implicit().budget(json!({"minAvailable": 1})).allowed().len(), 7);
    for spec in [json!({"maxConcurrent": 8}), json!({"soakSeconds": 1}), json!({"maxUnavailableNodes": 9}), json!({})] {
        assert_eq!(implicit().budget(spec.clone()).allowed().len(), 2, "{spec}");
    }
    assert_eq!(implicit().pdb(json!({}), json!(1), json!(null)).allowed().len(), 2, "nor does a PodDisruptionBudget");
    let wider = Namespace { implicit: Some(ImplicitBudget { percent: 50 }), ..Namespace::of(8) };
    assert_eq!(wider.allowed().len(), 4);
}

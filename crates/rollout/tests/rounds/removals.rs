//! Pods of a CollaSet that serve nobody and are to be made anew: judged by the rules, reserved, and deleted then. No agent is asked.

use std::sync::Arc;

use hitless_api::transition_budget::TransitionBudget;
use hitless_rollout::round::{Round, WaitReason};
use hitless_rollout::snapshot::{AgentState, LedgerView, Snapshot, Version};
use serde_json::{Value, json};

use crate::scene::{self, LONG_AGO, decide, grants, meta, template, view};

const GROUP: &str = "apps.kusionstack.io/v1alpha1";

fn owner() -> Value {
    json!([{"apiVersion": GROUP, "kind": "CollaSet", "name": "set", "uid": "uid-set", "controller": true}])
}

/// Five pods at v1 that are to be made anew at v2. What all their probes ask is away, or not.
fn snapshot(succeed: bool) -> Snapshot {
    with_policy("ReCreate", succeed)
}

/// The same, where this says how they get there.
fn with_policy(policy: &str, succeed: bool) -> Snapshot {
    let revision = |name: &str, number: u32, image: &str| {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta(name), "revision": number,
            "data": {"spec": {"template": template(image)}}});
        object["metadata"]["ownerReferences"] = owner();
        object
    };
    let context = |id: u32| {
        let data = json!({"Owner": "set", "Revision": "set-1", "hitless.dev/pod": format!("web-{id}")});
        json!({"id": id, "data": data})
    };
    let objects = [
        json!({"apiVersion": GROUP, "kind": "CollaSet", "metadata": meta("set"),
            "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": template("r.io/web:v2"),
                "updateStrategy": {"podUpgradePolicy": policy}}}),
        json!({"apiVersion": GROUP, "kind": "ResourceContext", "metadata": meta("set"),
            "spec": {"contexts": (0..5).map(context).collect::<Vec<_>>()}}),
        revision("set-1", 1, "r.io/web:v1"),
        revision("set-2", 2, "r.io/web:v2"),
    ];
    let pod = |id: u32| {
        let mut pod = scene::pod(&meta(&format!("web-{id}")), "r.io/web:v1", "r.io/web@sha256:1", LONG_AGO);
        pod["metadata"]["ownerReferences"] = owner();
        pod["metadata"]["labels"] = json!({"app": "web", "kusionstack.io/control": "true",
            "collaset.kusionstack.io/instance-id": id.to_string(), "controller-revision-hash": "set-1"});
        if !succeed {
            pod["status"]["conditions"][0] =
                json!({"type": "Ready", "status": "False", "reason": "ContainersNotReady"});
        }
        Arc::new(view(&pod))
    };
    let first = scene::snapshot(&objects, (*pod(0)).clone(), &["r.io/web:v1", "r.io/web:v2"]);
    first.with_pods((0..5).map(pod).collect())
}

fn budget(spec: &Value) -> Vec<Arc<hitless_gate::Budget>> {
    let mut object = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionBudget", "metadata": meta("stop"), "spec": spec});
    object["spec"]["selector"] = json!({});
    vec![Arc::new(serde_json::from_value::<TransitionBudget>(object).unwrap().into())]
}

/// Names of pods whose removal is reserved.
fn reserved(round: &Round) -> Vec<String> {
    let all = scene::ledgers(round).into_iter().flat_map(|spec| spec.reservations.into_values());
    all.filter(|each| each.removal).map(|each| each.pod).collect()
}

fn deleted(round: &Round) -> Vec<String> {
    scene::written(round, "delete-pod").into_iter().map(|write| write.on.name.clone()).collect()
}

fn waiting(round: &Round) -> Vec<&'static str> {
    round.verdicts.iter().map(|verdict| verdict.waiting.as_ref().map_or("", WaitReason::reason)).collect()
}

/// As it is once the ledger has been written.
pub(crate) fn after(snapshot: Snapshot, round: &Round) -> Snapshot {
    let version = Version { uid: "ledger".to_owned(), resource_version: "1".to_owned() };
    let spec = scene::ledgers(round).remove(0);
    let ledger = LedgerView { namespace: "shop".to_owned(), version, spec };
    Snapshot { ledgers: [("shop".to_owned(), Arc::new(ledger))].into(), ..snapshot }
}

#[test]
fn one_of_five_is_reserved_without_an_agent_and_deleted_in_the_next_round() {
    let lonely =
        Snapshot { agents: [("n1".to_owned(), AgentState::MissingSince(scene::now()))].into(), ..snapshot(false) };
    let first = decide(&lonely);
    assert_eq!((reserved(&first).len(), deleted(&first).len(), grants(&first)), (1, 0, None), "{:?}", first.verdicts);
    let reasons = waiting(&first);
    let begun = reasons.iter().filter(|reason| **reason == "InProgress").count();
    assert_eq!((begun, reasons.contains(&"")), (1, false), "{reasons:?}");
    let second = decide(&after(lonely, &first));
    assert_eq!((deleted(&second), reserved(&second)), (reserved(&first), Vec::new()), "and no other one");
}

#[test]
fn whoever_may_stop_operations_stops_removals() {
    for spec in [
        json!({"paused": true}),
        json!({"maxConcurrent": 0}),
        json!({"blackouts": [{"start": "2026-01-02T00:00:00Z", "end": "2026-01-04T00:00:00Z", "reason": "sale"}]}),
    ] {
        let round = decide(&Snapshot { budgets: budget(&spec), ..snapshot(false) });
        assert_eq!((reserved(&round).len(), deleted(&round).len()), (0, 0), "{spec}");
        assert_eq!(waiting(&round), ["Rules"; 5], "{spec}");
    }
}

#[test]
fn a_reservation_ends_when_the_pod_serves_again_or_leaves() {
    let first = decide(&snapshot(false));
    // It serves: it is judged anew, and leaves service as every other one.
    let back = after(snapshot(true), &first);
    let round = decide(&back);
    assert_eq!((deleted(&round).len(), reserved(&round).len()), (0, 0));
    assert_eq!(grants(&round).map(|grants| grants.len()), Some(1));
    // It is on its way out, and counts by itself.
    let leaving = after(snapshot(false), &first);
    let name = &reserved(&first)[0];
    let pods = leaving.pods.iter().map(|pod| {
        let terminating = pod.id.name == *name;
        Arc::new(hitless_api::pod::PodView { terminating, ..(**pod).clone() })
    });
    let pods = pods.collect();
    let round = decide(&leaving.with_pods(pods));
    let releases = scene::ledgers(&round).iter().any(|spec| spec.reservations.is_empty());
    assert!(releases, "{:?}", round.steps);
    assert_eq!(reserved(&round).len(), 0, "its id is without a pod");
}

/// Seed 6000053 of the simulation: the rules gave the only place in each round to the pod that was to be removed, and that waited for
/// the others, for ever.
#[test]
fn a_pod_that_may_not_be_made_anew_yet_takes_no_place_from_those_that_it_waits_for() {
    let snapshot = with_policy("InPlaceIfPossible", false);
    let pods = snapshot.pods.iter().map(|pod| {
        let mut pod = hitless_api::pod::PodView::clone(pod);
        if pod.id.name == "web-0" {
            pod.labels.insert("collaset.kusionstack.io/to-delete".to_owned(), "true".to_owned());
        }
        Arc::new(pod)
    });
    let pods = pods.collect();
    let round = decide(&snapshot.with_pods(pods));
    let of = |name: &str| round.verdicts.iter().find(|verdict| verdict.pod.name == name).unwrap().waiting.clone();
    assert_eq!(of("web-0"), Some(WaitReason::MadeAnew));
    assert_eq!(grants(&round).map(|grants| grants.len()), Some(1), "{:?}", round.verdicts);
}

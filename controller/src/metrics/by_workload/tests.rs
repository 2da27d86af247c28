use std::sync::Arc;

use hitless_api::GroupKind;
use hitless_api::NodeTransition;
use hitless_rollout::round::Places;
use hitless_workloads::registry;
use serde_json::{Value, json};

use super::*;

fn workload(name: &str) -> ObjectRef {
    ObjectRef {
        group_kind: GroupKind::new("apps", "Deployment"),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
    }
}

fn at(stage: &'static str, name: &str) -> ByWorkload {
    ByWorkload { workload: workload(name), stage, updated: 1, operated: 2, waiting: 3 }
}

fn round(by_workload: Vec<ByWorkload>) -> Round {
    Round { by_workload, ..Round::default() }
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A cluster with this Deployment.
fn with(name: &str) -> Snapshot {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}")},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}});
    Snapshot { objects: vec![Arc::new(registry::read(object).unwrap().unwrap())], ..Snapshot::default() }
}

/// What an agent reports of the only grant, which replaces two containers of a pod of that workload.
fn reported(name: &str, id: &str, result: Option<&str>) -> Snapshot {
    let image = json!({"from": "web:1", "to": "web:2"});
    let granted = "2026-01-01T00:00:00.000000Z";
    let grant = json!({"id": id, "epoch": 1, "pod": {"namespace": "shop", "name": "p", "uid": "p"}, "op": "Update", "mode": "Leave",
        "owner": workload(name), "containers": {"a": image, "b": image}, "before": {}, "drain": {}, "verify": {}, "rules": [],
        "ttlSeconds": 60, "granted": granted});
    let result = result.map_or(Value::Null, |outcome| json!({"outcome": outcome, "reason": "Done"}));
    let report = json!({"id": id, "granted": granted, "phase": "Returning", "since": granted, "result": result});
    let node: NodeTransition = serde_json::from_value(json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "NodeTransition",
        "metadata": {"name": "n1"}, "spec": {"nodeUID": "u", "epoch": 1, "grants": [grant]}, "status": {"transitions": [report]}}))
    .unwrap();
    let mut snapshot = with(name);
    snapshot.node_transitions.insert("n1".to_owned(), Arc::new(node.into()));
    snapshot
}

struct Watched {
    registry: Registry,
    named: Named,
}

impl Watched {
    fn new() -> Self {
        let mut registry = Registry::default();
        let named = Named::register(&mut registry);
        Self { registry, named }
    }

    fn decided(&mut self, snapshot: &Snapshot, round: &Round, now: i64) -> String {
        self.named.decided(snapshot, round, second(now));
        self.text()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|each| each == line)
}

#[test]
fn a_workload_is_named_while_something_happens_at_it() {
    let mut watched = Watched::new();
    let text = watched.decided(&with("web"), &round(vec![at("Rolling", "web")]), 0);
    let labels = r#"namespace="shop",kind="Deployment",workload="web""#;
    for line in [
        format!(r#"hitless_workload_stage{{{labels},stage="Rolling"}} 1"#),
        format!(r#"hitless_workload_pods{{{labels},state="updated"}} 1"#),
        format!(r#"hitless_workload_pods{{{labels},state="operated"}} 2"#),
        format!(r#"hitless_workload_pods{{{labels},state="waiting"}} 3"#),
        format!("hitless_restarts_intended_total{{{labels}}} 0"),
        r#"hitless_rollout_seconds_count{outcome="halted"} 0"#.to_owned(),
    ] {
        assert!(has(&text, &line), "no {line} in:\n{text}");
    }
    let text = watched.decided(&with("web"), &round(Vec::new()), 1);
    assert!(!text.contains("hitless_workload_stage{") && !text.contains("hitless_workload_pods{"), "{text}");
    assert!(has(&text, &format!("hitless_restarts_intended_total{{{labels}}} 0")), "a counter stays: {text}");
}

#[test]
fn so_many_are_named_and_those_that_people_look_for_first() {
    let mut watched = Watched::new();
    let mut all: Vec<ByWorkload> =
        (0..MOST_WORKLOADS + 3).map(|number| at("Rolling", &format!("web-{number}"))).collect();
    all.push(at("Halted", "zzz"));
    let text = watched.decided(&Snapshot::default(), &round(all), 0);
    let count = text.lines().filter(|line| line.starts_with("hitless_workload_stage{")).count();
    assert_eq!(count, MOST_WORKLOADS);
    assert!(text.contains(r#"workload="zzz",stage="Halted"} 1"#), "the halted one is among them");
    assert!(has(&text, "hitless_workloads_unnamed 4"), "{text}");
}

#[test]
fn places_are_told_while_some_are_taken_and_by_the_leader_only() {
    let mut watched = Watched::new();
    let places = Places { namespace: "shop".to_owned(), name: "one".to_owned(), most: 2, taken: 1 };
    let taken = Round { places: vec![places], ..round(vec![at("Halted", "web")]) };
    let text = watched.decided(&with("web"), &taken, 0);
    assert!(has(&text, r#"hitless_budget_places{namespace="shop",budget="one",state="taken"} 1"#), "{text}");
    assert!(has(&text, r#"hitless_budget_places{namespace="shop",budget="one",state="most"} 2"#), "{text}");
    watched.named.end_of_term();
    let text = watched.text();
    assert!(!text.contains("hitless_budget_places{") && !text.contains("Halted"), "{text}");
}

#[test]
fn restarts_are_counted_once_when_their_operation_has_ended() {
    let mut watched = Watched::new();
    let line = |number: u64| {
        format!(r#"hitless_restarts_intended_total{{namespace="shop",kind="Deployment",workload="web"}} {number}"#)
    };
    let rolling = || round(vec![at("Rolling", "web")]);
    assert!(has(&watched.decided(&reported("web", "a", None), &rolling(), 0), &line(0)), "it goes on");
    assert!(has(&watched.decided(&reported("web", "a", Some("Done")), &rolling(), 1), &line(2)));
    assert!(has(&watched.decided(&reported("web", "a", Some("Done")), &rolling(), 2), &line(2)), "once");
    assert!(
        has(&watched.decided(&reported("web", "b", Some("RolledBack")), &rolling(), 3), &line(6)),
        "there and back"
    );
    assert!(
        has(&watched.decided(&reported("web", "c", Some("Cancelled")), &rolling(), 4), &line(6)),
        "nothing was touched"
    );
}

#[test]
fn a_rollout_takes_from_its_first_round_to_the_one_in_which_it_has_ended() {
    let mut watched = Watched::new();
    watched.decided(&with("web"), &round(vec![at("Rolling", "web")]), 100);
    watched.decided(&with("web"), &round(vec![at("Finishing", "web")]), 120);
    let text = watched.decided(&with("web"), &round(Vec::new()), 142);
    assert!(has(&text, r#"hitless_rollout_seconds_sum{outcome="done"} 42.0"#), "{text}");
    watched.decided(&with("web"), &round(vec![at("Rolling", "web")]), 200);
    let text = watched.decided(&with("web"), &round(vec![at("Halted", "web")]), 207);
    assert!(has(&text, r#"hitless_rollout_seconds_sum{outcome="halted"} 7.0"#), "{text}");
    watched.decided(&with("web"), &round(vec![at("Rolling", "web")]), 300);
    let text = watched.decided(&Snapshot::default(), &round(Vec::new()), 310);
    assert!(
        has(&text, r#"hitless_rollout_seconds_count{outcome="done"} 1"#),
        "one that was deleted has not ended: {text}"
    );
}

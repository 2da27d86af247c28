//! A workload whose pods could not be operated, of which nothing is wanted yet.

use std::sync::Arc;

use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::mode::PolicyView;
use hitless_rollout::round::{WaitReason, explain};
use hitless_rollout::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::scene::{self, LONG_AGO, decide, meta, now, snapshot, template, view};

/// Deployment `web` at rest, whose template and pod have these annotations.
fn at_rest(annotations: &Value, opt_in: &str) -> Snapshot {
    let mut root = meta("web");
    root["annotations"] = json!({"hitless.dev/update": opt_in});
    let mut own = template("web:v1");
    own["metadata"]["annotations"] = annotations.clone();
    let owned = |name: &str, kind: &str, owner: &str| {
        let mut meta = meta(name);
        meta["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": kind, "name": owner,
            "uid": format!("uid-{owner}"), "controller": true}]);
        meta
    };
    let objects = [
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": root, "spec": {"replicas": 1, "template": own}}),
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": owned("set", "Deployment", "web"),
            "spec": {"replicas": 1, "selector": {}, "template": own}}),
    ];
    let mut pod = scene::pod(&owned("pod", "ReplicaSet", "set"), "web:v1", "web@sha256:1", LONG_AGO);
    pod["metadata"]["annotations"] = annotations.clone();
    snapshot(&objects, view(&pod), &[])
}

/// What the Event says, and what `status` would.
fn said(snapshot: &Snapshot) -> Option<(String, Option<WaitReason>)> {
    let event = decide(snapshot).events.into_iter().find(|event| event.reason == "InvalidDrain")?;
    assert_eq!(event.regarding.kind.as_deref(), Some("Deployment"));
    let report = explain(snapshot, &mut GateCache::default(), now(), |_| false).workloads.remove(0);
    Some((event.text, report.inoperable))
}

#[test]
fn a_drain_that_makes_no_sense_is_said_before_anything_is_wished() {
    let faulty = json!({"hitless.dev/drain": "{\"minSecond\": 3}"});
    let snapshot = at_rest(&faulty, "in-place");
    assert!(decide(&snapshot).verdicts.is_empty(), "nothing is wished");
    let (text, report) = said(&snapshot).unwrap();
    let words = "at least one of its pods can't be operated: annotation hitless.dev/drain is not usable: unknown field `minSecond`";
    assert!(text.starts_with(words) && text.ends_with("correct it in the pod's template and on the pod"), "{text}");
    assert!(matches!(report, Some(WaitReason::Drain(_))), "{report:?}");
    assert_eq!(said(&at_rest(&json!({"hitless.dev/drain": "{\"minSeconds\": 3}"}), "in-place")), None);
    assert_eq!(said(&at_rest(&faulty, "no")), None, "it has not opted in");
}

#[test]
fn a_policys_hook_that_the_pods_can_not_have_is_said_too() {
    let with = |container: &str| {
        let hooks = json!([{"name": "x", "when": "AfterStart", "exec": {"container": container, "command": ["true"]}}]);
        let policy = PolicyView {
            namespace: "shop".to_owned(),
            name: "a".to_owned(),
            uid: "a".to_owned(),
            spec: serde_json::from_value(json!({"selector": {}, "hooks": hooks})).unwrap(),
            unreadable: None,
        };
        said(&Snapshot { drain_policies: vec![Arc::new(policy)], ..at_rest(&json!({}), "in-place") })
    };
    assert!(with("db").unwrap().0.contains("DrainPolicy shop/a is not usable: x: the pod has no container \"db\""));
    assert_eq!(with("web"), None);
}

#[test]
fn an_endpoint_that_no_agent_listens_at_is_said_to_the_workloads_owner() {
    let said = |value: &str, opt_in: &str| {
        let events = decide(&at_rest(&json!({"hitless.dev/endpoint": value}), opt_in)).events;
        let event = events.into_iter().find(|event| event.reason == "EndpointInvalid")?;
        assert_eq!(event.regarding.kind.as_deref(), Some("Deployment"));
        Some(event.text)
    };
    let text = said("http", "in-place").unwrap();
    assert!(
        text.starts_with("pod pod asks for the endpoint of its agent in vain: hitless.dev/endpoint is \"http\""),
        "{text}"
    );
    assert!(text.contains("write a number from 1 to 65535"), "{text}");
    assert_eq!(said("9754", "in-place"), None);
    assert_eq!(said("http", "no"), None, "it has not opted in");
}

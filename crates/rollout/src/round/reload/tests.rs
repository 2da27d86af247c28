use super::*;
use std::sync::Arc;

use crate::gate_cache::GateCache;
use crate::reload::Content;
use crate::round::{Round, Write, round};
use hitless_workloads::Request;
use hitless_workloads::config::Config;
use serde_json::{Value, json};

const HASH: &str = "00000000000000aa";
const OTHER: &str = "00000000000000bb";

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

/// A Deployment at rest, with what is recorded on it.
fn snapshot(recorded: Option<&str>, found: Found) -> Snapshot {
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:v1"}]}});
    let mut annotations = json!({"hitless.dev/update": "in-place", "hitless.dev/reload": "auto"});
    if let Some(recorded) = recorded {
        annotations["hitless.dev/config"] = recorded.into();
    }
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "annotations": annotations},
        "spec": {"replicas": 0, "template": template}});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "r", "resourceVersion": "8", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": true}]},
        "spec": {"replicas": 0, "template": template}});
    let object = |value: Value| Arc::new(kind::read(value).unwrap().unwrap());
    Snapshot {
        objects: vec![object(deployment), object(set)],
        reloads: [("u".to_owned(), found)].into(),
        ..Snapshot::default()
    }
}

fn there(since: Timestamp, differs_since: Timestamp) -> Found {
    let config = Config { hash: HASH.to_owned(), mounted: None };
    Found::There(Content { config, since, differs_since })
}

fn decided(snapshot: &Snapshot, now: Timestamp) -> Round {
    round(snapshot, &mut GateCache::default(), now)
}

/// Verb and changed paths of each write.
fn writes(round: &Round) -> Vec<(&'static str, Vec<String>)> {
    let changed = |step: &crate::round::Step| {
        let Write::Workload(write) = &step.write else { panic!("{step:?}") };
        let Request::Patch(patch) = &write.request else { panic!("{write:?}") };
        let operations = serde_json::to_value(patch.clone().operations()).unwrap();
        let operations = operations.as_array().unwrap().iter().filter(|each| each["op"] == "add");
        (write.verb, operations.map(|each| format!("{}={}", each["path"].as_str().unwrap(), each["value"])).collect())
    };
    round.steps.iter().map(changed).collect()
}

#[test]
fn what_is_found_first_is_recorded_and_restarts_nothing() {
    let round = decided(&snapshot(None, there(at(0), at(0))), at(0));
    let recorded = format!("/metadata/annotations/hitless.dev~1config={HASH:?}");
    assert_eq!(writes(&round), [("record-config", vec![recorded])]);
    let round = decided(&snapshot(Some(HASH), there(at(0), at(0))), at(100));
    assert_eq!((writes(&round), round.wake_at), (vec![], None), "it is recorded");
}

#[test]
fn a_change_is_one_write_once_nothing_has_changed_for_two_seconds_or_after_ten() {
    let changed = snapshot(Some(OTHER), there(at(10), at(10)));
    let round = decided(&changed, at(11));
    assert_eq!((writes(&round), round.wake_at), (vec![], Some(at(12))));
    let template = "/spec/template/metadata/annotations";
    let wanted = vec![
        format!("{template}={{}}"),
        format!("{template}/hitless.dev~1config={HASH:?}"),
        format!("/metadata/annotations/hitless.dev~1config={HASH:?}"),
    ];
    let round = decided(&changed, at(12));
    assert_eq!(writes(&round), [("restart-by-annotation", wanted)]);
    assert_eq!(round.steps[0].done.as_ref().unwrap().reason, "Reloading");
    let restless = snapshot(Some(OTHER), there(at(10), at(1)));
    assert_eq!(decided(&restless, at(10)).wake_at, Some(at(11)));
    assert_eq!(writes(&decided(&restless, at(11))).len(), 1);
}

#[test]
fn without_the_right_or_without_the_object_nothing_is_written_and_an_event_says_why() {
    let said = |found: Found| {
        let round = decided(&snapshot(Some(OTHER), found), at(100));
        assert_eq!(writes(&round), vec![]);
        round.events.into_iter().map(|note| (note.reason, note.text)).collect::<Vec<_>>()
    };
    let denied = said(Found::Denied);
    assert_eq!(denied[0].0, "ReloadDenied");
    let command = "kubectl create rolebinding hitless-reload --namespace shop --clusterrole hitless-reload \
                   --serviceaccount hitless-system:hitless-controller";
    assert!(denied[0].1.ends_with(command), "{denied:?}");
    let object = hitless_workloads::ConfigRef { kind: hitless_workloads::ConfigKind::Secret, name: "tls".to_owned() };
    let missing = said(Found::Missing(Missing { object, key: None }));
    assert_eq!(missing[0].0, "ReloadMissing");
    assert!(missing[0].1.starts_with("Secret tls is not there"), "{missing:?}");
    assert_eq!((said(Found::Unread), said(Found::Nothing)), (vec![], vec![]));
}

#[test]
fn a_restart_waits_for_the_native_controller() {
    let mut native = snapshot(Some(OTHER), there(at(0), at(0)));
    native.objects.truncate(1);
    let explained = crate::round::explain(&native, &mut GateCache::default(), at(100), |_| false);
    assert_eq!(explained.workloads[0].reload, Some(Reload::Later));
    assert_eq!(writes(&explained.round), vec![]);
}

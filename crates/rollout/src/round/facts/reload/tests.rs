use std::sync::Arc;

use hitless_workloads::Request;
use hitless_workloads::config::{Config, ConfigHash};
use serde_json::{Value, json};

use crate::gate_cache::GateCache;
use crate::reload::Content;
use crate::round::facts::reload::*;
use crate::round::{Round, round};

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
    let object = |value: Value| Arc::new(registry::read(value).unwrap().unwrap());
    Snapshot {
        objects: vec![object(deployment), object(set)],
        reloads: [("u".to_owned(), found)].into(),
        ..Snapshot::default()
    }
}

fn there(since: Timestamp, differs_since: Timestamp) -> Found {
    let config = Config { hash: ConfigHash::plain(HASH), mounted: None, init: BTreeMap::new() };
    Found::There(Content { config, since, differs_since })
}

fn decided(snapshot: &Snapshot, now: Timestamp) -> Round {
    round(snapshot, &mut GateCache::default(), now)
}

/// Verb and changed paths of each write.
fn writes(round: &Round) -> Vec<(&'static str, Vec<String>)> {
    let changed = |step: &crate::round::Step| {
        let write = &step.write;
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

/// An update to a controller that has a key restarts nobody.
#[test]
fn what_was_recorded_without_a_key_counts_until_something_else_is_there() {
    let keyed = |plain: &str| {
        let Found::There(content) = there(at(0), at(0)) else { panic!("it is there") };
        let config = Config { hash: ConfigHash::plain(HASH).after(plain), ..content.config };
        Found::There(Content { config, ..content })
    };
    let round = decided(&snapshot(Some(OTHER), keyed(OTHER)), at(100));
    assert_eq!(writes(&round), []);
    let round = decided(&snapshot(Some(OTHER), keyed("0000000000000000")), at(100));
    let [(verb, changed)] = &writes(&round)[..] else { panic!("{:?}", round.steps) };
    let written = changed.iter().filter(|each| each.contains(HASH)).count();
    assert_eq!((*verb, written), ("restart-by-annotation", 2), "on the workload and its template: {changed:?}");
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
    assert_eq!(round.steps[0].write.tells.as_ref().unwrap().reason, "Reloading");
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

#[test]
fn what_pods_get_that_are_about_to_be_made_anew_is_recorded_before_and_restarts_nothing_after() {
    let held = |recorded: &str| {
        let mut snapshot = snapshot(Some(recorded), there(at(0), at(0)));
        let annotations = json!({"hitless.dev/update": "in-place", "hitless.dev/reload": "auto", "hitless.dev/rollout": "held",
            "hitless.dev/config": recorded});
        let container = json!({"name": "web", "image": "web:v1", "envFrom": [{"configMapRef": {"name": "new"}}]});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "annotations": annotations},
            "spec": {"replicas": 0, "paused": true, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}});
        snapshot.objects[0] = Arc::new(registry::read(deployment).unwrap().unwrap());
        snapshot
    };
    let recorded = format!("/metadata/annotations/hitless.dev~1config={HASH:?}");
    assert_eq!(writes(&decided(&held(OTHER), at(0))), [("record-config", vec![recorded])]);
    let verbs: Vec<&str> = writes(&decided(&held(HASH), at(0))).into_iter().map(|(verb, _)| verb).collect();
    assert_eq!(verbs, ["unpause"]);
}

/// A Deployment that recorded `before` of its init container `render`; what that uses is `now`.
fn rendered(update: &str, before: Option<&str>, now: &str, hash: &str) -> Snapshot {
    let init = |hash: &str| [("render".to_owned(), ConfigHash::plain(hash))].into();
    let config = |init| Config { hash: ConfigHash::plain(hash), mounted: None, init };
    let content = Content { config: config(init(now)), since: at(0), differs_since: at(0) };
    let mut snapshot = snapshot(Some(HASH), Found::There(content));
    let deployment = Arc::make_mut(&mut snapshot.objects[0]);
    deployment.annotations.insert("hitless.dev/update".to_owned(), update.to_owned());
    if let Some(before) = before {
        let recorded = InitConfig::have(&config(init(before)));
        deployment.annotations.insert("hitless.dev/init-config".to_owned(), recorded.text());
    }
    snapshot
}

#[test]
fn what_an_init_container_uses_asks_for_new_pods_and_nothing_is_restarted_in_vain() {
    let round = decided(&rendered("in-place", Some("1"), "2", HASH), at(10));
    let [(verb, changed)] = writes(&round).try_into().unwrap();
    assert_eq!((verb, changed.len()), ("restart-by-annotation", 4));
    let template = changed[1].strip_prefix("/spec/template/metadata/annotations/hitless.dev~1config=").unwrap();
    assert!(template != format!("{HASH:?}") && changed[2].ends_with(&format!("config={HASH:?}")), "{changed:?}");
    let text: String = serde_json::from_str(changed[3].split_once('=').unwrap().1).unwrap();
    let recorded: Value = serde_json::from_str(&text).unwrap();
    let new_pods = json!({"config": template.trim_matches('"'), "for": ["render"]});
    assert_eq!(recorded, json!({"containers": {"render": "2"}, "newPods": new_pods}));
    let told = round.steps[0].write.tells.as_ref().unwrap();
    assert!(told.text.contains("init container render uses") && told.text.ends_with("made anew"), "{}", told.text);
    let refused = decided(&rendered("in-place-only", Some("1"), "2", OTHER), at(10));
    assert_eq!(writes(&refused), []);
    let note = refused.events.iter().find(|note| note.reason == "ReloadRefused").unwrap();
    assert!(note.text.contains("init container render uses"), "{}", note.text);
}

#[test]
fn what_init_containers_do_not_use_restarts_in_place_and_a_version_that_recorded_nothing_for_them_is_followed() {
    let in_place = decided(&rendered("in-place-only", Some("1"), "1", OTHER), at(10));
    assert!(in_place.steps[0].write.tells.as_ref().unwrap().text.ends_with("restart in place"));
    assert_eq!(writes(&decided(&rendered("in-place", None, "1", HASH), at(10)))[0].0, "record-config");
    let unknown = decided(&rendered("in-place", None, "1", OTHER), at(10));
    assert!(unknown.steps[0].write.tells.as_ref().unwrap().text.ends_with("made anew"), "the change may be its own");
}

use super::*;
use crate::scene::{self, brought, idle, rollout, with_grant, with_object};
use serde_json::{Value, json};

fn target() -> Target {
    "deployment/web".parse().unwrap()
}

fn wanting(name: &str, image: &str) -> Value {
    let mut pod = scene::pod(name, image);
    pod["metadata"]["annotations"] = json!({"hitless.dev/restart": "t", "hitless.dev/restart-containers": "web"});
    pod
}

/// `web:v1` is kept.
fn first_kept(snapshot: Snapshot) -> Snapshot {
    scene::with_history(snapshot, "web:v1", 1)
}

#[test]
fn a_rollout_goes_back_to_what_ran_before() {
    let snapshot = first_kept(rollout(&[scene::pod("a", "web:v2"), scene::pod("b", "web:v1")]));
    let cancel = decide(&snapshot, &target(), Timestamp::UNIX_EPOCH).unwrap();
    let Decided { patch, said, .. } = cancel.undo.unwrap();
    let patch = patch.unwrap();
    assert!(said.starts_with("deployment/web goes back to revision 1 (web:v1), which ran before"), "{said}");
    let mut object = snapshot.objects[0].raw.clone();
    object["metadata"]["resourceVersion"] = "".into();
    json_patch::patch(&mut object, &patch.operations()).unwrap();
    assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["image"], "web:v1");
}

/// The same with the template of this image.
fn asked_for(snapshot: Snapshot, image: &str) -> Snapshot {
    with_object(snapshot, 0, |deployment| {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
    })
}

#[test]
fn a_rollout_that_is_a_way_back_already_is_not_turned_round() {
    let rolling = first_kept(rollout(&[brought(wanting("a", "web:v2"), "web:v2"), scene::pod("b", "web:v1")]));
    let cancelled = decide(&asked_for(rolling, "web:v1"), &target(), Timestamp::UNIX_EPOCH).unwrap();
    let failure = cancelled.failed.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(cancelled.undo.is_none() && failure.contains("goes back to revision 1 (web:v1) already"), "{cancelled:?}");
    assert!(failure.ends_with("kubectl hitless wait -n team deployment/web"), "{failure}");
}

#[test]
fn restarts_are_withdrawn_where_the_rollout_can_not_go_back() {
    let snapshot = rollout(&[wanting("a", "web:v2"), scene::pod("b", "web:v1")]);
    let cancel = decide(&snapshot, &target(), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!((cancel.undo.is_none(), cancel.restarts.len()), (true, 1));
    let failure = cancel.failed.unwrap();
    assert!(failure.code() == 1 && failure.to_string().contains("no template is known"), "{failure}");
}

#[test]
fn a_restart_is_withdrawn_before_it_begins_and_not_after() {
    let snapshot = idle(&[wanting("a", "web:v2"), wanting("b", "web:v2")]);
    let running = with_grant(snapshot, "a", &Value::Null);
    let cancel = decide(&running, &target(), Timestamp::UNIX_EPOCH).unwrap();
    assert!(cancel.undo.is_none());
    let [(pod, patch)] = cancel.restarts.as_slice() else { panic!("{cancel:?}") };
    let mut after = wanting("b", "web:v2");
    json_patch::patch(&mut after, &patch.clone().operations()).unwrap();
    assert_eq!((pod.name.as_str(), &after["metadata"]["annotations"]), ("b", &json!({})));
    assert!(cancel.notes[0].starts_with("pod/a is being restarted"), "{:?}", cancel.notes);
    let again = json_patch::patch(
        &mut json!({"metadata": {"uid": "uid-b", "annotations":
        {"hitless.dev/restart": "another"}}}),
        &patch.clone().operations(),
    );
    assert!(again.is_err(), "another restart was asked for meanwhile");
}

#[test]
fn where_nothing_is_under_way_no_rollout_begins() {
    let snapshot = first_kept(idle(&[scene::pod("a", "web:v2")]));
    let failure = decide(&snapshot, &target(), Timestamp::UNIX_EPOCH).unwrap_err();
    assert!(failure.to_string().contains("nothing is under way"), "{failure}");
    let native = with_object(snapshot, 0, |deployment| {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "web:v3".into();
    });
    let cancel = decide(&native, &target(), Timestamp::UNIX_EPOCH).unwrap();
    assert!(cancel.undo.is_none() && cancel.notes[0].contains("kubectl rollout undo -n team deployment/web"));
}

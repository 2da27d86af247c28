use super::*;
use crate::scene::{pod, rollout, with_annotation, with_object};
use serde_json::{Value, json};

/// What the step makes of the Deployment; `None`: nothing is written.
fn after(snapshot: &Snapshot, step: fn(&Object, Rolls) -> Step) -> Option<Value> {
    let Step::Write(patch, _) = step(&snapshot.cluster.objects[0], Rolls::InPlace) else { return None };
    let mut object = snapshot.objects[0].raw.clone();
    // The API server takes what is absent for null in a test; this library does not.
    if let Some(all) = object["metadata"]["annotations"].as_object_mut() {
        all.entry("hitless.dev/paused").or_insert(Value::Null);
    }
    json_patch::patch(&mut object, &patch.operations()).unwrap();
    Some(object["metadata"]["annotations"]["hitless.dev/paused"].clone())
}

#[test]
fn the_annotation_is_put_on_and_taken_off() {
    let snapshot = rollout(&[pod("a", "web:v1")]);
    assert_eq!(after(&snapshot, pausing), Some(json!("true")));
    assert_eq!(after(&snapshot, resuming), None);
    let bare = with_object(snapshot.clone(), 0, |deployment| deployment["metadata"]["annotations"] = Value::Null);
    assert_eq!(after(&bare, pausing), Some(json!("true")));
    let paused = with_annotation(snapshot.clone(), "hitless.dev/paused", "true");
    assert_eq!((after(&paused, pausing), after(&paused, resuming)), (None, Some(Value::Null)));
    let driven = with_annotation(snapshot, "hitless.dev/paused", "false");
    assert_eq!((after(&driven, pausing), after(&driven, resuming)), (Some(json!("true")), None));
}

#[test]
fn somebody_elses_pause_is_left_to_him() {
    let snapshot = with_object(rollout(&[pod("a", "web:v1")]), 0, |deployment| {
        deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/rollout");
    });
    let Step::Refuse(why) = resuming(&snapshot.cluster.objects[0], Rolls::InPlace) else { panic!("it is resumed") };
    assert!(why.contains("kubectl rollout resume"), "{why}");
}

#[test]
fn the_pause_that_remains_is_named_and_so_is_a_wish_that_is_lost() {
    let said = |snapshot: &Snapshot, step: fn(&Object, Rolls) -> Step| match step(
        &snapshot.cluster.objects[0],
        Rolls::InPlace,
    ) {
        Step::Write(_, words) => words,
        other => panic!("{other:?}"),
    };
    let held = rollout(&[pod("a", "web:v1")]);
    let paused = |snapshot: &Snapshot| with_annotation(snapshot.clone(), "hitless.dev/paused", "true");
    assert_eq!((said(&held, pausing), said(&paused(&held), resuming)), ("paused".into(), "resumed".into()));
    let owners = with_object(held, 0, |deployment| {
        deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/rollout");
    });
    let words = said(&paused(&owners), resuming);
    assert!(words.contains("its owner has paused") && words.contains("kubectl rollout resume"), "{words}");
    assert!(!words.contains("resumed"), "{words}");
    let reloader = with_annotation(paused(&owners), "deployment.reloader.stakater.com/paused-at", "now");
    assert!(said(&reloader, resuming).contains("when Reloader resumes it"));
    let driven = with_annotation(owners, "hitless.dev/paused", "false");
    let words = said(&driven, pausing);
    assert!(words.ends_with("kubectl annotate -n team deployment/web hitless.dev/paused=false"), "{words}");
}

#[test]
fn who_has_changed_it_meanwhile_is_not_overwritten() {
    let snapshot = rollout(&[pod("a", "web:v1")]);
    let Step::Write(patch, _) = pausing(&snapshot.cluster.objects[0], Rolls::InPlace) else {
        panic!("nothing is written")
    };
    let other = with_annotation(snapshot, "hitless.dev/paused", "false");
    assert!(json_patch::patch(&mut other.objects[0].raw.clone(), &patch.operations()).is_err());
}

#[test]
fn what_a_pause_does_not_stop_is_said() {
    let said = |snapshot: &Snapshot| {
        let object = &snapshot.cluster.objects[0];
        match pausing(object, Rolls::of(snapshot, object)) {
            Step::Write(_, words) => words,
            other => panic!("{other:?}"),
        }
    };
    let held = rollout(&[pod("a", "web:v1")]);
    assert_eq!(said(&held), "paused");
    let let_go = |deployment: &mut Value| {
        deployment["spec"]["paused"] = false.into();
        deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/rollout");
    };
    let native = with_object(held, 0, let_go);
    let words = said(&native);
    assert!(
        words.contains("its native controller rolls it")
            && words.ends_with("kubectl rollout pause -n team deployment/web"),
        "{words}"
    );
    let foreign = with_object(native, 0, |deployment| deployment["metadata"]["annotations"] = json!({}));
    assert!(
        said(&foreign).contains("restarts in place only; stop that with: kubectl rollout pause"),
        "{}",
        said(&foreign)
    );
}

use super::*;
use crate::scene::{brought, pod, rollout, with_annotation, with_history, with_object};
use serde_json::json;

fn target() -> Target {
    "deployment/web".parse().unwrap()
}

fn undone(snapshot: &Snapshot, to_revision: Option<u64>) -> Result<String, String> {
    let target = target();
    let found = found(snapshot, &target).unwrap();
    let undo = found.undo(snapshot, to_revision, Timestamp::UNIX_EPOCH);
    undo.map(|undo| undo.to.to_string()).map_err(|failure| failure.to_string())
}

/// A rollout from `web:v1` to `web:v2`, before that `web:v0`.
fn rolling() -> Snapshot {
    let snapshot = rollout(&[brought(pod("a", "web:v2"), "web:v2"), pod("b", "web:v1")]);
    with_history(with_history(snapshot, "web:v0", 1), "web:v1", 2)
}

fn asked_for(snapshot: Snapshot, image: &str) -> Snapshot {
    with_object(snapshot, 0, |deployment| {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
    })
}

#[test]
fn a_second_undo_does_not_go_further_back_while_the_first_is_under_way() {
    assert_eq!(undone(&rolling(), None).unwrap(), "revision 2 (web:v1)");
    let back = asked_for(rolling(), "web:v1");
    let refused = undone(&back, None).unwrap_err();
    assert_eq!(
        refused,
        "deployment/web: it goes back to revision 2 (web:v1) already, so it is left as it is; see it end with: kubectl hitless wait -n \
         team deployment/web; to get revision 1 (web:v0): kubectl hitless undo -n team deployment/web --to-revision 1"
    );
    assert_eq!(undone(&back, Some(1)).unwrap(), "revision 1 (web:v0)", "who names it means it");
}

#[test]
fn after_the_first_has_ended_a_second_one_is_a_new_one() {
    let back = with_object(asked_for(rolling(), "web:v1"), 0, |deployment| {
        deployment["spec"]["paused"] = false.into();
        deployment["metadata"]["annotations"].as_object_mut().unwrap().remove("hitless.dev/rollout");
    });
    let template = back.objects[0].raw["spec"]["template"].clone();
    let back = with_object(back, 1, |set| set["spec"]["template"] = template);
    // What was left was complete: back and forth, as kubectl's own.
    assert_eq!(undone(&with_history(back.clone(), "web:v2", 3), None).unwrap(), "revision 3 (web:v2)");
    assert_eq!(undone(&back, None).unwrap(), "revision 1 (web:v0)", "it says so");
    let bad = rolling().cluster.objects[0].template().unwrap().revision().to_owned();
    let good = back.cluster.objects[0].template().unwrap().revision().to_owned();
    let mark = json!({"revision": bad, "backTo": good}).to_string();
    let refused = undone(&with_annotation(back, "hitless.dev/halted", &mark), None).unwrap_err();
    assert!(refused.contains("it is back at revision 2 (web:v1) already, because"), "{refused}");
    assert!(refused.ends_with("kubectl hitless undo -n team deployment/web --to-revision 1"), "{refused}");
}

#[test]
fn a_way_back_that_has_failed_can_be_left() {
    let back = asked_for(rolling(), "web:v1");
    let template = back.cluster.objects[0].template().unwrap().revision().to_owned();
    let mark = json!({"revision": template, "backTo": "x"}).to_string();
    assert_eq!(undone(&with_annotation(back, "hitless.dev/halted", &mark), None).unwrap(), "revision 1 (web:v0)");
}

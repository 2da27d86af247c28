//! `kubectl hitless pause` and `resume`: no new operation of a workload's pods begins, and they begin again. The controller's own
//! decision honours the annotation; here it is only written.

use hitless_api::JsonPatch;
use hitless_api::names::{PAUSED_FALSE, PAUSED_TRUE, annotations};
use hitless_workloads::{Object, Pause};
use kube::Client;

use crate::args::Selection;
use crate::failure::Failure;
use crate::output::remark;
use crate::say;
use crate::select::{self, name};
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};
use crate::write::{annotated, patch};

/// What is done about one workload.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// This is written, and then this is said.
    Write(JsonPatch, String),
    /// It is as it was asked for already.
    Nothing(&'static str),
    /// It can't be done here; why, and what to do.
    Refuse(String),
}

pub(crate) async fn pause(client: Client, namespace: String, selection: &Selection) -> Result<(), Failure> {
    let snapshot = source::read(&client, &Scope::Namespace(namespace)).await?;
    each(&client, &snapshot, selection, "pause", pausing).await?;
    say("what is under way ends; see it with: kubectl hitless status")
}

pub(crate) async fn resume(client: Client, namespace: String, selection: &Selection) -> Result<(), Failure> {
    let snapshot = source::read(&client, &Scope::Namespace(namespace)).await?;
    each(&client, &snapshot, selection, "resume", resuming).await
}

async fn each(
    client: &Client,
    snapshot: &Snapshot,
    selection: &Selection,
    verb: &str,
    step: fn(&Object) -> Step,
) -> Result<(), Failure> {
    let mut failed = None;
    for object in select::workloads(snapshot, selection)? {
        let name = name(object);
        let done = match step(object) {
            Step::Write(change, words) => {
                patch(client, &object.id, change, &format!("{verb} {name}")).await.map(|()| words)
            }
            Step::Nothing(why) => Ok(why.to_owned()),
            Step::Refuse(why) => Err(Failure::Failed(format!("{name}: {why}"))),
        };
        match done {
            Ok(words) => say(&format!("{name} {words}"))?,
            // As many as possible: a brake that stops at the first failure is none.
            Err(failure) => {
                remark(&format!("error: {failure}"));
                failed = Some(failure);
            }
        }
    }
    failed.map_or(Ok(()), |failure| match failure {
        Failure::Output(error) => Err(Failure::Output(error)),
        failure => Err(Failure::Failed(format!("not every workload was changed; the last one: {failure}"))),
    })
}

fn pausing(object: &Object) -> Step {
    let words = match object.annotations.get(annotations::PAUSED) {
        Some(value) if value != PAUSED_FALSE => return Step::Nothing("is paused already"),
        Some(_) => format!(
            "paused; it had {at}={PAUSED_FALSE}, which resume does not bring back; give it back after that with: kubectl annotate -n {} {} \
             {at}={PAUSED_FALSE}",
            object.id.namespace,
            name(object),
            at = annotations::PAUSED
        ),
        None => "paused".to_owned(),
    };
    Step::Write(annotated(JsonPatch::of(&object.id.uid), object, annotations::PAUSED, PAUSED_TRUE), words)
}

fn resuming(object: &Object) -> Step {
    let path = ["metadata", "annotations", annotations::PAUSED];
    match (object.pause(), object.annotations.get(annotations::PAUSED)) {
        (Some(Pause::Annotation), Some(value)) => {
            let mut resumed = object.clone();
            resumed.annotations.remove(annotations::PAUSED);
            let words = resumed.pause().map_or_else(
                || "resumed".to_owned(),
                |pause| format!("is not paused by hitless any more, but {}", pause.advice()),
            );
            Step::Write(JsonPatch::of(&object.id.uid).change(&path, Some(value), None), words)
        }
        (Some(pause @ (Pause::Owner | Pause::Reloader)), _) => Step::Refuse(pause.advice()),
        (Some(Pause::Annotation) | None, _) => Step::Nothing("is not paused"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{pod, rollout, with_annotation, with_object};
    use serde_json::{Value, json};

    /// What the step makes of the Deployment; `None`: nothing is written.
    fn after(snapshot: &Snapshot, step: fn(&Object) -> Step) -> Option<Value> {
        let Step::Write(patch, _) = step(&snapshot.cluster.objects[0]) else { return None };
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
        let Step::Refuse(why) = resuming(&snapshot.cluster.objects[0]) else { panic!("it is resumed") };
        assert!(why.contains("kubectl rollout resume"), "{why}");
    }

    #[test]
    fn the_pause_that_remains_is_named_and_so_is_a_wish_that_is_lost() {
        let said = |snapshot: &Snapshot, step: fn(&Object) -> Step| match step(&snapshot.cluster.objects[0]) {
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
        let Step::Write(patch, _) = pausing(&snapshot.cluster.objects[0]) else { panic!("nothing is written") };
        let other = with_annotation(snapshot, "hitless.dev/paused", "false");
        assert!(json_patch::patch(&mut other.objects[0].raw.clone(), &patch.operations()).is_err());
    }
}

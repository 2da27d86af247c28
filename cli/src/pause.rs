//! `kubectl hitless pause` and `resume`: no new operation of a workload's pods begins, and they begin again. The controller's own
//! decision honours the annotation; here it is only written.

use hitless_api::names::{PAUSED_FALSE, PAUSED_TRUE, annotations};
use hitless_api::{JsonPatch, ObjectRef};
use hitless_workloads::{Object, OptIn, Pause, Stage};
use jiff::Timestamp;
use kube::Client;

use crate::args::Selection;
use crate::failure::Failure;
use crate::output::remark;
use crate::say;
use crate::select::{self, name};
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};
use crate::write::{Decided, annotated, write};

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
    let snapshot = source::read(&client, &Scope::Namespace(namespace.clone())).await?;
    each(&client, &snapshot, selection, "pause", pausing).await?;
    say(&format!("what is under way ends; see it with: kubectl hitless status -n {namespace}"))
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
    step: fn(&Object, Rolls) -> Step,
) -> Result<(), Failure> {
    let mut failed = None;
    for object in select::workloads(snapshot, selection)? {
        let name = name(object);
        let decide = |snapshot: &Snapshot| decided(snapshot, &object.id, step);
        match write(client, snapshot.clone(), &format!("{verb} {name}"), decide).await {
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

fn decided(snapshot: &Snapshot, on: &ObjectRef, step: fn(&Object, Rolls) -> Step) -> Result<Decided<String>, Failure> {
    let found = snapshot.cluster.objects.iter().find(|object| object.id.uid == on.uid);
    let object = found.ok_or_else(|| snapshot.missing(&format!("{} does not exist", on.target())))?;
    let (patch, said) = match step(object, Rolls::of(snapshot, object)) {
        Step::Write(change, words) => (Some(change), words),
        Step::Nothing(why) => (None, why.to_owned()),
        Step::Refuse(why) => return Err(Failure::Failed(format!("{}: {why}", on.target()))),
    };
    Ok(Decided { on: on.clone(), patch, said })
}

/// Who rolls a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rolls {
    InPlace,
    /// Its native controller, which knows no pause of ours.
    Natively,
}

impl Rolls {
    fn of(snapshot: &Snapshot, object: &Object) -> Self {
        if object.opt_in() == OptIn::No {
            return Self::Natively;
        }
        let workloads = snapshot.explain(Timestamp::now(), |_| false).workloads;
        let report = workloads.into_iter().find(|report| report.id.uid == object.id.uid);
        match report.map(|report| report.stage) {
            Some(Stage::Native | Stage::SteppingAside(_)) => Self::Natively,
            Some(
                Stage::NotOurs | Stage::Idle | Stage::Rolling | Stage::Finishing | Stage::Refused(_) | Stage::Halted(_),
            )
            | None => Self::InPlace,
        }
    }

    /// What the pause does not stop.
    fn unstopped(self, object: &Object) -> String {
        let why = match (self, object.opt_in()) {
            (Self::InPlace, _) => return String::new(),
            (Self::Natively, OptIn::No) => "it has not opted in, so this stops restarts in place only",
            (Self::Natively, OptIn::InPlace | OptIn::InPlaceOnly) => "its native controller rolls it, and goes on",
        };
        let natively = match object.deployment() {
            Some(_) => format!("; stop that with: kubectl rollout pause {}", object.id.arguments()),
            None => String::new(),
        };
        format!("; {why}{natively}")
    }
}

fn pausing(object: &Object, rolls: Rolls) -> Step {
    let paused = format!("paused{}", rolls.unstopped(object));
    let words = match object.annotations.get(annotations::PAUSED) {
        Some(value) if value != PAUSED_FALSE => return Step::Nothing("is paused already"),
        Some(_) => format!(
            "{paused}; it had {at}={PAUSED_FALSE}, which resume does not bring back; give it back after that with: kubectl annotate {} \
             {at}={PAUSED_FALSE}",
            object.id.arguments(),
            at = annotations::PAUSED
        ),
        None => paused,
    };
    Step::Write(annotated(JsonPatch::of(&object.id.uid), object, annotations::PAUSED, PAUSED_TRUE), words)
}

fn resuming(object: &Object, _: Rolls) -> Step {
    let path = ["metadata", "annotations", annotations::PAUSED];
    match (object.pause(), object.annotations.get(annotations::PAUSED)) {
        (Some(Pause::Annotation), Some(value)) => {
            let mut resumed = object.clone();
            resumed.annotations.remove(annotations::PAUSED);
            let words = resumed.pause().map_or_else(
                || "resumed".to_owned(),
                |pause| format!("is not paused by hitless any more, but {}", pause.advice(&object.id)),
            );
            Step::Write(JsonPatch::of(&object.id.uid).change(&path, Some(value), None), words)
        }
        (Some(pause @ (Pause::Owner | Pause::Reloader)), _) => Step::Refuse(pause.advice(&object.id)),
        (Some(Pause::Annotation) | None, _) => Step::Nothing("is not paused"),
    }
}

#[cfg(test)]
mod tests;

//! `kubectl hitless cancel`: a rollout that is under way goes back to what ran before, and restarts that have not begun are withdrawn.
//!
//! The way back is that of `undo`. It differs in what it refuses: where no rollout is under way it begins none, and a rollout that is
//! a way back already, as after a first `cancel`, it does not turn round.

use std::collections::BTreeSet;

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{JsonPatch, PodRef};
use hitless_runtime::write::Writes;
use hitless_workloads::{Stage, Undo, restart};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PatchParams;
use kube::{Api, Client};

use crate::args::{Target, TargetArgs};
use crate::failure::Failure;
use crate::follow::follow;
use crate::say;
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};
use crate::undo::found;
use crate::write::{Decided, changed, write};

/// What is taken back.
#[derive(Debug)]
struct Cancel {
    /// Gives the workload the template back that it had before.
    undo: Option<Decided<String>>,
    /// Restarts of pods that nobody has begun.
    restarts: Vec<(PodRef, JsonPatch)>,
    /// What can't be taken back.
    notes: Vec<String>,
    /// Why the rollout that is under way can't go back. Restarts are withdrawn all the same.
    failed: Option<Failure>,
}

pub(crate) async fn run(client: Client, namespace: String, arguments: &TargetArgs) -> Result<(), Failure> {
    let target = &arguments.target;
    let snapshot = source::read(&client, &Scope::Namespace(namespace.clone())).await?;
    let Cancel { undo, restarts, notes, failed } = decide(&snapshot, target, Timestamp::now())?;
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    for (pod, patch) in restarts {
        let patch = patch.build();
        let sent = Writes::default().send("pods", api.patch(&pod.name, &PatchParams::default(), &patch)).await;
        changed(sent.map(|_| ()), &format!("withdraw the restart of pod {}", pod.name))?;
        say(&format!("pod/{} restart withdrawn", pod.name))?;
    }
    if undo.is_some() {
        let what = format!("cancel the rollout of {target}");
        let decide = |snapshot: &Snapshot| way_back(snapshot, target, Timestamp::now());
        say(&write(&client, snapshot, &what, decide).await?)?;
    }
    notes.iter().try_for_each(|note| say(note))?;
    failed.map_or(Ok(()), Err)
}

fn decide(snapshot: &Snapshot, target: &Target, now: Timestamp) -> Result<Cancel, Failure> {
    let meant = snapshot.find(target).ok_or_else(|| snapshot.missing(&format!("{target} does not exist")))?;
    let nodes = snapshot.cluster.node_transitions.values();
    let granted: BTreeSet<&str> =
        nodes.flat_map(|node| node.unfinished()).map(|grant| grant.pod.uid.as_str()).collect();
    let reserved = snapshot.cluster.ledgers.values().flat_map(|ledger| ledger.spec.reservations.keys());
    let begun: BTreeSet<&str> = reserved.map(String::as_str).chain(granted).collect();
    let asked: Vec<&PodView> = meant.pods.iter().copied().filter(|pod| restart::wanted(pod).is_some()).collect();
    let (under_way, waiting): (Vec<&PodView>, Vec<&PodView>) =
        asked.into_iter().partition(|pod| begun.contains(pod.id.uid.as_str()));
    let restarts = waiting.into_iter().filter_map(|pod| Some((pod.id.clone(), withdrawal(pod)?))).collect();
    let words = under_way
        .iter()
        .map(|pod| format!("pod/{} is being restarted, and that ends as it was asked for", pod.id.name));
    let mut cancel = Cancel { undo: None, restarts, notes: words.collect(), failed: None };
    let Some(object) = meant.workload else {
        return if cancel.restarts.is_empty() && cancel.notes.is_empty() {
            Err(nothing(target, meant.namespace))
        } else {
            Ok(cancel)
        };
    };
    let explanation = snapshot.explain(now, |_| false);
    let report = explanation.workloads.into_iter().find(|report| report.id.uid == object.id.uid);
    let namespace = &object.id.namespace;
    match report.map(|report| report.stage) {
        Some(Stage::Rolling | Stage::Finishing) => {
            match way_back(snapshot, target, now) {
                Ok(undo) => cancel.undo = Some(undo),
                Err(failure) => cancel.failed = Some(failure),
            }
        }
        Some(Stage::Native | Stage::SteppingAside(_)) => cancel.notes.push(format!(
            "{target} is rolled by its native controller; take that back with: kubectl rollout undo -n {namespace} {target}"
        )),
        Some(Stage::Halted(_) | Stage::Refused(_)) => cancel.notes.push(format!(
            "{target} does not move, so there is no rollout to cancel; give it the template before back with: kubectl hitless undo -n \
             {namespace} {target}"
        )),
        Some(Stage::Idle | Stage::NotOurs) | None if cancel.restarts.is_empty() && cancel.notes.is_empty() => {
            return Err(nothing(target, meant.namespace));
        }
        Some(Stage::Idle | Stage::NotOurs) | None => {}
    }
    Ok(cancel)
}

/// Gives the workload the template back that it had before the rollout that is under way.
fn way_back(snapshot: &Snapshot, target: &Target, now: Timestamp) -> Result<Decided<String>, Failure> {
    let found = found(snapshot, target)?;
    let Undo { write, to } = found.undo(snapshot, None, now)?;
    let said = format!(
        "{target} goes back to {to}, which ran before; pods that have changed already change once more; {}",
        follow(found.root)
    );
    Decided::holding(write, snapshot, found.root, said)
}

fn nothing(target: &Target, namespace: &str) -> Failure {
    Failure::Failed(format!(
        "{target}: nothing is under way, and no restart waits; an earlier template is given back by: kubectl hitless undo -n {namespace} \
         {target}"
    ))
}

/// Takes the request for a restart off, if it is the one that was seen.
fn withdrawal(pod: &PodView) -> Option<JsonPatch> {
    let of = |name| ["metadata", "annotations", name];
    let token = pod.annotations.get(annotations::RESTART)?;
    let patch = JsonPatch::of(&pod.id.uid).change(&of(annotations::RESTART), Some(token), None);
    let containers = pod.annotations.get(annotations::RESTART_CONTAINERS);
    Some(patch.change(&of(annotations::RESTART_CONTAINERS), containers.map(String::as_str), None))
}

#[cfg(test)]
mod tests;

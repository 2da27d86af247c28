//! What people should know of workloads, as Events: the same note for as long as it is true.

use std::collections::BTreeSet;

use hitless_api::event::{Note, Severity};
use hitless_api::names::annotations;
use hitless_api::{Outcome, PodRef};
use hitless_workloads::deployment::Because;
use hitless_workloads::{DeploymentView, Stage, WorkloadWrite};
use k8s_openapi::api::core::v1::ObjectReference;

use super::PodVerdict;
use super::completion::{Ended, Failure};
use super::intents::{Wishes, Workload};

pub(super) fn notes(wishes: &Wishes<'_>, ended: &Ended<'_>, verdicts: &[PodVerdict]) -> Vec<Note> {
    let stages = wishes.workloads.iter().filter_map(stage);
    // Each verdict is looked at once: a cluster has many workloads, and many pods that wait.
    let mut waiting: Vec<Vec<&PodVerdict>> = wishes.workloads.iter().map(|_| Vec::new()).collect();
    for verdict in verdicts {
        let wish = wishes.by_pod.get(verdict.pod.uid.as_str());
        if let Some(own) = wish.and_then(|wish| waiting.get_mut(wish.workload?)) {
            own.push(verdict);
        }
    }
    let busy = ended.busy.iter().filter_map(|uid| wishes.pods.get(uid)).filter_map(|pod| wishes.owners.of(pod));
    let moving: BTreeSet<String> = busy.map(|(owner, _)| owner.uid).collect();
    let blocked = wishes.workloads.iter().zip(waiting).enumerate().filter_map(|(index, (workload, own))| {
        let halted = ended.failures.iter().any(|failure| failure.workload == Some(index));
        if halted || moving.contains(&workload.deployment.uid) { None } else { blocked(workload, &own) }
    });
    let restarts = verdicts.iter().filter_map(|verdict| lone(wishes, verdict));
    let failed = ended.failures.iter().map(|failure| failed(wishes, failure));
    let lingering = ended.lingering.iter().map(|failure| lingering(wishes, failure));
    stages.chain(blocked).chain(restarts).chain(failed).chain(lingering).collect()
}

/// Once `write` has succeeded.
pub(super) fn after(workload: &Workload<'_>, write: &WorkloadWrite) -> Option<Note> {
    if let (WorkloadWrite::Unpause { .. }, Stage::SteppingAside(because)) = (write, &workload.plan.stage) {
        let text = format!("{}; the Deployment controller rolls it", why(because));
        return Some(note(regarding(workload.deployment), Severity::Normal, "NativeRollout", text));
    }
    let finished = match write {
        WorkloadWrite::Unpause { .. } => workload.plan.stage == Stage::Finishing,
        WorkloadWrite::SetExact { .. } => workload.plan.permanent && workload.plan.stage == Stage::Finishing,
        _ => false,
    };
    finished.then(|| {
        let text = format!("all {} pods are at revision {}, in place", workload.plan.total, workload.plan.target);
        note(regarding(workload.deployment), Severity::Normal, "RolloutFinished", text)
    })
}

fn stage(workload: &Workload<'_>) -> Option<Note> {
    let at = regarding(workload.deployment);
    match &workload.plan.stage {
        Stage::Rolling if !workload.plan.permanent => {
            let text = format!(
                "paused while its pods are brought to revision {} in place; scaling works, undo and restart wait",
                workload.plan.target
            );
            Some(note(at, Severity::Normal, "RolloutHeld", text))
        }
        Stage::Refused(because) => {
            let text = format!(
                "{}, and {}; change it back, or allow a native rollout with {}=in-place and no pause of your own",
                why(because),
                if workload.plan.permanent { "the Deployment is paused by its owner" } else { "it is in-place-only" },
                annotations::UPDATE,
            );
            Some(note(at, Severity::Warning, "RolloutRefused", text))
        }
        Stage::NotOurs | Stage::Idle | Stage::Native | Stage::SteppingAside(_) | Stage::Rolling | Stage::Finishing => {
            None
        }
    }
}

/// Why a change is not made in place.
pub(super) fn why(because: &Because) -> String {
    match because {
        Because::Field(field) => format!("a change of {field} can't be made to running pods"),
        Because::NativeRollout => "a native rollout was under way".to_owned(),
        Because::NoReplicaSet => "no ReplicaSet is there that could be updated in place".to_owned(),
    }
}

/// A workload of which no pod moves: with the first pod's reason.
fn blocked(workload: &Workload<'_>, own: &[&PodVerdict]) -> Option<Note> {
    let waits = |verdict: &&PodVerdict| verdict.waiting.as_ref().is_some_and(|waiting| !waiting.is_brief());
    if !own.iter().all(waits) {
        return None;
    }
    let verdict = own.first()?;
    let text = format!("{} pods wait; pod {}: {}", own.len(), verdict.pod.name, verdict.text().unwrap_or_default());
    Some(note(regarding(workload.deployment), Severity::Warning, "RolloutBlocked", text))
}

/// A restart of a pod that no workload of ours stands behind.
fn lone(wishes: &Wishes<'_>, verdict: &PodVerdict) -> Option<Note> {
    let wish = wishes.by_pod.get(verdict.pod.uid.as_str())?;
    if wish.workload.is_some() || verdict.waiting.as_ref()?.is_brief() {
        return None;
    }
    Some(note(pod(&verdict.pod), Severity::Warning, "RestartBlocked", verdict.text()?))
}

fn failed(wishes: &Wishes<'_>, failure: &Failure<'_>) -> Note {
    let (reason, what) = match failure.result.outcome {
        Outcome::RolledBack => ("PodRolledBack", "was operated and rolled back"),
        Outcome::Refused => ("PodRefused", "was refused by the node's agent"),
        Outcome::Failed | Outcome::Done | Outcome::Cancelled => ("PodFailed", "could not be operated"),
    };
    let at =
        failure.workload.map_or_else(|| pod(&failure.grant.pod), |index| regarding(wishes.workloads[index].deployment));
    let text = format!("pod {} {what}: {} {}", failure.grant.pod.name, failure.result.reason, failure.message);
    note(at, Severity::Warning, reason, text.trim_end().to_owned())
}

/// A pod that is as it should be but for not being Ready after its operation: a rollout does not end over it.
fn lingering(wishes: &Wishes<'_>, failure: &Failure<'_>) -> Note {
    let Failure { grant, result, .. } = failure;
    let owner = wishes.pods.get(grant.pod.uid.as_str()).and_then(|pod| wishes.owners.of(pod));
    let workload = owner.and_then(|(owner, _)| wishes.workloads.iter().find(|each| each.deployment.uid == owner.uid));
    let at = workload.map_or_else(|| pod(&grant.pod), |workload| regarding(workload.deployment));
    let text = format!(
        "pod {} is not Ready after its operation ended with {:?}/{}, and keeps its place until it is; look at its containers, \
         delete it, or change the template",
        grant.pod.name, result.outcome, result.reason
    );
    note(at, Severity::Warning, "PodNotReady", text)
}

fn note(regarding: ObjectReference, severity: Severity, reason: &'static str, text: String) -> Note {
    Note { regarding, severity, reason, action: "UpdateInPlace", text }
}

fn regarding(deployment: &DeploymentView) -> ObjectReference {
    ObjectReference {
        api_version: Some("apps/v1".to_owned()),
        kind: Some("Deployment".to_owned()),
        namespace: Some(deployment.namespace.clone()),
        name: Some(deployment.name.clone()),
        uid: Some(deployment.uid.clone()),
        ..ObjectReference::default()
    }
}

fn pod(pod: &PodRef) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid: Some(pod.uid.clone()),
        ..ObjectReference::default()
    }
}

//! `kubectl hitless undo` and `retry`: what kubectl refuses while a rollout is held. The kind of the workload says what is written, and
//! `hitless_workloads::undo` whether that is meant.

use std::collections::BTreeSet;

use hitless_rollout::round::WorkloadReport;
use hitless_workloads::{Kind, Object, Stage, Undo, World, registry};
use jiff::Timestamp;
use kube::Client;

use crate::args::{Target, TargetArgs, UndoArgs, workload_targets};
use crate::failure::Failure;
use crate::follow::follow;
use crate::say;
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};
use crate::write::{Decided, write};

pub(crate) async fn undo(client: Client, namespace: String, arguments: &UndoArgs) -> Result<(), Failure> {
    let target = &arguments.target;
    let snapshot = source::read(&client, &Scope::Namespace(namespace)).await?;
    let decide = |snapshot: &Snapshot| {
        let found = found(snapshot, target)?;
        let Undo { write, to } = found.undo(snapshot, arguments.to_revision, Timestamp::now())?;
        let said = format!("{target} goes back to {to}; {}", follow(found.root));
        Decided::holding(write, snapshot, found.root, said)
    };
    say(&write(&client, snapshot, &format!("go back with {target}"), decide).await?)
}

pub(crate) async fn retry(client: Client, namespace: String, arguments: &TargetArgs) -> Result<(), Failure> {
    let target = &arguments.target;
    let snapshot = source::read(&client, &Scope::Namespace(namespace)).await?;
    let decide = |snapshot: &Snapshot| {
        let found = found(snapshot, target)?;
        let write = found.kind.retry(found.root, &world(snapshot)).map_err(|why| found.refused(&why))?;
        let said = format!("{target} is tried again; {}", follow(found.root));
        Decided::holding(write, snapshot, found.root, said)
    };
    say(&write(&client, snapshot, &format!("try the version of {target} again"), decide).await?)
}

/// The workload that is meant, and its kind.
pub(crate) struct Found<'a> {
    target: &'a Target,
    kind: &'static dyn Kind,
    pub(crate) root: &'a Object,
}

pub(crate) fn found<'a>(snapshot: &'a Snapshot, target: &'a Target) -> Result<Found<'a>, Failure> {
    let found = snapshot.find(target).ok_or_else(|| snapshot.missing(&format!("{target} does not exist")))?;
    let root = found.workload.and_then(|root| Some((root, registry::of_workload(&root.id.group_kind)?)));
    let (root, kind) =
        root.ok_or_else(|| Failure::Usage(format!("{target} is no workload; write {}", workload_targets())))?;
    Ok(Found { target, kind, root })
}

fn world(snapshot: &Snapshot) -> World<'_> {
    World::new(&snapshot.cluster.objects, &snapshot.cluster.pods, BTreeSet::new())
}

impl Found<'_> {
    /// Where an undo leads, or why nowhere.
    pub(crate) fn undo(&self, snapshot: &Snapshot, to_revision: Option<u64>, now: Timestamp) -> Result<Undo, Failure> {
        let is_under_way = self.report(snapshot, now).is_some_and(|report| is_under_way(&report));
        let undo = hitless_workloads::undo::undo(self.kind, self.root, &world(snapshot), to_revision, is_under_way);
        undo.map_err(|why| self.refused(&why))
    }

    /// What the controller's decision says of it.
    pub(crate) fn report(&self, snapshot: &Snapshot, now: Timestamp) -> Option<WorkloadReport> {
        let workloads = snapshot.explain(now, |_| false).workloads;
        workloads.into_iter().find(|report| report.id.uid == self.root.id.uid)
    }

    fn refused(&self, why: &str) -> Failure {
        Failure::Failed(format!("{}: {why}", self.target))
    }
}

/// Whether a rollout goes on. One that has failed does not, whether or not the controller has written that down yet.
fn is_under_way(report: &WorkloadReport) -> bool {
    match report.stage {
        Stage::Rolling => report.failures.is_empty(),
        // Nothing is left to go back from, and a Deployment's ReplicaSet has the template of a version that is new as well.
        Stage::Finishing
        | Stage::Idle
        | Stage::NotOurs
        | Stage::Native
        | Stage::SteppingAside(_)
        | Stage::Halted(_)
        | Stage::Refused(_) => false,
    }
}

#[cfg(test)]
mod tests;

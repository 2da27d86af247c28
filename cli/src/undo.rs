//! `kubectl hitless undo` and `retry`: what kubectl refuses while a rollout is held. The kind of the workload says what is written.

use std::collections::BTreeSet;

use hitless_workloads::{Object, Request, World, Write, kind};
use kube::Client;

use crate::args::{Target, TargetArgs, UndoArgs};
use crate::failure::Failure;
use crate::say;
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};
use crate::write::{carry_out, held};

pub(crate) async fn undo(client: Client, namespace: String, arguments: &UndoArgs) -> Result<(), Failure> {
    let target = &arguments.target;
    let snapshot = source::read(&client, &Scope::Namespace(namespace.clone())).await?;
    let write = of_workload(&snapshot, target, |kind, root, world| {
        let write = kind.undo(root, world, arguments.to_revision)?;
        Ok(match (&write.request, snapshot.raw(&root.id.uid)) {
            (Request::Patch(change), Some(raw)) => {
                Write { request: Request::Patch(held(change.clone(), root, raw)), ..write }
            }
            _ => write,
        })
    })?;
    carry_out(&client, &write, &format!("go back with {target}")).await?;
    say(&format!("{target} goes back; watch it with: kubectl hitless wait -n {namespace} {target}"))
}

pub(crate) async fn retry(client: Client, namespace: String, arguments: &TargetArgs) -> Result<(), Failure> {
    let target = &arguments.target;
    let snapshot = source::read(&client, &Scope::Namespace(namespace.clone())).await?;
    let write = of_workload(&snapshot, target, |kind, root, world| kind.retry(root, world))?;
    carry_out(&client, &write, &format!("try the version of {target} again")).await?;
    say(&format!("{target} is tried again; watch it with: kubectl hitless wait -n {namespace} {target}"))
}

/// What its kind says of the workload that is meant.
pub(crate) fn of_workload(
    snapshot: &Snapshot,
    target: &Target,
    ask: impl FnOnce(&dyn kind::Kind, &Object, &World<'_>) -> Result<Write, String>,
) -> Result<Write, Failure> {
    let found = snapshot.find(target).ok_or_else(|| snapshot.missing(&format!("{target} does not exist")))?;
    let Some((root, kind)) = found.workload.and_then(|root| Some((root, kind::of_workload(&root.id.group_kind)?)))
    else {
        return Err(Failure::Usage(format!("{target} is no workload; write e.g. deployment/NAME")));
    };
    let world = World::new(&snapshot.cluster.objects, &snapshot.cluster.pods, BTreeSet::new());
    ask(kind, root, &world).map_err(|why| Failure::Failed(format!("{target}: {why}")))
}

//! `kubectl hitless undo` and `retry`: what kubectl refuses while a rollout is held. The kind of the workload says what is written.

use std::collections::BTreeSet;

use hitless_runtime::write::{WriteError, Writes};
use hitless_workloads::{Object, Request, World, Write, kind};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PatchParams};
use kube::{Api, Client};

use crate::args::{RetryArgs, Target, UndoArgs};
use crate::failure::Failure;
use crate::say;
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};

pub(crate) async fn undo(client: Client, namespace: String, arguments: &UndoArgs) -> Result<(), Failure> {
    let target = &arguments.target;
    let snapshot = source::read(&client, &Scope::Namespace(namespace.clone())).await?;
    let write = of_workload(&snapshot, target, |kind, root, world| kind.undo(root, world, arguments.to_revision))?;
    carry_out(&client, &write, &format!("go back with {target}")).await?;
    say(&format!("{target} goes back; watch it with: kubectl hitless wait -n {namespace} {target}"))
}

pub(crate) async fn retry(client: Client, namespace: String, arguments: &RetryArgs) -> Result<(), Failure> {
    let target = &arguments.target;
    let snapshot = source::read(&client, &Scope::Namespace(namespace.clone())).await?;
    let write = of_workload(&snapshot, target, |kind, root, world| kind.retry(root, world))?;
    carry_out(&client, &write, &format!("try the version of {target} again")).await?;
    say(&format!("{target} is tried again; watch it with: kubectl hitless wait -n {namespace} {target}"))
}

fn of_workload(
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

/// With the user's own rights; fails if the object is not as it was read.
async fn carry_out(client: &Client, write: &Write, what: &str) -> Result<(), Failure> {
    let (Request::Patch(patch), Some((_, resource))) = (&write.request, kind::resource(&write.on.group_kind)) else {
        return Err(Failure::Failed(format!("can't {what}: no such write is known")));
    };
    let gvk = GroupVersionKind::gvk(&resource.group_kind.group, resource.version, &resource.group_kind.kind);
    let api_resource = ApiResource::from_gvk_with_plural(&gvk, resource.plural);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &write.on.namespace, &api_resource);
    let patch = patch.clone().build();
    match Writes::default().send(resource.plural, api.patch(&write.on.name, &PatchParams::default(), &patch)).await {
        Ok(_) => Ok(()),
        Err(WriteError::Conflict { .. } | WriteError::Gone { .. }) => {
            Err(Failure::Failed(format!("can't {what}: it has just been changed; look at it and try again")))
        }
        Err(error) => Err(Failure::of(what.to_owned(), error)),
    }
}

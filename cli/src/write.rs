//! Carries out writes with the user's own rights.

use hitless_api::{JsonPatch, ObjectRef};
use hitless_runtime::write::{WriteError, Writes};
use hitless_workloads::{Object, Request, Write, kind};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PatchParams};
use kube::{Api, Client};
use serde_json::Value;

use crate::failure::Failure;

/// Patches the object, which is of a workload's kind. Fails if it is not as the patch says.
pub(crate) async fn patch(client: &Client, on: &ObjectRef, patch: JsonPatch, what: &str) -> Result<(), Failure> {
    let Some((_, resource)) = kind::resource(&on.group_kind) else {
        return Err(Failure::Failed(format!("can't {what}: a {} is no workload", on.group_kind)));
    };
    let gvk = GroupVersionKind::gvk(&resource.group_kind.group, resource.version, &resource.group_kind.kind);
    let api_resource = ApiResource::from_gvk_with_plural(&gvk, resource.plural);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &on.namespace, &api_resource);
    let patch = patch.build();
    let sent = Writes::default().send(resource.plural, api.patch(&on.name, &PatchParams::default(), &patch)).await;
    changed(sent.map(|_| ()), what)
}

/// Sets an annotation of the object, if that is as it was seen: its absence is tested, too.
pub(crate) fn annotated(patch: JsonPatch, object: &Object, name: &str, value: &str) -> JsonPatch {
    let at = ["metadata", "annotations", name];
    let patch = match object.annotations.get(name) {
        Some(known) => patch.test(&at, known.as_str()),
        None if object.annotations.is_empty() => patch.new_map(&at[..2]),
        None => patch.test(&at, Value::Null),
    };
    patch.add(&at, value)
}

/// A write that a kind of workload has decided.
pub(crate) async fn carry_out(client: &Client, write: &Write, what: &str) -> Result<(), Failure> {
    match &write.request {
        Request::Patch(decided) => patch(client, &write.on, decided.clone(), what).await,
        Request::Create(_) | Request::Status(_) | Request::Delete { .. } | Request::Look | Request::Absent { .. } => {
            Err(Failure::Failed(format!("can't {what}: no such write is known")))
        }
    }
}

/// What the answer means for the user.
pub(crate) fn changed(answer: Result<(), WriteError>, what: &str) -> Result<(), Failure> {
    match answer {
        Ok(()) => Ok(()),
        // Also a test of the patch that has failed.
        Err(WriteError::Conflict { .. } | WriteError::Gone { .. }) => {
            Err(Failure::Failed(format!("can't {what}: it has just been changed; look at it and try again")))
        }
        Err(error) => Err(Failure::of(what.to_owned(), error)),
    }
}

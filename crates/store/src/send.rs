//! Single requests: for workloads' objects and for pods.

use std::fmt::Debug;

use hitless_api::{PodRef, names};
use hitless_runtime::write::{WriteError, Writes};
use hitless_workloads::{Request, Resource, Write};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Deletes exactly this pod, at this version if it matters, with so many seconds for its containers if not with those of its spec;
/// returns it if the API server shows it once more.
pub async fn delete_pod(
    writes: &Writes,
    client: &Client,
    pod: &PodRef,
    resource_version: Option<String>,
    grace_seconds: Option<u32>,
) -> Result<Option<Pod>, WriteError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version };
    let params = DeleteParams {
        preconditions: Some(preconditions),
        grace_period_seconds: grace_seconds,
        ..DeleteParams::default()
    };
    let answer = writes.send("pods", api.delete(&pod.name, &params)).await?;
    Ok(answer.left())
}

/// Sends a write to a workload's object; returns it as it is stored then, unless it was deleted.
pub async fn send(
    writes: &Writes,
    api: &Api<DynamicObject>,
    resource: &Resource,
    write: &Write,
) -> Result<Option<DynamicObject>, WriteError> {
    match &write.request {
        Request::Create(object) => {
            let object: DynamicObject = serde_json::from_value(object.clone()).map_err(|error| invalid(&error))?;
            writes.send(resource.plural, api.create(&creating(), &object)).await.map(Some)
        }
        Request::Patch(patch) => {
            let patch = patch.clone().build();
            writes.send(resource.plural, api.patch(&write.on.name, &patching(), &patch)).await.map(Some)
        }
        Request::Status(patch) => {
            let patch = patch.clone().build();
            writes.send(resource.plural, api.patch_status(&write.on.name, &patching(), &patch)).await.map(Some)
        }
        Request::Try(object) => {
            let object: DynamicObject = serde_json::from_value(object.clone()).map_err(|error| invalid(&error))?;
            try_create(writes, api, resource.plural, &object).await.map(|()| None)
        }
        Request::Look => look(api, write).await.map(Some),
        Request::Absent { owner_uid } => absent(api, write, owner_uid).await.map(|()| None),
        Request::Delete(deletion) => {
            let params = DeleteParams {
                propagation_policy: Some(PropagationPolicy::Background),
                preconditions: Some(Preconditions {
                    uid: Some(write.on.uid.clone()),
                    resource_version: Some(deletion.resource_version().to_owned()),
                }),
                ..DeleteParams::default()
            };
            writes.send(resource.plural, api.delete(&write.on.name, &params)).await.map(|_| None)
        }
    }
}

/// Whether the API server would accept the object, if none of its name were there: who reviews it does so before the name is looked for.
pub async fn try_create<K>(writes: &Writes, api: &Api<K>, resource: &'static str, object: &K) -> Result<(), WriteError>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    match writes.send(resource, api.create(&PostParams { dry_run: true, ..creating() }, object)).await {
        Ok(_) | Err(WriteError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The object as the API server has it now, if it is the one that the write is about.
pub async fn look<K>(api: &Api<K>, write: &Write) -> Result<K, WriteError>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned,
{
    let there = Writes::read(api.get_opt(&write.on.name)).await?;
    let same = there.filter(|object| object.meta().uid.as_ref() == Some(&write.on.uid));
    same.ok_or_else(|| WriteError::Conflict { message: format!("{} is gone", write.on.label()) })
}

/// Fails if there is an object of that name that the one with this uid controls.
pub async fn absent<K>(api: &Api<K>, write: &Write, owner_uid: &str) -> Result<(), WriteError>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned,
{
    let there = Writes::read(api.get_opt(&write.on.name)).await?;
    let is_owned = |object: &K| {
        let owners = object.meta().owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.uid == owner_uid && owner.controller == Some(true))
    };
    if there.as_ref().is_some_and(is_owned) {
        return Err(WriteError::Conflict { message: format!("{} is still there", write.on.label()) });
    }
    Ok(())
}

/// How the controller creates: its name stands in the object's managed fields.
#[must_use]
pub fn creating() -> PostParams {
    PostParams { field_manager: Some(names::CONTROLLER.to_owned()), ..PostParams::default() }
}

/// How the controller patches.
#[must_use]
pub fn patching() -> PatchParams {
    PatchParams { field_manager: Some(names::CONTROLLER.to_owned()), ..PatchParams::default() }
}

fn invalid(error: &serde_json::Error) -> WriteError {
    WriteError::Invalid { message: error.to_string() }
}

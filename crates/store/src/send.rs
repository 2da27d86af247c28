//! Writes to pods and to workloads' objects: each becomes one request, whatever it is for.

use std::fmt::Debug;

use hitless_api::names;
use hitless_runtime::write::{WriteError, Writes};
use hitless_workloads::{Request, Write};
use kube::Api;
use kube::api::{DeleteParams, PatchParams, PostParams, Preconditions, PropagationPolicy};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Objects that can be written.
pub trait Written: kube::Resource + Clone + Debug + DeserializeOwned + Serialize {}

impl<K: kube::Resource + Clone + Debug + DeserializeOwned + Serialize> Written for K {}

/// A resource to write to, and how its writes are counted.
#[derive(Clone, Debug)]
pub struct Target<K> {
    /// Its objects in the write's namespace.
    pub api: Api<K>,
    /// Its name in metrics.
    pub resource: &'static str,
    /// That of its subresource `status`.
    pub status: &'static str,
}

/// Sends a write; returns the object as it is stored then, if it is still there and the API server shows it.
///
/// # Errors
/// As the API server answers.
pub async fn send<K: Written>(writes: &Writes, target: &Target<K>, write: &Write) -> Result<Option<K>, WriteError> {
    let (api, resource, status, name) = (&target.api, target.resource, target.status, &write.on.name);
    match &write.request {
        Request::Create(object) => {
            let object: K = parsed(object)?;
            writes.send(resource, api.create(&creating(), &object)).await.map(Some)
        }
        Request::Patch(patch) => {
            let patch = patch.clone().build();
            writes.send(resource, api.patch(name, &patching(), &patch)).await.map(Some)
        }
        Request::Status(patch) => {
            let patch = patch.clone().build();
            writes.send(status, api.patch_status(name, &patching(), &patch)).await.map(Some)
        }
        Request::Try(object) => {
            let object: K = parsed(object)?;
            try_create(writes, api, resource, &object).await.map(|()| None)
        }
        Request::Look => {
            let there = Writes::read(api.get_opt(name)).await?;
            let same = there.filter(|object| object.meta().uid.as_ref() == Some(&write.on.uid));
            let gone = || WriteError::Conflict { message: format!("{} is gone", write.on.label()) };
            same.ok_or_else(gone).map(Some)
        }
        Request::Absent { owner_uid } => {
            let there = Writes::read(api.get_opt(name)).await?;
            let is_owned = |object: &K| {
                let owners = object.meta().owner_references.iter().flatten();
                owners.into_iter().any(|owner| owner.uid == *owner_uid && owner.controller == Some(true))
            };
            if there.as_ref().is_some_and(is_owned) {
                return Err(WriteError::Conflict { message: format!("{} is still there", write.on.label()) });
            }
            Ok(None)
        }
        Request::Delete(deletion) => {
            let is_pod = write.on.group_kind.is("", "Pod");
            let params = DeleteParams {
                propagation_policy: (!is_pod).then_some(PropagationPolicy::Background),
                grace_period_seconds: deletion.grace_seconds(),
                preconditions: Some(Preconditions {
                    uid: Some(write.on.uid.clone()),
                    resource_version: deletion.resource_version().map(str::to_owned),
                }),
                ..DeleteParams::default()
            };
            match writes.send(resource, api.delete(name, &params)).await {
                // Pods are shown once more, as they end. One that is gone already is as it should be.
                Ok(answer) => Ok(answer.left().filter(|_| is_pod)),
                Err(WriteError::Gone { .. }) if is_pod => Ok(None),
                Err(error) => Err(error),
            }
        }
    }
}

/// Whether the API server would accept the object, if none of its name were there: who reviews it does so before the name is looked for.
///
/// # Errors
/// If it would not.
pub async fn try_create<K: Written>(
    writes: &Writes,
    api: &Api<K>,
    resource: &'static str,
    object: &K,
) -> Result<(), WriteError> {
    match writes.send(resource, api.create(&PostParams { dry_run: true, ..creating() }, object)).await {
        Ok(_) | Err(WriteError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
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

fn parsed<K: Written>(object: &Value) -> Result<K, WriteError> {
    serde_json::from_value(object.clone()).map_err(|error| WriteError::Invalid { message: error.to_string() })
}

//! Each write becomes one request, whatever it is for.

use std::fmt::Debug;

use hitless_api::names;
use hitless_runtime::write::{WriteError, Writes};
use hitless_workloads::{Request, Write};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
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
        Request::Merge(patch) => {
            let patch = Patch::Merge(patch);
            writes.send(resource, api.patch(name, &patching(), &patch)).await.map(Some)
        }
        Request::Ensure { object, otherwise, .. } => {
            let wanted: K = parsed(object)?;
            match writes.send(resource, api.create(&creating(), &wanted)).await {
                // There is one that the watch has not told of yet, or one that says something else.
                Err(error @ WriteError::Conflict { .. }) => {
                    let there = Writes::read(api.get_opt(name)).await?.ok_or(error)?;
                    let is_deleting = there.meta().deletion_timestamp.is_some();
                    let says = |there: &Value| includes(there, object) && !is_deleting;
                    let is_as_good = serde_json::to_value(&there).is_ok_and(|there| says(&there));
                    let other = || WriteError::Invalid { message: otherwise.clone() };
                    is_as_good.then_some(Some(there)).ok_or_else(other)
                }
                stored => stored.map(Some),
            }
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

/// Whether an object says all that `wanted` says. What it says besides is the API server's or somebody else's.
fn includes(object: &Value, wanted: &Value) -> bool {
    match (object, wanted) {
        (Value::Object(all), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| all.get(name).is_some_and(|known| includes(known, value)))
        }
        (Value::Array(all), Value::Array(wanted)) => {
            wanted.iter().all(|value| all.iter().any(|known| includes(known, value)))
        }
        _ => object == wanted,
    }
}

fn parsed<K: Written>(object: &Value) -> Result<K, WriteError> {
    serde_json::from_value(object.clone()).map_err(|error| WriteError::Invalid { message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_there_already_is_as_good_if_it_says_all_that_is_wanted() {
        let owner = |uid: &str| json!({"kind": "TransitionLedger", "name": "ledger", "uid": uid});
        let binding = |owners: Value, role: &str, subjects: Value| json!({"metadata": {"ownerReferences": owners}, "roleRef": {"name": role}, "subjects": subjects});
        let agent = json!({"kind": "ServiceAccount", "name": "hitless-agent"});
        let wanted = binding(json!([owner("u")]), "operator", json!([agent]));
        let other = json!({"kind": "User", "name": "other"});
        for (there, expected, why) in [
            (binding(json!([other, owner("u")]), "operator", json!([other, agent])), true, "it says more"),
            (binding(json!([owner("v")]), "operator", json!([agent])), false, "an earlier ledger owns it"),
            (binding(json!([owner("u")]), "view", json!([agent])), false, "another role"),
            (binding(json!([owner("u")]), "operator", json!([other])), false, "for others only"),
            (json!({"metadata": {}, "roleRef": {"name": "operator"}}), false, "for nobody"),
        ] {
            assert_eq!(includes(&there, &wanted), expected, "{why}");
        }
    }
}

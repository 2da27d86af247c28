//! Carries out writes with the user's own rights.

use hitless_api::names::annotations;
use hitless_api::{JsonPatch, ObjectRef};
use hitless_runtime::write::{WriteError, Writes};
use hitless_store::api_of;
use hitless_workloads::{Object, OptIn, Request, Write, registry};
use kube::api::{DynamicObject, PatchParams};
use kube::{Api, Client};
use serde_json::Value;

use crate::failure::Failure;
use crate::snapshot::Snapshot;
use crate::source::{self, Scope};

/// So often it is decided and written. The controller writes to a workload seldom more than twice in a row.
const ATTEMPTS: usize = 5;

/// What is to be written to a workload, and what is said then.
#[derive(Debug)]
pub(crate) struct Decided<T> {
    pub(crate) on: ObjectRef,
    /// Tests what it was decided on; `None`: nothing is to be written.
    pub(crate) patch: Option<JsonPatch>,
    pub(crate) said: T,
}

impl<T> Decided<T> {
    /// What a kind of workload has decided of the template of `object`, which is held in the same write.
    pub(crate) fn holding(write: Write, snapshot: &Snapshot, object: &Object, said: T) -> Result<Self, Failure> {
        match (write.request, snapshot.raw(&object.id.uid)) {
            (Request::Patch(change), Some(raw)) => {
                Ok(Self { on: write.on, patch: Some(held(change, object, raw)), said })
            }
            (Request::Patch(change), None) => Ok(Self { on: write.on, patch: Some(change), said }),
            (
                Request::Create(_)
                | Request::Ensure { .. }
                | Request::Try(_)
                | Request::Merge(_)
                | Request::Status(_)
                | Request::Delete(_)
                | Request::Look
                | Request::Absent { .. },
                _,
            ) => Err(Failure::Failed(format!("can't {} {}: no such write is known", write.verb, write.on.target()))),
        }
    }
}

/// Decides about a workload and writes that. The controller writes annotations, the status, the pause and the update strategy of the same
/// object, and an autoscaler its replicas: where these alone have changed meanwhile, it is read and decided again. Where somebody has
/// changed its template, that is left to the user.
pub(crate) async fn write<T>(
    client: &Client,
    snapshot: Snapshot,
    what: &str,
    decide: impl Fn(&Snapshot) -> Result<Decided<T>, Failure>,
) -> Result<T, Failure> {
    let scope = snapshot.namespace.clone().map_or(Scope::All, Scope::Namespace);
    let read = async || source::read(client, &scope).await;
    attempt(snapshot, what, decide, async |on, patch| send(client, on, patch).await, read).await
}

async fn attempt<T>(
    mut snapshot: Snapshot,
    what: &str,
    decide: impl Fn(&Snapshot) -> Result<Decided<T>, Failure>,
    send: impl AsyncFn(&ObjectRef, JsonPatch) -> Result<(), WriteError>,
    read: impl AsyncFn() -> Result<Snapshot, Failure>,
) -> Result<T, Failure> {
    let mut left = ATTEMPTS;
    loop {
        let Decided { on, patch, said } = decide(&snapshot)?;
        let Some(patch) = patch else { return Ok(said) };
        left -= 1;
        let answer = send(&on, patch).await;
        if left > 0 && matches!(answer, Err(WriteError::Conflict { .. })) {
            let next = read().await?;
            if template(&next, &on) == template(&snapshot, &on) {
                snapshot = next;
                continue;
            }
        }
        return changed(answer, what).map(|()| said);
    }
}

/// Its generation does not tell: a Deployment's rises with its annotations, too.
fn template<'a>(snapshot: &'a Snapshot, on: &ObjectRef) -> Option<&'a Value> {
    snapshot.raw(&on.uid)?.pointer("/spec/template")
}

/// Patches the object, which is of a workload's kind.
async fn send(client: &Client, on: &ObjectRef, patch: JsonPatch) -> Result<(), WriteError> {
    let Some((_, resource)) = registry::resource(&on.group_kind) else {
        return Err(WriteError::Invalid { message: format!("a {} is no workload", on.group_kind) });
    };
    let api: Api<DynamicObject> = api_of(client, resource, &on.namespace);
    let patch = patch.build();
    Writes::default().send(resource.plural, api.patch(&on.name, &PatchParams::default(), &patch)).await.map(|_| ())
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

/// A change of the workload's template, and in the same write what holds it. The guard would do that itself where the API server has
/// one; where it has none, changes that nobody holds are refused (`manifests/refusing`). `raw` is the workload as the API server has it.
pub(crate) fn held(change: JsonPatch, object: &Object, raw: &Value) -> JsonPatch {
    let kind = registry::of_workload(&object.id.group_kind).filter(|kind| kind.guard().is_some());
    let has_pods = registry::size(object).is_some_and(|size| size.desired > 0);
    let is_paused = raw["spec"]["paused"] == true;
    let Some(kind) = kind.filter(|_| has_pods && !is_paused && object.opt_in() != OptIn::No) else { return change };
    let held = kind.held(raw.clone());
    let spec = ["paused", "updateStrategy"].into_iter().filter(|field| held["spec"][field] != raw["spec"][field]);
    let change = spec.fold(change, |change, field| change.add(&["spec", field], held["spec"][field].clone()));
    let marks = [annotations::ROLLOUT, annotations::UPDATE_STRATEGY].into_iter().filter_map(|name| {
        let value = held["metadata"]["annotations"][name].as_str()?;
        (object.annotations.get(name).map(String::as_str) != Some(value)).then(|| (name, value.to_owned()))
    });
    marks.fold(change, |change, (name, value)| annotated(change, object, name, &value))
}

/// What the answer means for the user.
pub(crate) fn changed(answer: Result<(), WriteError>, what: &str) -> Result<(), Failure> {
    match answer {
        Ok(()) => Ok(()),
        // Also a test of the patch that has failed.
        Err(WriteError::Conflict { .. } | WriteError::Gone { .. }) => {
            Err(Failure::Failed(format!("can't {what}: it has just been changed; look at it and try again")))
        }
        // A write whose answer is lost may have been carried out.
        Err(WriteError::Transient { message, .. }) => Err(Failure::Failed(format!(
            "can't tell whether it was done ({what}): {message}; look at it before you try again, and whether --kubeconfig and --context \
             are the right ones"
        ))),
        Err(error) => Err(Failure::of(what.to_owned(), error)),
    }
}

#[cfg(test)]
mod tests;

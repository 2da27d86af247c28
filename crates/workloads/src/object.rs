//! An object of a workload's kind: what all kinds share, and a body of its own.

mod typed;

use std::collections::BTreeMap;

use hitless_api::names::{self, annotations};
use hitless_api::{GroupKind, ObjectRef, json_text};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

pub use typed::{
    CloneSet, CollaSet, DaemonSet, Deployment, PodDecoration, ReplicaSet, Revision, SidecarInjection, SidecarSet,
    StatefulSet, Typed,
};

use crate::kinds::clone_set::body::CloneSetBody;
use crate::kinds::colla_set::body::CollaSetBody;
use crate::kinds::colla_set::resource_context::ContextBody;
use crate::kinds::daemon_set::body::DaemonSetBody;
use crate::kinds::deployment::body::{DeploymentBody, ReplicaSetBody};
use crate::kinds::pod_decoration::body::DecorationBody;
use crate::kinds::sidecar_set::body::SidecarSetBody;
use crate::kinds::sidecar_set::injection::InjectionBody;
use crate::kinds::stateful_set::body::StatefulSetBody;
use crate::kinds::update_strategy::is_on_delete;
use crate::managed_fields::{self, Managed};
use crate::opt_in::OptIn;
use crate::pod_set::claim::ClaimBody;
use crate::requests::container_recreate_request::body::RecreateBody;
use crate::requests::operation_job::body::JobBody;
use crate::revision::body::RevisionBody;
use crate::template::Template;

/// An object of a workload's kind, or of a kind that such a workload consists of.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Identity.
    pub id: ObjectRef,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Controller owner.
    pub owner: Option<ObjectRef>,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// `metadata.deletionTimestamp`.
    pub deleting_since: Option<Timestamp>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// `spec.minReadySeconds`: a pod counts as available once it has been Ready for so long; 0 if absent.
    pub min_ready_seconds: u32,
    /// The index of the entry of `metadata.managedFields` by which our controller owns fields of the spec.
    pub owned_spec: Option<usize>,
    /// About how many bytes of memory it takes, if all of it is kept ([`crate::retention`]).
    pub memory: usize,
    /// What only its kind has.
    pub body: Body,
}

/// What only one kind has. One line a kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Of a Deployment.
    Deployment(DeploymentBody),
    /// Of a ReplicaSet.
    ReplicaSet(ReplicaSetBody),
    /// Of a StatefulSet.
    StatefulSet(StatefulSetBody),
    /// Of a DaemonSet.
    DaemonSet(DaemonSetBody),
    /// Of a CollaSet.
    CollaSet(Box<CollaSetBody>),
    /// Of a CloneSet.
    CloneSet(Box<CloneSetBody>),
    /// Of a ResourceContext.
    ResourceContext(ContextBody),
    /// Of a PersistentVolumeClaim.
    Claim(ClaimBody),
    /// Of a PodDecoration.
    PodDecoration(Box<DecorationBody>),
    /// Of a SidecarSet.
    SidecarSet(Box<SidecarSetBody>),
    /// Of the SidecarInjection.
    SidecarInjection(Box<InjectionBody>),
    /// Of a ControllerRevision.
    ControllerRevision(RevisionBody),
    /// Of a request.
    Request(RequestBody),
    /// Of an object of a namespace of which as much is kept as may be ([`crate::retention`]): only how it has opted in.
    Omitted(OptIn),
}

/// What only one kind of request has. One line a kind that has objects.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestBody {
    /// Of an OperationJob.
    OperationJob(JobBody),
    /// Of a ContainerRecreateRequest.
    ContainerRecreate(RecreateBody),
}

impl Object {
    /// The template of its pods; `None` of an object that is no workload.
    #[must_use]
    pub fn template(&self) -> Option<&Template> {
        match &self.body {
            Body::Deployment(body) => Some(&body.template),
            Body::StatefulSet(body) => Some(&body.template),
            Body::DaemonSet(body) => Some(&body.template),
            Body::CollaSet(body) => Some(&body.template),
            Body::CloneSet(body) => Some(&body.template),
            Body::ReplicaSet(_)
            | Body::ResourceContext(_)
            | Body::Claim(_)
            | Body::PodDecoration(_)
            | Body::SidecarSet(_)
            | Body::SidecarInjection(_)
            | Body::ControllerRevision(_)
            | Body::Request(_)
            | Body::Omitted(_) => None,
        }
    }

    /// What makes no sense in it, so that nothing is done for it, as a clause for people; of kinds that say so.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        match &self.body {
            Body::CollaSet(body) => body.fault.as_deref(),
            Body::CloneSet(body) => body.fault.as_deref(),
            Body::PodDecoration(body) => body.fault.as_deref(),
            Body::SidecarSet(body) => body.fault.as_deref(),
            Body::Deployment(_)
            | Body::ReplicaSet(_)
            | Body::StatefulSet(_)
            | Body::DaemonSet(_)
            | Body::ResourceContext(_)
            | Body::Claim(_)
            | Body::SidecarInjection(_)
            | Body::ControllerRevision(_)
            | Body::Request(_)
            | Body::Omitted(_) => None,
        }
    }

    /// What it asks for, if it stands for a request.
    #[must_use]
    pub fn request(&self) -> Option<&RequestBody> {
        match &self.body {
            Body::Request(body) => Some(body),
            _ => None,
        }
    }

    /// Whether its pods are made here, and by nobody else.
    #[must_use]
    pub fn is_pod_set(&self) -> bool {
        matches!(self.body, Body::CollaSet(_) | Body::CloneSet(_))
    }

    /// How it opted in. CollaSets and CloneSets are ours whatever they say.
    #[must_use]
    pub fn opt_in(&self) -> OptIn {
        match &self.body {
            Body::CollaSet(body) => return body.opt_in(),
            Body::CloneSet(body) => return body.opt_in(),
            Body::Omitted(opt_in) => return *opt_in,
            Body::Deployment(_)
            | Body::ReplicaSet(_)
            | Body::StatefulSet(_)
            | Body::DaemonSet(_)
            | Body::ResourceContext(_)
            | Body::Claim(_)
            | Body::PodDecoration(_)
            | Body::SidecarSet(_)
            | Body::SidecarInjection(_)
            | Body::ControllerRevision(_)
            | Body::Request(_) => {}
        }
        match self.annotations.get(annotations::UPDATE).map(String::as_str) {
            Some(names::UPDATE_IN_PLACE) => OptIn::InPlace,
            Some(names::UPDATE_IN_PLACE_ONLY) => OptIn::InPlaceOnly,
            _ => OptIn::No,
        }
    }

    /// Whether it belongs to the cluster or to hitless itself.
    pub(crate) fn is_system(&self) -> bool {
        names::is_system(&self.id.namespace)
    }

    /// What its annotation for the opt-in says, if that means nothing.
    #[must_use]
    pub fn unknown_opt_in(&self) -> Option<&str> {
        let word = self.annotations.get(annotations::UPDATE)?;
        (self.opt_in() == OptIn::No && !self.is_kept_out()).then_some(word)
    }

    /// Its owner wants it to be updated natively, whatever its namespace says.
    #[must_use]
    pub fn is_kept_out(&self) -> bool {
        self.annotations.get(annotations::UPDATE).is_some_and(|word| word == names::UPDATE_NATIVE)
    }

    /// Whether its pods may be made anew for a change that can't be made in place: its owner allows it, and holds it by nothing of his own.
    #[must_use]
    pub fn may_have_new_pods(&self) -> bool {
        let is_held = match &self.body {
            Body::Deployment(body) => body.paused && !self.held_by_guard(),
            Body::StatefulSet(body) => is_on_delete(&body.strategy) && !self.held_by_guard(),
            Body::DaemonSet(body) => is_on_delete(&body.strategy) && !self.held_by_guard(),
            Body::CollaSet(_) | Body::CloneSet(_) => false,
            Body::ReplicaSet(_)
            | Body::ResourceContext(_)
            | Body::Claim(_)
            | Body::PodDecoration(_)
            | Body::SidecarSet(_)
            | Body::SidecarInjection(_)
            | Body::ControllerRevision(_)
            | Body::Request(_)
            | Body::Omitted(_) => return false,
        };
        !is_held && self.opt_in() == OptIn::InPlace
    }

    /// Whether its pods are to restart when a ConfigMap or Secret that they use changes (docs/contract.md#config-reload).
    #[must_use]
    pub fn reloads(&self) -> bool {
        self.opt_in() != OptIn::No
            && !self.deleting
            && self.annotations.get(annotations::RELOAD).is_some_and(|value| value == names::RELOAD_AUTO)
    }

    /// Whether the guard policy's mark is on it (docs/contract.md#whose-hold).
    #[must_use]
    pub fn held_by_guard(&self) -> bool {
        self.annotations.contains_key(annotations::ROLLOUT)
    }

    /// Whether `other` is its controller.
    #[must_use]
    pub fn is_owned_by(&self, other: &Self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.uid == other.id.uid)
    }
}

/// Why an object could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{kind} does not parse: {error}")]
pub struct ReadError {
    /// Kind that was expected.
    pub kind: GroupKind,
    /// What does not fit.
    #[source]
    pub error: serde_json::Error,
}

/// Reads an object of that kind. Lenient: an absent field has its default, an unknown one is ignored (but survives inside a
/// template).
pub(crate) fn read<S>(kind: &GroupKind, object: Value, body: impl FnOnce(S) -> Body) -> Result<Object, ReadError>
where
    S: for<'de> Deserialize<'de>,
{
    let failed = |error| ReadError { kind: kind.clone(), error };
    let meta = object.get("metadata").cloned().unwrap_or_default();
    let meta: RawMeta = serde_json::from_value(meta).map_err(failed)?;
    let min_ready_seconds = object["spec"]["minReadySeconds"].as_u64().unwrap_or_default();
    let memory = memory(&object);
    let body = body(serde_json::from_value(object).map_err(failed)?);
    let owner = meta.owner_references.into_iter().flatten().find(|owner| owner.controller == Some(true));
    let owner = owner.map(|owner| ObjectRef {
        group_kind: GroupKind::of(&owner.api_version, &owner.kind),
        namespace: meta.namespace.clone(),
        name: owner.name,
        uid: owner.uid,
    });
    Ok(Object {
        id: ObjectRef { group_kind: kind.clone(), namespace: meta.namespace, name: meta.name, uid: meta.uid },
        resource_version: meta.resource_version,
        generation: meta.generation,
        created: meta.creation_timestamp,
        labels: meta.labels.unwrap_or_default(),
        annotations: meta.annotations.unwrap_or_default(),
        owner,
        deleting: meta.deletion_timestamp.is_some(),
        deleting_since: meta.deletion_timestamp,
        finalizers: meta.finalizers.unwrap_or_default(),
        min_ready_seconds: u32::try_from(min_ready_seconds).unwrap_or(u32::MAX),
        owned_spec: managed_fields::of_spec(&meta.managed_fields),
        memory,
        body,
    })
}

/// Of what is read of it; its state is short, or ours.
fn memory(object: &Value) -> usize {
    let metadata = &object["metadata"];
    let fields = [&metadata["labels"], &metadata["annotations"], &object["spec"], &object["data"]];
    size_of::<Object>() + fields.into_iter().map(json_text::memory).sum::<usize>()
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMeta {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    generation: i64,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    finalizers: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<RawOwner>>,
    managed_fields: Vec<Managed>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawOwner {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    controller: Option<bool>,
}

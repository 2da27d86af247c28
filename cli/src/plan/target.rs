//! The workload with its new images and labels, as far as the controller's own planner would bring it before it operates pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::PullPolicy;
use hitless_api::names::{self, annotations};
use hitless_workloads::{OptIn, Request, Stage, Write, image, registry};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::args::{ImageArg, LabelArg, Target};
use crate::failure::Failure;
use crate::snapshot::{Snapshot, WorkloadObject};

/// Writes of the planner before pods are operated: an entry of the history, and the mark. More would be a circle.
const MOST_WRITES: usize = 4;

/// What the new images and labels mean.
pub(super) struct Change {
    pub(super) target: Target,
    pub(super) namespace: String,
    pub(super) images: BTreeMap<String, ImageChange>,
    /// Of the template.
    pub(super) labels: BTreeMap<String, LabelChange>,
    pub(super) opted_in: bool,
    pub(super) way: Way,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ImageChange {
    pub(super) from: String,
    pub(super) to: String,
    /// The registry is asked what the new one means: `imagePullPolicy: Always`, and no digest.
    #[serde(skip)]
    pub(super) asks_registry: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LabelChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<String>,
}

pub(super) enum Way {
    /// With everything written that comes before the pods.
    InPlace(Box<Snapshot>),
    /// Kubernetes would roll it, because.
    Native(String),
    Nothing,
}

impl Change {
    /// Whether the template has all of it already.
    pub(super) fn is_none(&self) -> bool {
        self.images.values().all(|image| image.from == image.to)
            && self.labels.values().all(|label| label.from == label.to)
    }
}

pub(super) fn change(
    snapshot: &Snapshot,
    target: &Target,
    images: &[ImageArg],
    labels: &[LabelArg],
) -> Result<Change, Failure> {
    let missing = || snapshot.missing(&format!("{target} does not exist"));
    let found = snapshot.find(target).ok_or_else(missing)?;
    let workload = found.workload.ok_or_else(missing)?;
    let kind = registry::of_workload(&workload.id.group_kind).ok_or_else(missing)?;
    let raw = snapshot.objects.iter().find(|object| object.view.id == workload.id).ok_or_else(missing)?;
    let mut next = raw.raw.clone();
    let mut changes = BTreeMap::new();
    for wanted in images {
        let (container, from, policy) = set_image(&mut next["spec"]["template"], wanted)?;
        let to = wanted.image.clone();
        let asks_registry = policy == PullPolicy::Always && image::digest_of(&to).is_none();
        changes.insert(container, ImageChange { from, to, asks_registry });
    }
    let all = labels.iter().map(|label| (label.key.clone(), set_label(&mut next["spec"]["template"], label)));
    let labels = all.collect();
    let opted_in = workload.opt_in() != OptIn::No;
    if !opted_in {
        next["metadata"]["annotations"][annotations::UPDATE] = names::UPDATE_IN_PLACE.into();
    }
    let uid = workload.id.uid.clone();
    let mut prepared = snapshot.clone();
    for object in kind.revised(kind.held(next)) {
        prepared = put(prepared, object);
    }
    let way = prepare(prepared, &uid);
    let namespace = found.namespace.to_owned();
    Ok(Change { target: target.clone(), namespace, images: changes, labels, opted_in, way })
}

fn set_label(template: &mut Value, wanted: &LabelArg) -> LabelChange {
    let labels = &mut template["metadata"]["labels"];
    let from = labels[&wanted.key].as_str().map(ToOwned::to_owned);
    match (&wanted.value, labels.as_object_mut()) {
        (Some(value), _) => labels[&wanted.key] = value.clone().into(),
        (None, Some(labels)) => _ = labels.remove(&wanted.key),
        (None, None) => {}
    }
    LabelChange { from, to: wanted.value.clone() }
}

/// Returns the container, its image until now and its pull policy.
fn set_image(template: &mut Value, wanted: &ImageArg) -> Result<(String, String, PullPolicy), Failure> {
    let named = |list: &Value| -> Vec<String> {
        let containers = list.as_array().into_iter().flatten();
        containers.filter_map(|container| Some(container["name"].as_str()?.to_owned())).collect()
    };
    let all = named(&template["spec"]["containers"]);
    let container = match (&wanted.container, all.as_slice()) {
        (Some(container), _) => container.clone(),
        (None, [only]) => only.clone(),
        (None, _) => {
            let text =
                format!("say which container gets {}: CONTAINER=IMAGE, with one of {}", wanted.image, all.join(", "));
            return Err(Failure::Usage(text));
        }
    };
    for list in ["containers", "initContainers"] {
        let containers = template["spec"].get_mut(list).and_then(Value::as_array_mut);
        if let Some(found) = containers.into_iter().flatten().find(|each| each["name"] == container.as_str()) {
            let from = found["image"].as_str().unwrap_or_default().to_owned();
            found["image"] = wanted.image.clone().into();
            return Ok((container, from, PullPolicy::of(found["imagePullPolicy"].as_str())));
        }
    }
    Err(Failure::Usage(format!("there is no container {container}; there are: {}", all.join(", "))))
}

/// Carries out on the copy what the planner would write to the workload's own objects.
fn prepare(mut snapshot: Snapshot, uid: &str) -> Way {
    for _ in 0..MOST_WRITES {
        let explanation = snapshot.explain(Timestamp::UNIX_EPOCH, |_| false);
        let Some(workload) = explanation.workloads.into_iter().find(|workload| workload.id.uid == uid) else {
            return Way::Nothing;
        };
        match (workload.stage, workload.writes.into_iter().next()) {
            (Stage::SteppingAside(_) | Stage::Refused(_) | Stage::Halted(_), _) => {
                return Way::Native(workload.why.unwrap_or_default());
            }
            (Stage::Rolling, None) => return Way::InPlace(Box::new(snapshot)),
            (Stage::Rolling, Some(write)) => snapshot = carry_out(snapshot, &write),
            (Stage::NotOurs | Stage::Idle | Stage::Native | Stage::Finishing, _) => return Way::Nothing,
        }
    }
    Way::InPlace(Box::new(snapshot))
}

/// A write of the planner to the copy, which is what it was decided on.
fn carry_out(snapshot: Snapshot, write: &Write) -> Snapshot {
    match &write.request {
        Request::Create(object) => {
            let mut object = object.clone();
            object["metadata"]["uid"] = format!("{} of the plan", write.on.name).into();
            put(snapshot, object)
        }
        Request::Patch(patch) | Request::Status(patch) => {
            let known = snapshot.objects.iter().find(|object| object.view.id == write.on);
            let Some(mut object) = known.map(|known| complete(known)) else { return snapshot };
            match json_patch::patch(&mut object, &patch.clone().operations()) {
                Ok(()) => put(snapshot, object),
                Err(_) => snapshot,
            }
        }
        // None of these changes a workload's own objects.
        Request::Try(_) | Request::Merge(_) | Request::Ensure { .. } | Request::Look | Request::Absent { .. } => {
            snapshot
        }
        Request::Delete(_) => {
            let mut objects = snapshot.objects.clone();
            objects.retain(|object| object.view.id != write.on);
            snapshot.with_objects(objects)
        }
    }
}

/// The object with what a patch may rest on: one from a file may lack it.
fn complete(object: &WorkloadObject) -> Value {
    let mut raw = object.raw.clone();
    let meta = &mut raw["metadata"];
    meta["resourceVersion"] = object.view.resource_version.clone().into();
    for map in ["labels", "annotations"] {
        if meta[map].is_null() {
            meta[map] = Value::Object(Map::new());
        }
    }
    raw
}

/// With this object in place of the one with its uid.
fn put(snapshot: Snapshot, object: Value) -> Snapshot {
    let Some(object) = WorkloadObject::of(object).map(Arc::new) else { return snapshot };
    let mut objects = snapshot.objects.clone();
    match objects.iter_mut().find(|known| known.view.id.uid == object.view.id.uid) {
        Some(known) => *known = object,
        None => objects.push(object),
    }
    snapshot.with_objects(objects)
}

//! The Deployment with its new images, as far as the controller's own planner would bring it before it operates pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::names::{self, annotations};
use hitless_workloads::deployment::{OptIn, Template};
use hitless_workloads::{DeploymentView, ReplicaSetView, Stage, WorkloadWrite};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::args::{ImageArg, Target};
use crate::failure::Failure;
use crate::snapshot::Snapshot;

/// Writes of the planner before pods are operated: an entry of the history, and the mark. More would be a circle.
const MOST_WRITES: usize = 4;

/// What the new images mean.
pub(super) struct Change {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) images: BTreeMap<String, ImageChange>,
    pub(super) opted_in: bool,
    pub(super) way: Way,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ImageChange {
    pub(super) from: String,
    pub(super) to: String,
}

pub(super) enum Way {
    /// With everything written that comes before the pods.
    InPlace(Box<Snapshot>),
    /// Kubernetes would roll it, because.
    Native(String),
    Nothing,
}

pub(super) fn change(snapshot: &Snapshot, target: &Target, images: &[ImageArg]) -> Result<Change, Failure> {
    let missing = || snapshot.missing(&format!("{target} does not exist"));
    let found = snapshot.find(target).ok_or_else(missing)?;
    let index = found.workload.ok_or_else(missing)?;
    let deployment = &snapshot.cluster.deployments[index];
    let mut template = deployment.template.content().clone();
    let mut changes = BTreeMap::new();
    for image in images {
        let (container, from) = set_image(&mut template, image)?;
        changes.insert(container, ImageChange { from, to: image.image.clone() });
    }
    let opted_in = deployment.opt_in() != OptIn::No;
    let mut next = DeploymentView::clone(deployment);
    next.template = Template::new(template);
    // As the guard policy would hold it.
    next.paused = true;
    next.annotations.insert(annotations::ROLLOUT.to_owned(), names::ROLLOUT_HELD.to_owned());
    if !opted_in {
        next.annotations.insert(annotations::UPDATE.to_owned(), names::UPDATE_IN_PLACE.to_owned());
    }
    let mut prepared = snapshot.clone();
    prepared.cluster.deployments[index] = Arc::new(next);
    let way = prepare(prepared, index);
    let (name, namespace) = (target.name.clone(), found.namespace.to_owned());
    Ok(Change { name, namespace, images: changes, opted_in, way })
}

/// Returns the container and its image until now.
fn set_image(template: &mut Value, image: &ImageArg) -> Result<(String, String), Failure> {
    let named = |list: &Value| -> Vec<String> {
        let containers = list.as_array().into_iter().flatten();
        containers.filter_map(|container| Some(container["name"].as_str()?.to_owned())).collect()
    };
    let all = named(&template["spec"]["containers"]);
    let container = match (&image.container, all.as_slice()) {
        (Some(container), _) => container.clone(),
        (None, [only]) => only.clone(),
        (None, _) => {
            let text =
                format!("say which container gets {}: CONTAINER=IMAGE, with one of {}", image.image, all.join(", "));
            return Err(Failure::Usage(text));
        }
    };
    for list in ["containers", "initContainers"] {
        let containers = template["spec"].get_mut(list).and_then(Value::as_array_mut);
        if let Some(found) = containers.into_iter().flatten().find(|each| each["name"] == container.as_str()) {
            let from = found["image"].as_str().unwrap_or_default().to_owned();
            found["image"] = image.image.clone().into();
            return Ok((container, from));
        }
    }
    Err(Failure::Usage(format!("there is no container {container}; there are: {}", all.join(", "))))
}

/// Carries out on the copy what the planner would write to the workload's own objects.
fn prepare(mut snapshot: Snapshot, index: usize) -> Way {
    for _ in 0..MOST_WRITES {
        let mut explanation = snapshot.explain(Timestamp::UNIX_EPOCH, |_| false);
        if index >= explanation.workloads.len() {
            return Way::Nothing;
        }
        let workload = explanation.workloads.swap_remove(index);
        match (workload.stage, workload.next_write) {
            (Stage::SteppingAside(_) | Stage::Refused(_), _) => return Way::Native(workload.why.unwrap_or_default()),
            (Stage::Rolling, None) => return Way::InPlace(Box::new(snapshot)),
            (Stage::Rolling, Some(write)) => {
                if !apply(&mut snapshot, &write) {
                    return Way::Nothing;
                }
            }
            (Stage::NotOurs | Stage::Idle | Stage::Native | Stage::Finishing, _) => return Way::Nothing,
        }
    }
    Way::InPlace(Box::new(snapshot))
}

/// Whether it was one of the writes that come before the pods.
fn apply(snapshot: &mut Snapshot, write: &WorkloadWrite) -> bool {
    match write {
        WorkloadWrite::CreateHistory { replica_set } => {
            let mut object = replica_set.clone();
            object["metadata"]["uid"] = "history".into();
            let set: Option<ReplicaSetView> = serde_json::from_value(object).ok();
            snapshot.cluster.replica_sets.extend(set.map(Arc::new));
            true
        }
        WorkloadWrite::SetMixed { live, template } => {
            for set in snapshot.cluster.replica_sets.iter_mut().filter(|set| set.uid == live.uid) {
                Arc::make_mut(set).template = Template::new(template.clone());
            }
            true
        }
        WorkloadWrite::SetExact { .. }
        | WorkloadWrite::Settle { .. }
        | WorkloadWrite::LabelTwin { .. }
        | WorkloadWrite::DeleteTwin { .. }
        | WorkloadWrite::StripLabels { .. }
        | WorkloadWrite::RecordGap { .. }
        | WorkloadWrite::Unpause { .. } => false,
    }
}

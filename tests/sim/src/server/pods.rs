//! Agents' patches of pods, carried out as the API server does.

use hitless_agent::view::NodePod;
use hitless_api::PodRef;
use hitless_api::names::IN_SERVICE;
use hitless_api::pod::{ConditionView, PodView};
use hitless_rollout::companion::is_companion;
use hitless_workloads::{Request, Write};
use hitless_world::review;
use json_patch::PatchOperation;
use serde_json::Value;

use super::{Object, Refusal, Server, fits};
use crate::checks::{Checks, Operation};
use hitless_rollout::snapshot::Version;

impl Server {
    /// A strategic merge patch of the condition.
    pub(super) fn in_service(
        &mut self,
        pod: &PodRef,
        patch: &Value,
        operation: Option<&Operation>,
        checks: &mut Checks,
    ) -> Result<Option<Object>, Refusal> {
        let known = self.pods.get(pod.uid.as_str()).ok_or(Refusal::Gone)?.clone();
        let metadata = &patch["metadata"];
        let wanted = Version { uid: text(&metadata["uid"]), resource_version: text(&metadata["resourceVersion"]) };
        if !fits(&version(&known.view), &wanted) {
            return Err(Refusal::Conflict);
        }
        let mut after = NodePod::clone(&known.node_pod);
        after.view.conditions.insert(IN_SERVICE, condition(&patch["status"]["conditions"][0]));
        self.admission.review(self.now, &known.view, &after.view)?;
        checks.in_service(self, &known.view, &after.view, operation);
        Ok(Some(Object::Pod(self.put_pod(checks, after))))
    }

    /// A controller's write to a pod that takes part in PodOpsLifecycle, that a CollaSet has or is to have, or that is a companion.
    pub(super) fn own_pod(&mut self, write: &Write, checks: &mut Checks) -> Result<Option<Object>, Refusal> {
        let known = self.pods.get(write.on.uid.as_str()).cloned();
        match &write.request {
            Request::Create(manifest) => {
                let is_companion = write.verb == "companion";
                if is_companion {
                    self.admit_helper(&write.on.namespace)?;
                }
                let pod = self.new_pod(&write.on.namespace, manifest.clone())?;
                if !is_companion {
                    checks.pod_made(self, &pod.view);
                }
                Ok(Some(Object::Pod(self.put_pod(checks, pod))))
            }
            // Admission refuses no pod of a CollaSet here.
            Request::Try(_) => Ok(None),
            Request::Look => self.very_pod(write),
            Request::Absent { owner_uid } => self.no_pod(write, owner_uid),
            Request::Patch(patch) => {
                let known = known.ok_or(Refusal::Gone)?;
                let mut after = NodePod::clone(&known.node_pod);
                for step in &patch.clone().operations().0 {
                    apply(&mut after, step).ok_or(Refusal::Conflict)?;
                }
                checks.labelled(self, &known.view, &after.view);
                Ok(Some(Object::Pod(self.put_pod(checks, after))))
            }
            Request::Delete(deletion) => {
                let known = known.ok_or(Refusal::Gone)?;
                if deletion.resource_version().is_some_and(|wanted| known.view.resource_version != wanted) {
                    return Err(Refusal::Conflict);
                }
                let is_companion = is_companion(&known.view);
                if is_companion {
                    checks.companion_deleted(self, &known.view);
                } else if known
                    .view
                    .owner
                    .as_ref()
                    .is_some_and(|owner| ["CollaSet", "CloneSet"].contains(&&*owner.group_kind.kind))
                {
                    checks.deleted_by_us(self, &known.view);
                } else {
                    checks.deleted_by_label(self, &known.view);
                }
                let is_asked_to_end = deletion.grace_seconds() != Some(0);
                let has_served = known.view.in_service().is_some();
                let ends_at_once =
                    if is_companion { !has_served || !is_asked_to_end } else { known.view.node.is_none() };
                if ends_at_once {
                    self.remove_pod(checks, &write.on.uid);
                } else {
                    self.change_pod(checks, &write.on.uid, |pod| pod.view.terminating = true);
                }
                Ok(None)
            }
            Request::Status(patch) => {
                let added = patch.value("/status/conditions/-").filter(|added| added["type"] == IN_SERVICE);
                let added = added.ok_or(Refusal::Denied("no such write to a pod"))?;
                let known = known.ok_or(Refusal::Gone)?;
                review(write, Some(&version(&known.view)))?;
                let mut after = NodePod::clone(&known.node_pod);
                after.view.conditions.insert(IN_SERVICE, condition(added));
                Ok(Some(Object::Pod(self.put_pod(checks, after))))
            }
            Request::Merge(_) | Request::Ensure { .. } => Err(Refusal::Denied("no such write to a pod")),
        }
    }

    /// A JSON patch of images, labels and annotations.
    pub(super) fn images(
        &mut self,
        pod: &PodRef,
        patch: &json_patch::Patch,
        operation: &Operation,
        checks: &mut Checks,
    ) -> Result<Option<Object>, Refusal> {
        let known = self.pods.get(pod.uid.as_str()).ok_or(Refusal::Gone)?.clone();
        let mut after = NodePod::clone(&known.node_pod);
        for step in &patch.0 {
            apply(&mut after, step).ok_or(Refusal::Conflict)?;
        }
        if operation.held {
            // A pod that stays in service does not show that its operation is over: a late patch is admission's to refuse.
            self.admission.review(self.now, &known.view, &after.view)?;
            checks.images(self, &known.view, &after.view, operation);
            checks.replaced(self, &known.view, operation);
        } else {
            checks.images(self, &known.view, &after.view, operation);
            self.admission.review(self.now, &known.view, &after.view)?;
        }
        checks.restarted(self.now, &known.view, &after.view, operation);
        after.view.generation += 1;
        after.has_annotations = !after.view.annotations.is_empty();
        after.has_labels = !after.view.labels.is_empty();
        Ok(Some(Object::Pod(self.put_pod(checks, after))))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn version(pod: &PodView) -> Version {
    Version { uid: pod.id.uid.clone(), resource_version: pod.resource_version.clone() }
}

fn condition(condition: &Value) -> ConditionView {
    let since = condition["lastTransitionTime"].as_str().and_then(|time| time.parse().ok());
    ConditionView::new(condition["status"] == "True", text(&condition["reason"]), text(&condition["message"]), since)
}

/// One operation of the patch; `None` if it does not fit.
fn apply(pod: &mut NodePod, step: &PatchOperation) -> Option<()> {
    let path: Vec<String> = step.path().tokens().map(|token| token.decoded().into_owned()).collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match step {
        PatchOperation::Test(test) => (read(pod, &path)? == test.value).then_some(()),
        PatchOperation::Add(add) => write(pod, &path, Some(&add.value)),
        PatchOperation::Replace(replace) => write(pod, &path, Some(&replace.value)),
        PatchOperation::Remove(_) => write(pod, &path, None),
        PatchOperation::Move(_) | PatchOperation::Copy(_) => None,
    }
}

fn read(pod: &NodePod, path: &[&str]) -> Option<Value> {
    let view = &pod.view;
    let absent = |value: Option<&String>| value.map_or(Value::Null, |value| Value::from(value.as_str()));
    Some(match path {
        ["metadata", "uid"] => Value::from(view.id.uid.as_str()),
        ["metadata", "resourceVersion"] => Value::from(view.resource_version.as_str()),
        ["metadata", "labels"] if !pod.has_labels => Value::Null,
        ["metadata", "annotations"] if !pod.has_annotations => Value::Null,
        ["metadata", "labels", name] => absent(view.labels.get(*name)),
        ["metadata", "annotations", name] => absent(view.annotations.get(*name)),
        ["spec", "containers", index, field] => {
            let container = view.containers.get(index.parse::<usize>().ok()?)?;
            match *field {
                "name" => Value::from(container.name.as_str()),
                "image" => Value::from(container.image.as_str()),
                _ => return None,
            }
        }
        _ => return None,
    })
}

fn write(pod: &mut NodePod, path: &[&str], value: Option<&Value>) -> Option<()> {
    match path {
        ["metadata", "labels"] => pod.has_labels = true,
        ["metadata", "annotations"] => pod.has_annotations = true,
        ["metadata", map @ ("labels" | "annotations"), name] => {
            let (map, exists) = match *map {
                "labels" => (&mut pod.view.labels, pod.has_labels),
                _ => (&mut pod.view.annotations, pod.has_annotations),
            };
            if !exists {
                return None;
            }
            match value {
                Some(value) => map.insert((*name).to_owned(), value.as_str()?.to_owned()),
                None => map.remove(*name),
            };
        }
        ["spec", "containers", index, "image"] => {
            let container = pod.view.containers.get_mut(index.parse::<usize>().ok()?)?;
            value?.as_str()?.clone_into(&mut container.image);
        }
        _ => return None,
    }
    Some(())
}

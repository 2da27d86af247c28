//! The StatefulSet controller, as far as it meets one whose update strategy is OnDelete or which is up to date.

use std::sync::Arc;

use hitless_agent::view::NodePod;
use hitless_api::names::labels;
use hitless_api::pod::PodView;
use hitless_workloads::Template;
use serde_json::json;

use super::{ordinal, revisions};
use crate::checks::partition;
use crate::ground::Ground;
use crate::kubernetes::pod;
use crate::server::WorkloadObject;

/// One sync: the revision, pods that are missing or too many, the status. Returns the pods that are to be made.
pub(crate) fn sync(object: &WorkloadObject, made: &mut u64, ground: &mut Ground) -> Vec<NodePod> {
    let Some(set) = object.view.stateful_set() else { return Vec::new() };
    if super::is_overtaken(object, ground) {
        return Vec::new();
    }
    let revision = revisions::of_template(object, &set.body.template, ground);
    let update = revision.view.id.name.clone();
    let rolls = set.body.strategy["type"] != "OnDelete";
    let partition = if rolls { partition(set.object) } else { 0 };
    let current = object.json["status"]["currentRevision"].as_str().unwrap_or(&update).to_owned();
    let old_template = template_of(&current, object, ground);
    let own: Vec<Arc<PodView>> = super::pods_of(&set.id.uid, ground);
    let replicas = usize::try_from(set.body.replicas).unwrap_or_default();
    let mut made_now = Vec::new();
    for ordinal in 0..replicas {
        let name = format!("{}-{ordinal}", set.id.name);
        if own.iter().any(|pod| pod.id.name == name) {
            continue;
        }
        *made += 1;
        let uid = format!("{}/{name}-{made}", set.id.namespace);
        let old = old_template.as_ref().filter(|_| ordinal < partition);
        let mut next = pod(&set.id, Some(old.unwrap_or(&set.body.template)), (name, uid), ground.wall(0));
        let label = if old.is_some() { &current } else { &update };
        next.view.labels.insert(labels::CONTROLLER_REVISION_HASH.to_owned(), label.clone());
        made_now.push(next);
    }
    for pod in own.iter().filter(|pod| ordinal(pod).is_none_or(|number| number >= replicas) && !pod.terminating) {
        super::end_pod(&pod.id.uid, ground);
    }
    if rolls {
        let behind = own.iter().filter(|pod| !pod.terminating).find(|pod| {
            pod.labels.get(labels::CONTROLLER_REVISION_HASH) != Some(&update)
                && ordinal(pod).is_some_and(|number| (partition..replicas).contains(&number))
        });
        if let Some(pod) = behind {
            let what = format!("StatefulSet {} may roll, and would delete pod {}", set.id.name, pod.id.name);
            ground.checks.fail(ground.now, what);
        }
    }
    let live = own.iter().filter(|pod| !pod.terminating);
    let updated = live.clone().filter(|pod| pod.labels.get(labels::CONTROLLER_REVISION_HASH) == Some(&update)).count();
    let (count, seen) = (live.count(), object.view.generation);
    ground.server.change_object(&object.key(), |known| {
        let status = &mut known["status"];
        status["observedGeneration"] = json!(status["observedGeneration"].as_i64().unwrap_or_default().max(seen));
        status["replicas"] = json!(count);
        status["updatedReplicas"] = json!(updated);
        status["updateRevision"] = json!(update);
        if rolls && updated == replicas && count == replicas || status["currentRevision"].is_null() {
            status["currentRevision"] = json!(update);
        }
    });
    made_now
}

/// The template of the StatefulSet's revision with this name.
fn template_of(revision: &str, object: &WorkloadObject, ground: &Ground) -> Option<Template> {
    let mut own = ground.server.owned_by(&object.view.id.uid);
    let found = own.find(|each| each.view.id.name == revision)?;
    Some(Template::new(found.json["data"]["spec"]["template"].clone()))
}

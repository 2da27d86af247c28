//! The DaemonSet controller, as far as it meets one whose update strategy is OnDelete or which is up to date.

use std::collections::BTreeSet;
use std::sync::Arc;

use hitless_agent::view::NodePod;
use hitless_api::names::{annotations, labels};
use hitless_api::pod::PodView;
use serde_json::json;

use super::revisions;
use crate::ground::Ground;
use crate::kubernetes::pod;
use crate::server::WorkloadObject;

/// One sync: the revision, one pod for each usable node, the status. Returns the pods that are to be made, with their nodes.
pub(crate) fn sync(
    object: &WorkloadObject,
    usable: &BTreeSet<usize>,
    made: &mut u64,
    ground: &mut Ground,
) -> Vec<(NodePod, usize)> {
    let Some(set) = object.view.daemon_set() else { return Vec::new() };
    if super::is_overtaken(object, ground) {
        return Vec::new();
    }
    let revision = revisions::of_template(object, &set.body.template, ground);
    let Some(hash) = revision.view.labels.get(labels::CONTROLLER_REVISION_HASH).cloned() else { return Vec::new() };
    let generation = object.view.annotations.get(annotations::TEMPLATE_GENERATION).cloned().unwrap_or_default();
    let own: Vec<Arc<PodView>> = super::pods_of(&set.id.uid, ground);
    let mut made_now = Vec::new();
    for node in usable {
        let name = format!("n{node}");
        let is_there = own.iter().any(|pod| pod.node.as_deref() == Some(name.as_str()));
        let is_made = ground.server.nodes.contains_key(name.as_str());
        if is_there || !is_made {
            continue;
        }
        *made += 1;
        let name = format!("{}-{made}", set.id.name);
        let uid = format!("{}/{name}", set.id.namespace);
        let mut next = pod(&set.id, Some(&set.body.template), (name, uid), ground.wall(0));
        next.view.labels.insert(labels::CONTROLLER_REVISION_HASH.to_owned(), hash.clone());
        next.view.labels.insert(labels::POD_TEMPLATE_GENERATION.to_owned(), generation.clone());
        made_now.push((next, *node));
    }
    let is_updated = |pod: &PodView| pod.labels.get(labels::CONTROLLER_REVISION_HASH) == Some(&hash);
    if set.body.strategy["type"] != "OnDelete"
        && let Some(pod) = own.iter().find(|pod| !pod.terminating && !is_updated(pod))
    {
        let what = format!("DaemonSet {} may roll, and would delete pod {}", set.id.name, pod.id.name);
        ground.checks.fail(ground.now, what);
    }
    let live = own.iter().filter(|pod| !pod.terminating);
    let (updated, seen) = (live.filter(|pod| is_updated(pod)).count(), object.view.generation);
    let desired = usable.len();
    ground.server.change_object(&object.key(), |known| {
        let status = &mut known["status"];
        status["observedGeneration"] = json!(status["observedGeneration"].as_i64().unwrap_or_default().max(seen));
        status["desiredNumberScheduled"] = json!(desired);
        status["updatedNumberScheduled"] = json!(updated);
    });
    made_now
}

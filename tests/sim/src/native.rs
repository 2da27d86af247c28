//! Kubernetes' controllers of workloads, one file a kind.

pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod revisions;
pub(crate) mod stateful_set;

use std::sync::Arc;

use hitless_api::pod::PodView;

use crate::ground::Ground;
use crate::server::WorkloadObject;

/// Ordinal of a StatefulSet's pod.
pub(crate) fn ordinal(pod: &PodView) -> Option<usize> {
    pod.id.name.rsplit_once('-').and_then(|(_, number)| number.parse().ok())
}

/// Pods whose controller has this uid.
fn pods_of(uid: &str, ground: &Ground) -> Vec<Arc<PodView>> {
    let pods = ground.server.pods.values().map(|pod| &pod.view);
    pods.filter(|pod| pod.owner.as_ref().is_some_and(|owner| owner.uid == uid)).cloned().collect()
}

fn end_pod(uid: &str, ground: &mut Ground) {
    let Ground { server, checks, .. } = ground;
    server.change_pod(checks, uid, |pod| pod.view.terminating = true);
}

/// Whether a later sync has seen more: a native controller never does two at a time for one object.
fn is_overtaken(object: &WorkloadObject, ground: &Ground) -> bool {
    let known = ground.server.objects.get(&object.key());
    let observed = known.and_then(|known| known.json["status"]["observedGeneration"].as_i64());
    observed.is_none_or(|observed| observed > object.view.generation)
}

//! The DaemonSet controller. A rolling update deletes one pod a sync.

use std::collections::BTreeMap;

use hitless_api::names::{annotations, labels};
use hitless_api::pod::PodView;
use hitless_workloads::kinds::daemon_set::DaemonSetBody;
use serde_json::json;

use super::{Act, NewPod, Seen, revisions};

/// The revision, the status, and a pod for each node that has none. New pods come last.
pub(super) fn sync(seen: &Seen<'_>, body: &DaemonSetBody) -> Vec<Act> {
    let object = &*seen.object.view;
    let revision = revisions::of_template(seen, &body.template);
    let is_updated = |pod: &&PodView| pod.labels.get(labels::CONTROLLER_REVISION_HASH) == Some(&revision.hash);
    let mut acts: Vec<Act> = revision.act.into_iter().collect();
    if body.strategy["type"] != "OnDelete"
        && let Some(pod) = seen.live_pods().find(|pod| !is_updated(pod))
    {
        let what = format!("DaemonSet {} may roll, and would delete pod {}", object.id.name, pod.id.name);
        acts.extend([Act::Rolls(what), Act::RemovePod(pod.id.uid.clone())]);
    }
    let updated = seen.live_pods().filter(is_updated).count();
    acts.push(Act::Status(json!({"observedGeneration": object.generation, "desiredNumberScheduled": seen.nodes.len(),
        "updatedNumberScheduled": updated})));

    let generation = object.annotations.get(annotations::TEMPLATE_GENERATION).cloned().unwrap_or_default();
    let labels = BTreeMap::from([
        (labels::CONTROLLER_REVISION_HASH.to_owned(), revision.hash.clone()),
        (labels::POD_TEMPLATE_GENERATION.to_owned(), generation),
    ]);
    let has_pod = |node: &&String| seen.pods.iter().any(|pod| pod.node.as_ref() == Some(*node));
    acts.extend(seen.nodes.iter().filter(|node| !has_pod(node)).map(|node| {
        let (node, template, labels) = (Some(node.clone()), body.template.clone(), labels.clone());
        Act::MakePod(NewPod { name: None, node, template, labels })
    }));
    acts
}

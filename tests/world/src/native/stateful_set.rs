//! The StatefulSet controller. A rolling update deletes one pod a sync.

use std::collections::BTreeMap;

use hitless_api::names::labels;
use hitless_api::pod::PodView;
use hitless_workloads::Template;
use hitless_workloads::kinds::stateful_set::StatefulSetBody;
use serde_json::json;

use super::{Act, NewPod, Seen, revisions};

/// Ordinal of a StatefulSet's pod.
#[must_use]
pub fn ordinal(pod: &PodView) -> Option<usize> {
    pod.id.name.rsplit_once('-').and_then(|(_, number)| number.parse().ok())
}

/// The revision, pods that are missing or too many, the status. New pods come last.
pub(super) fn sync(seen: &Seen<'_>, body: &StatefulSetBody) -> Vec<Act> {
    let object = &*seen.object.view;
    let revision = revisions::of_template(seen, &body.template);
    let update = &revision.name;
    let is_updated = |pod: &&PodView| pod.labels.get(labels::CONTROLLER_REVISION_HASH) == Some(update);
    let rolls = body.strategy["type"] != "OnDelete";
    let first = usize::try_from(body.start).unwrap_or_default();
    let replicas = usize::try_from(body.replicas).unwrap_or_default();
    let wanted = first..first + replicas;
    let partition = body.strategy["rollingUpdate"]["partition"].as_u64().filter(|_| rolls);
    let partition = first + partition.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();

    let mut acts: Vec<Act> = revision.act.into_iter().collect();
    let is_surplus = |pod: &&PodView| !ordinal(pod).is_some_and(|number| wanted.contains(&number));
    acts.extend(seen.live_pods().filter(is_surplus).map(|pod| Act::RemovePod(pod.id.uid.clone())));
    let rolled = |pod: &&PodView| ordinal(pod).is_some_and(|number| (partition..wanted.end).contains(&number));
    let behind = seen.live_pods().filter(|pod| rolls && rolled(pod) && !is_updated(pod));
    if let Some(pod) = behind.max_by_key(|pod| ordinal(pod)) {
        let what = format!("StatefulSet {} may roll, and would delete pod {}", object.id.name, pod.id.name);
        acts.extend([Act::Rolls(what), Act::RemovePod(pod.id.uid.clone())]);
    }

    let (count, updated) = (seen.live_pods().count(), seen.live_pods().filter(is_updated).count());
    let mut status = json!({"observedGeneration": object.generation, "replicas": count, "updatedReplicas": updated,
        "updateRevision": update});
    let current = body.status.current_revision.as_ref();
    if rolls && updated == replicas && count == replicas || current.is_none() {
        status["currentRevision"] = json!(update);
    }
    acts.push(Act::Status(status));

    let current = current.unwrap_or(update);
    let current_template = template_of(current, seen);
    for number in wanted {
        let name = format!("{}-{number}", object.id.name);
        if seen.pods.iter().any(|pod| pod.id.name == name) {
            continue;
        }
        let kept_back = current_template.as_ref().filter(|_| number < partition);
        let label = if kept_back.is_some() { current } else { update };
        acts.push(Act::MakePod(NewPod {
            name: Some(name),
            node: None,
            template: kept_back.unwrap_or(&body.template).clone(),
            labels: BTreeMap::from([(labels::CONTROLLER_REVISION_HASH.to_owned(), label.clone())]),
        }));
    }
    acts
}

/// The template of the StatefulSet's revision with this name.
fn template_of(revision: &str, seen: &Seen<'_>) -> Option<Template> {
    let found = seen.children.iter().find(|each| each.view.id.name == revision)?;
    Some(Template::new(found.json["data"]["spec"]["template"].clone()))
}

//! Pods of a CollaSet: which id they have, which are pairs, and which labels they are made with.

use std::collections::BTreeMap;

use hitless_api::names::labels;
use hitless_api::pod::PodView;
use serde_json::Value;

use super::names;
use crate::revision::hash;

/// The instance id that the pod says it has. One that says none comes last.
pub(crate) fn instance_id(pod: &PodView) -> i32 {
    pod.labels.get(names::INSTANCE_ID).and_then(|id| id.parse().ok()).unwrap_or(i32::MAX)
}

/// Pods that count by themselves; and the new pods of pairs, by uid, with those that they replace. As their labels tell.
pub(crate) fn pairs_of<'a>(
    pods: impl Iterator<Item = &'a PodView>,
) -> (Vec<&'a PodView>, BTreeMap<&'a str, &'a PodView>) {
    let (news, mut alone): (Vec<&PodView>, Vec<&PodView>) =
        pods.partition(|pod| pod.labels.contains_key(names::PAIR_ORIGIN));
    let mut pairs = BTreeMap::new();
    if news.is_empty() {
        return (alone, pairs);
    }
    let by_name: BTreeMap<&str, &PodView> = alone.iter().map(|pod| (pod.id.name.as_str(), *pod)).collect();
    for new in news {
        match new.labels.get(names::PAIR_ORIGIN).and_then(|name| by_name.get(name.as_str())) {
            Some(origin) => _ = pairs.insert(new.id.uid.as_str(), *origin),
            // It is gone, and the label goes next.
            None => alone.push(new),
        }
    }
    (alone, pairs)
}

/// What a pod of this id is made with from the template of a revision, but for what decorations add.
pub(crate) fn labels_of_new(template: &Value, id: i32, revision: &str) -> BTreeMap<String, String> {
    let own = template["metadata"]["labels"].as_object().into_iter().flatten();
    let mut all: BTreeMap<String, String> =
        own.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    let id = id.to_string();
    for (key, value) in [(names::CONTROL, "true"), (names::INSTANCE_ID, id.as_str()), (labels::MADE_FOR, "CollaSet")] {
        all.insert(key.to_owned(), value.to_owned());
    }
    all.extend(hash::label(revision));
    all
}

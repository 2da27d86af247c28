//! The writes to a pod, each with its preconditions.

use std::collections::BTreeMap;

use hitless_api::JsonPatch;
use hitless_api::pod::PodView;
use hitless_api::{Change, Grant, names};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::instant::whole_seconds;
use crate::view::NodePod;

/// Strategic merge patch of `pods/status` that sets the InService condition and nothing else. It fails unless the pod is
/// still the one that was looked at.
#[must_use]
pub fn in_service(pod: &PodView, is_true: bool, reason: &str, message: &str, now: Timestamp) -> Value {
    json!({
        "metadata": {"uid": pod.id.uid, "resourceVersion": pod.resource_version},
        "status": {"conditions": [{
            "type": names::IN_SERVICE,
            "status": if is_true { "True" } else { "False" },
            "reason": reason,
            "message": message,
            "lastTransitionTime": whole_seconds(now).to_string(),
        }]},
    })
}

/// Which way a container is operated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the images before to those after.
    Forward,
    /// The way back.
    Back,
}

impl Direction {
    fn order<T>(self, from: T, to: T) -> (T, T) {
        match self {
            Self::Forward => (from, to),
            Self::Back => (to, from),
        }
    }
}

/// JSON patch of the pod that sets images, labels and annotations of the grant at once, and fails unless the pod is still the
/// one that was looked at: a request that arrives late must not replace containers of a pod that is back in service. What is
/// changed is tested by value too. A container that the pod does not have is left out; decisions have excluded that.
#[must_use]
pub fn images(pod: &NodePod, grant: &Grant, direction: Direction) -> JsonPatch {
    let version = pod.view.resource_version.as_str();
    let mut patch = JsonPatch::of(&pod.view.id.uid).test(&["metadata", "resourceVersion"], version);
    for (index, container) in pod.view.containers.iter().enumerate() {
        let Some(change) = grant.containers.get(&container.name) else { continue };
        let index = index.to_string();
        let image = ["spec", "containers", &index, "image"];
        let (from, to) = direction.order(change.from.as_str(), change.to.as_str());
        patch = patch
            .test(&["spec", "containers", &index, "name"], container.name.as_str())
            .test(&image, from)
            .replace(&image, to);
    }
    let patch = metadata(patch, "labels", &grant.labels, pod.has_labels, direction);
    metadata(patch, "annotations", &grant.annotations, pod.has_annotations, direction)
}

fn metadata(
    mut patch: JsonPatch,
    map: &str,
    changes: &BTreeMap<String, Change>,
    exists: bool,
    direction: Direction,
) -> JsonPatch {
    if !exists && !changes.is_empty() {
        patch = patch.new_map(&["metadata", map]);
    }
    for (key, change) in changes {
        let (from, to) = direction.order(change.from.as_deref(), change.to.as_deref());
        patch = patch.change(&["metadata", map, key], from, to);
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::{PodRef, grant::ImageChange};
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::Patch;
    use proptest::prelude::*;

    type Map = BTreeMap<String, String>;

    fn object(labels: &Map, annotations: &Map, image: &str) -> Value {
        let mut metadata = json!({"name": "p", "namespace": "n", "uid": "u-1", "resourceVersion": "7"});
        for (name, map) in [("labels", labels), ("annotations", annotations)] {
            if !map.is_empty() {
                metadata[name] = json!(map);
            }
        }
        json!({"metadata": metadata, "spec": {"containers": [{"name": "side", "image": "s:1"}, {"name": "c", "image": image}]}})
    }

    fn node_pod(object: &Value) -> NodePod {
        NodePod::from(&serde_json::from_value::<Pod>(object.clone()).unwrap())
    }

    fn grant(labels: &BTreeMap<String, Change>, annotations: &BTreeMap<String, Change>) -> Grant {
        let pod = PodRef { namespace: "n".into(), name: "p".into(), uid: "u-1".into() };
        let change = ImageChange { from: "c:1".into(), to: "c:2".into() };
        serde_json::from_value(json!({
            "id": "g", "epoch": 1, "pod": pod, "op": "Update", "mode": "Leave", "containers": {"c": change},
            "labels": labels, "annotations": annotations, "before": {}, "drain": {}, "verify": {},
            "granted": "2026-01-01T00:00:00.000000Z", "ttlSeconds": 60,
        }))
        .unwrap()
    }

    /// As the API server does it: a `test` for null passes where the value is absent, and empty maps are not kept.
    fn apply(object: &Value, patch: JsonPatch) -> Result<Value, String> {
        let Patch::Json(patch) = patch.build() else { panic!("not a JSON patch") };
        let operations = serde_json::to_value(patch).unwrap();
        let mut patched = object.clone();
        for operation in operations.as_array().unwrap() {
            let absent = patched.pointer(operation["path"].as_str().unwrap()).is_none();
            if operation["op"] == "test" && operation["value"].is_null() && absent {
                continue;
            }
            let one: json_patch::Patch = serde_json::from_value(json!([operation])).unwrap();
            json_patch::patch(&mut patched, &one).map_err(|error| error.to_string())?;
        }
        let metadata = patched["metadata"].as_object_mut().unwrap();
        metadata.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
        Ok(patched)
    }

    /// Values before and after: what is there before is what the grant says.
    fn changes() -> impl Strategy<Value = (Map, BTreeMap<String, Change>)> {
        let value = || prop::option::of("[a-z]{0,3}");
        let key = prop::string::string_regex("[a-z]{1,3}[/~.a-z]{0,4}").unwrap();
        let foreign = prop::collection::btree_map("foreign[0-9]", "[a-z]{1,3}", 0..2);
        (prop::collection::btree_map(key, (value(), value()), 0..4), foreign).prop_map(|(changes, mut present)| {
            present.extend(changes.iter().filter_map(|(key, (from, _))| Some((key.clone(), from.clone()?))));
            let changes = changes.into_iter().map(|(key, (from, to))| (key, Change { from, to })).collect();
            (present, changes)
        })
    }

    proptest! {
        #[test]
        fn there_and_back_is_where_it_began((labels, label_changes) in changes(), (annotations, changes) in changes()) {
            let before = object(&labels, &annotations, "c:1");
            let grant = grant(&label_changes, &changes);
            let after = apply(&before, images(&node_pod(&before), &grant, Direction::Forward)).unwrap();
            prop_assert_eq!(&after["spec"]["containers"][1]["image"], "c:2");
            prop_assert_eq!(&after["spec"]["containers"][0]["image"], "s:1");
            for (key, change) in &changes {
                let value = after["metadata"].get("annotations").and_then(|map| map.get(key));
                prop_assert_eq!(value.and_then(Value::as_str), change.to.as_deref());
            }
            let back = apply(&after, images(&node_pod(&after), &grant, Direction::Back)).unwrap();
            prop_assert_eq!(back, before);
        }

        #[test]
        fn a_patch_is_never_applied_twice_nor_to_another_state((labels, label_changes) in changes(), image in "c:[2-4]") {
            let other = object(&labels, &Map::new(), &image);
            let patch = images(&node_pod(&other), &grant(&label_changes, &BTreeMap::new()), Direction::Forward);
            prop_assert!(apply(&other, patch).is_err());
        }
    }

    #[test]
    fn another_pod_of_the_same_name_is_not_patched() {
        let mut other = object(&Map::new(), &Map::new(), "c:1");
        let patch = images(&node_pod(&other), &grant(&BTreeMap::new(), &BTreeMap::new()), Direction::Forward);
        other["metadata"]["uid"] = json!("u-2");
        assert!(apply(&other, patch).is_err());
    }

    #[test]
    fn a_condition_is_written_alone_and_only_to_the_version_that_was_seen() {
        let pod = node_pod(&object(&Map::new(), &Map::new(), "c:1")).view;
        let now = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let patch = in_service(&pod, false, "Leaving", "g", now);
        assert_eq!(patch["metadata"], json!({"uid": "u-1", "resourceVersion": "7"}));
        let wanted = json!([{"type": "hitless.dev/InService", "status": "False", "reason": "Leaving", "message": "g",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]);
        assert_eq!(patch["status"], json!({"conditions": wanted}));
    }
}

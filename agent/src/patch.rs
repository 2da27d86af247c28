//! The write that takes a pod out of service or puts it back. What is done to it in between is patched by its [deed](crate::deed).

use hitless_api::JsonPatch;
use hitless_api::names::{self, annotations};
use hitless_api::pod::PodView;
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

/// The same for a pod that is out of service for the grant with this id, and drained: the status stays, and so does its time.
#[must_use]
pub fn drained(pod: &PodView, id: &str, now: Timestamp) -> Value {
    let since = pod.in_service().and_then(|condition| condition.since);
    in_service(pod, false, names::DRAINED, id, since.unwrap_or(now))
}

/// JSON patch of the pod's metadata that means nothing but that the kubelet looks at the pod. It fails unless the pod is still the one
/// that was looked at.
#[must_use]
pub fn want_volumes(pod: &NodePod, now: Timestamp) -> JsonPatch {
    const MAP: [&str; 2] = ["metadata", "annotations"];
    let [metadata, map] = MAP;
    let patch = JsonPatch::of(&pod.view.id.uid);
    let patch = patch.test(&[metadata, "resourceVersion"], pod.view.resource_version.as_str());
    let patch = if pod.has_annotations { patch } else { patch.new_map(&MAP) };
    patch.add(&[metadata, map, annotations::CONFIG_SYNC], now.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    #[test]
    fn a_condition_is_written_alone_and_only_to_the_version_that_was_seen() {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u-1", "resourceVersion": "7"}});
        let pod = PodView::from(&serde_json::from_value::<Pod>(pod).unwrap());
        let now = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let patch = in_service(&pod, false, "Leaving", "g", now);
        assert_eq!(patch["metadata"], json!({"uid": "u-1", "resourceVersion": "7"}));
        let wanted = json!([{"type": "hitless.dev/InService", "status": "False", "reason": "Leaving", "message": "g",
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]);
        assert_eq!(patch["status"], json!({"conditions": wanted}));
    }
}

//! Looks at objects: whether they are held, open, ready, and at which image.

use hitless_workloads::image::unpinned;
use serde_json::Value;

use crate::watch::Objects;

/// Whether the guard holds it.
#[must_use]
pub fn is_held(workload: &Value) -> bool {
    workload["metadata"]["annotations"]["hitless.dev/rollout"] == "held"
}

/// Whether the controller has opened this Service for a Hold.
#[must_use]
pub fn is_opened(service: &Value) -> bool {
    publishes_not_ready(service) && is_marked(service)
}

/// Whether nothing of a Hold is left in this Service.
#[must_use]
pub fn is_closed(service: &Value) -> bool {
    !publishes_not_ready(service) && !is_marked(service)
}

fn publishes_not_ready(service: &Value) -> bool {
    service["spec"]["publishNotReadyAddresses"] == true
}

fn is_marked(service: &Value) -> bool {
    service["metadata"]["annotations"]["hitless.dev/held-by"].is_string()
}

/// Whether the pod's condition Ready is True and it is not being deleted.
#[must_use]
pub fn is_ready(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null() && condition(pod, "Ready") == Some("True")
}

/// Status of a pod's condition.
#[must_use]
pub fn condition<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    pod["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == name)?["status"].as_str()
}

/// Image of the pod's first container as its owner names it: an operation may have pinned it to its digest.
#[must_use]
pub fn image_of(pod: &Value) -> String {
    unpinned(pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default())
}

/// Which container each pod runs as its first.
#[must_use]
pub fn container_ids(pods: &Objects) -> Vec<String> {
    let id = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default().to_owned();
    pods.values().map(id).collect()
}

/// How often the first container of each pod was restarted.
#[must_use]
pub fn restarts(pods: &Objects) -> Vec<u64> {
    let count = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default();
    pods.values().map(count).collect()
}

/// Whether there are exactly `count` pods, all ready.
#[must_use]
pub fn all_ready(pods: &Objects, count: usize) -> bool {
    pods.len() == count && pods.values().all(is_ready)
}

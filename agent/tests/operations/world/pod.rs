//! The pod.

use hitless_agent::instant::whole_seconds;
use hitless_agent::view::NodePod;
use hitless_api::PodRef;
use hitless_api::pod::ConditionView;
use hitless_world::objects;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

pub(crate) const UID: &str = "11111111-2222-3333-4444-555555555555";
pub(crate) const CONTAINER: &str = "web";
pub(crate) const FROM: &str = "web:v1";
pub(crate) const TO: &str = "web:v2";

pub(crate) fn id() -> PodRef {
    PodRef { namespace: "shop".into(), name: "web-0".into(), uid: UID.into() }
}

/// A gated pod that has been in service for a while.
pub(crate) fn running(now: Timestamp) -> NodePod {
    let earlier = whole_seconds(now).checked_sub(jiff::SignedDuration::from_secs(100)).unwrap();
    let since = earlier.to_string();
    let probe = json!({"readinessProbe": {"periodSeconds": 1, "tcpSocket": {"port": 80}}});
    let pod = objects::Pod::new("shop", "web-0").uid(UID).on("n1").gated().container_with(CONTAINER, FROM, &probe);
    let mut pod = pod.running("web@sha256:00", &since).conditions(&["Ready", "ContainersReady"], Some(&since)).json();
    (pod["metadata"]["resourceVersion"], pod["metadata"]["generation"]) = ("10".into(), 1.into());
    pod["status"]["observedGeneration"] = 1.into();
    pod["status"]["containerStatuses"][0]["containerID"] = "containerd://0".into();
    let mut pod = NodePod::from(&serde_json::from_value::<Pod>(pod).unwrap());
    // Nothing is known of how long a start takes, and the agent does not ask the probe itself.
    pod.view.containers[0].start_seconds = 0;
    pod.readiness.clear();
    pod.has_labels = true;
    let in_service = ConditionView::new(true, "InService", "", Some(earlier));
    pod.view.conditions.insert(super::IN_SERVICE, in_service);
    pod
}

/// What a status patch of this condition does.
pub(crate) fn set_in_service(pod: &mut NodePod, is_true: bool, reason: &str, message: &str, now: Timestamp) {
    let condition = ConditionView::new(is_true, reason, message, Some(whole_seconds(now)));
    pod.view.conditions.insert(super::IN_SERVICE, condition);
}

//! The pod.

use std::collections::{BTreeMap, BTreeSet};

use hitless_agent::instant::whole_seconds;
use hitless_agent::view::NodePod;
use hitless_api::PodRef;
use hitless_api::pod::{ConditionView, Conditions, ContainerSpec, ContainerState, ContainerView, Place, PodView};
use jiff::Timestamp;

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
    let condition = |reason: &str| ConditionView::new(true, reason, "", Some(earlier));
    let spec = ContainerSpec {
        name: CONTAINER.into(),
        place: Place::Container(0),
        image: FROM.into(),
        pull_policy: hitless_api::PullPolicy::default(),
        ports: vec![],
        probe_periods: vec![1],
        delays_ready: true,
        resources: None,
        start_seconds: 0,
    };
    let container = ContainerView {
        spec: spec.into(),
        status: Some(ContainerState {
            container_id: "containerd://0".into(),
            image: FROM.into(),
            image_id: "web@sha256:00".into(),
            ready: true,
            running_since: Some(earlier),
            last_ended: None,
            waiting: None,
            trouble: None,
            restarts: 0,
        }),
    };
    let view = PodView {
        id: id(),
        resource_version: "10".into(),
        generation: 1,
        observed_generation: 1,
        labels: BTreeMap::new().into(),
        annotations: BTreeMap::new().into(),
        owner: None,
        node: Some("n1".into()),
        containers: vec![container],
        init: None,
        pull_identity: hitless_api::PullIdentity::default(),
        conditions: Conditions::from_iter([
            ("Ready".to_owned(), condition("")),
            ("ContainersReady".to_owned(), condition("")),
            (super::IN_SERVICE.to_owned(), condition("InService")),
        ]),
        gated: true,
        host_network: false,
        runtime_class: None,
        grace_seconds: 30,
        terminating: false,
        finished: false,
        ip: None,
        created: None,
        lifecycle: None,
        claims: Vec::new(),
        shut_gates: Vec::new(),
    };
    let grace = std::time::Duration::from_secs(30);
    NodePod {
        view,
        has_labels: true,
        has_annotations: false,
        ips: Vec::new(),
        pre_stop: BTreeMap::new(),
        readiness: BTreeMap::new(),
        config_mounts: BTreeSet::new(),
        grace,
    }
}

/// What a status patch of this condition does.
pub(crate) fn set_in_service(pod: &mut NodePod, is_true: bool, reason: &str, message: &str, now: Timestamp) {
    let condition = ConditionView::new(is_true, reason, message, Some(whole_seconds(now)));
    pod.view.conditions.insert(super::IN_SERVICE, condition);
}

//! A pod as every part of hitless sees it: our own small struct, so that a cache holds nothing else and no decision can ask
//! for a field that was thrown away.

mod conditions;
mod container;
mod endpoint;
mod sharing;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec};

use crate::large::TooLarge;
#[cfg(doc)]
use crate::lifecycle;
use crate::lifecycle::LifecycleView;
use crate::names::{self, annotations};
use crate::shared::Shared;
use crate::{ObjectRef, PodRef, PullIdentity};
pub use conditions::{ConditionView, ConditionWords, Conditions};
pub use container::{ContainerSpec, ContainerState, ContainerView, Place, PortView, Protocol};
pub use endpoint::EndpointFault;
pub use sharing::Sharing;

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the Kubernetes object, not a state of ours")]
pub struct PodView {
    /// Namespace, name and uid.
    pub id: PodRef,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`; 0 where the API server has none.
    pub generation: i64,
    /// `status.observedGeneration`; 0 where the kubelet sets none.
    pub observed_generation: i64,
    /// Labels.
    pub labels: Shared<BTreeMap<String, String>>,
    /// Those annotations that hitless reads: `hitless.dev/…`, the mirror mark, the rules that the pod skips, times of OpenKruise's states.
    pub annotations: Shared<BTreeMap<String, String>>,
    /// Controller owner.
    pub owner: Option<Shared<ObjectRef>>,
    /// `spec.nodeName`.
    pub node: Option<String>,
    /// Containers in the order of the spec, then restartable init containers; other init containers are not listed.
    pub containers: Vec<ContainerView>,
    /// Names of the other init containers, which ran once before these; `None`: there are none.
    pub init: Option<Shared<Vec<String>>>,
    /// Whose credentials their images are pulled with.
    pub pull_identity: PullIdentity,
    /// Conditions by type.
    pub conditions: Conditions,
    /// Whether `hitless.dev/InService` is one of its readiness gates.
    pub gated: bool,
    /// `spec.hostNetwork`.
    pub host_network: bool,
    /// `spec.runtimeClassName`: the container runtime may have a network stack of its own.
    pub runtime_class: Option<String>,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace_seconds: u32,
    /// Has a deletion timestamp.
    pub terminating: bool,
    /// Phase is Succeeded or Failed.
    pub finished: bool,
    /// `status.podIP`.
    pub ip: Option<String>,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// What PodOpsLifecycle needs of it besides its labels; only of pods with the label [`lifecycle::CONTROL`].
    pub lifecycle: Option<Box<LifecycleView>>,
    /// Its finalizers; `None`: it has none.
    pub finalizers: Option<Shared<Vec<String>>>,
    /// PersistentVolumeClaims that it mounts.
    pub claims: Vec<MountedClaim>,
    /// Readiness gates of OpenKruise's that keep it from being Ready ([`names::KRUISE_GATES`]).
    pub shut_gates: Vec<ShutGate>,
}

/// A readiness gate whose condition is not True.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutGate {
    /// Type of the condition.
    pub gate: &'static str,
    /// Index of that condition in the pod's status.
    pub condition: Option<usize>,
}

/// A PersistentVolumeClaim among a pod's volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedClaim {
    /// Name of the volume.
    pub volume: String,
    /// Name of the claim.
    pub claim: String,
}

/// `spec.terminationGracePeriodSeconds` where it is absent.
const DEFAULT_GRACE_SECONDS: u32 = 30;

impl PodView {
    /// Whether the pod's condition of that type is True.
    #[must_use]
    pub fn is(&self, condition: &str) -> bool {
        self.conditions.get(condition).is_some_and(|c| c.is_true)
    }

    /// Whether the kubelet says `Ready`.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.is("Ready")
    }

    /// Ready, not being deleted, not finished: what budgets call available.
    #[must_use]
    pub fn available(&self) -> bool {
        self.ready() && !self.terminating && !self.finished
    }

    /// An operation has brought it to what it is, since it was made.
    #[must_use]
    pub fn is_operated(&self) -> bool {
        [annotations::REVISION, annotations::RESTARTED].iter().any(|name| self.annotations.contains_key(*name))
    }

    /// Containers that the last image patch was to end: containerID by name ([`annotations::REPLACED`]).
    #[must_use]
    pub fn containers_to_end(&self) -> BTreeMap<String, String> {
        let text = self.annotations.get(annotations::REPLACED);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Since when it has been Ready with the containers that run now, if it is Ready and says so. A container that is replaced in place
    /// may be Ready again before the kubelet has written that it was not.
    #[must_use]
    pub fn ready_since(&self) -> Option<Timestamp> {
        let since = self.conditions.get("Ready").filter(|ready| ready.is_true)?.since?;
        let starts = self.containers.iter().filter_map(|container| container.status.as_ref()?.running_since);
        Some(starts.fold(since, Timestamp::max))
    }

    /// Condition `hitless.dev/InService`, if it was ever written.
    #[must_use]
    pub fn in_service(&self) -> Option<&ConditionView> {
        self.conditions.get(names::IN_SERVICE)
    }

    /// Whether somebody still sends it requests, as a finalizer of [`lifecycle::PROTECTION`] says.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.lifecycle.as_deref().is_some_and(LifecycleView::is_protected)
    }

    /// Whether the kubelet made it from a static manifest.
    #[must_use]
    pub fn is_mirror(&self) -> bool {
        self.annotations.contains_key(annotations::MIRROR)
    }

    /// Where it wants the endpoint of its node's agent inside of it; `None` also where the annotation is no port.
    #[must_use]
    pub fn endpoint_port(&self) -> Option<u16> {
        endpoint::port(self.annotations.get(annotations::ENDPOINT)?)
    }

    /// Why no agent listens there, as far as its spec tells.
    #[must_use]
    pub fn endpoint_fault(&self) -> Option<EndpointFault> {
        endpoint::fault(self)
    }

    /// Whether it counts what its application says of itself at the node's endpoint: its owner has to agree.
    #[must_use]
    pub fn may_refuse(&self) -> bool {
        self.annotations.get(annotations::TASK).is_some_and(|value| value == names::TASK_ALLOWED)
    }

    /// Why it is not looked after, if it has too many values ([`crate::large`]).
    #[must_use]
    pub fn too_large(&self) -> Option<TooLarge> {
        let values = self.annotations.get(annotations::TOO_LARGE)?;
        Some(TooLarge(values.parse().unwrap_or_default()))
    }

    /// The container of that name.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<&ContainerView> {
        self.containers.iter().find(|container| container.name == name)
    }
}

impl From<&Pod> for PodView {
    fn from(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        Self {
            id: PodRef {
                namespace: meta.namespace.clone().unwrap_or_default(),
                name: meta.name.clone().unwrap_or_default(),
                uid: meta.uid.clone().unwrap_or_default(),
            },
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            observed_generation: status.and_then(|s| s.observed_generation).unwrap_or_default(),
            labels: meta.labels.clone().unwrap_or_default().into(),
            annotations: meta.annotations.as_ref().map(annotations_of).unwrap_or_default().into(),
            owner: ObjectRef::controller_of(meta).map(Shared::from),
            node: spec.and_then(|s| s.node_name.clone()),
            containers: spec.map(|spec| container::containers(spec, status)).unwrap_or_default(),
            init: spec.and_then(container::run_once).map(Shared::from),
            pull_identity: spec.map(PullIdentity::of).unwrap_or_default(),
            conditions: status
                .and_then(|s| s.conditions.as_ref())
                .into_iter()
                .flatten()
                .map(|c| {
                    let [reason, message] = [&c.reason, &c.message].map(|words| words.clone().unwrap_or_default());
                    let since = c.last_transition_time.as_ref().map(|time| time.0);
                    (c.type_.as_str(), ConditionView::new(c.status == "True", reason, message, since))
                })
                .collect(),
            gated: spec
                .and_then(|s| s.readiness_gates.as_ref())
                .is_some_and(|gates| gates.iter().any(|gate| gate.condition_type == names::IN_SERVICE)),
            host_network: spec.and_then(|s| s.host_network).unwrap_or_default(),
            runtime_class: spec.and_then(|s| s.runtime_class_name.clone()),
            grace_seconds: spec
                .and_then(|s| s.termination_grace_period_seconds)
                .map_or(DEFAULT_GRACE_SECONDS, |seconds| u32::try_from(seconds).unwrap_or_default()),
            terminating: meta.deletion_timestamp.is_some(),
            finished: status
                .and_then(|s| s.phase.as_deref())
                .is_some_and(|phase| matches!(phase, "Succeeded" | "Failed")),
            ip: status.and_then(|s| s.pod_ip.clone()),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            lifecycle: LifecycleView::of(pod),
            finalizers: meta.finalizers.clone().filter(|all| !all.is_empty()).map(Shared::from),
            claims: spec.map(claims).unwrap_or_default(),
            shut_gates: shut_gates(pod),
        }
    }
}

fn shut_gates(pod: &Pod) -> Vec<ShutGate> {
    let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_ref());
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let shut = names::KRUISE_GATES.into_iter().filter_map(|gate| {
        gates?.iter().find(|known| known.condition_type == gate)?;
        let condition = conditions.iter().position(|condition| condition.type_ == gate);
        let is_open = condition.is_some_and(|place| conditions[place].status == "True");
        (!is_open).then_some(ShutGate { gate, condition })
    });
    shut.collect()
}

fn claims(spec: &PodSpec) -> Vec<MountedClaim> {
    let volumes = spec.volumes.iter().flatten();
    let mounted = volumes.filter_map(|volume| {
        let claim = volume.persistent_volume_claim.as_ref()?.claim_name.clone();
        Some(MountedClaim { volume: volume.name.clone(), claim })
    });
    mounted.collect()
}

/// Bytes of one annotation's value that are kept: more than any that can be meant. What is cut off is no JSON, and is refused as such.
const LONGEST_VALUE: usize = 8 << 10;
/// Bytes of all values of a pod that are kept: whoever may annotate pods decides how much memory they take in controllers and agents.
const LONGEST_VALUES: usize = 32 << 10;

/// Those that somebody reads.
fn annotations_of(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut room = LONGEST_VALUES;
    let read = all.iter().filter(|(key, _)| is_read(key));
    read.map(|(key, value)| {
        let kept = &value[..value.floor_char_boundary(room.min(LONGEST_VALUE))];
        room -= kept.len();
        (key.clone(), kept.to_owned())
    })
    .collect()
}

fn is_read(annotation: &str) -> bool {
    annotation.starts_with(names::PREFIX)
        || matches!(
            annotation,
            annotations::MIRROR
                | annotations::SKIP_RULES
                | annotations::DECORATIONS
                | annotations::DELETION_COST
                | annotations::LIFECYCLE_TIMESTAMP
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: serde_json::Value) -> PodView {
        PodView::from(&serde_json::from_value::<Pod>(json).unwrap())
    }

    #[test]
    fn a_terminating_or_finished_pod_is_not_available_even_if_ready() {
        let ready = serde_json::json!({"conditions": [{"type": "Ready", "status": "True"}]});
        assert!(pod(serde_json::json!({"metadata": {}, "status": ready})).available());
        assert!(
            !pod(serde_json::json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": ready}))
                .available()
        );
        let failed = serde_json::json!({"phase": "Failed", "conditions": [{"type": "Ready", "status": "True"}]});
        assert!(!pod(serde_json::json!({"metadata": {}, "status": failed})).available());
    }

    #[test]
    fn of_annotations_of_any_length_so_much_is_kept_as_can_be_meant() {
        let long = |letter: &str, length: usize| serde_json::Value::from(letter.repeat(length));
        let annotations = serde_json::json!({"hitless.dev/drain": long("a", 8 << 10), "hitless.dev/hooks": long("ä", 100_000),
            "hitless.dev/x": long("a", 100_000), "hitless.dev/y": long("a", 100_000), "hitless.dev/z": long("a", 100_000),
            "example.com/own": "not read"});
        let kept = pod(serde_json::json!({"metadata": {"annotations": annotations}})).annotations;
        let lengths: Vec<usize> = kept.values().map(String::len).collect();
        assert_eq!(lengths, [8 << 10, 8 << 10, 8 << 10, 8 << 10, 0], "{:?}", kept.keys());
    }

    #[test]
    fn an_application_speaks_for_its_pod_where_its_owner_says_so() {
        let with = |value: &str| {
            pod(serde_json::json!({"metadata": {"annotations": {"hitless.dev/task": value}}})).may_refuse()
        };
        assert!(with("allowed"));
        assert!(!with("true") && !with("Allowed") && !with(""));
        assert!(!pod(serde_json::json!({"metadata": {}})).may_refuse());
    }

    #[test]
    fn an_empty_pod_is_no_panic() {
        let view = pod(serde_json::json!({"metadata": {}}));
        assert!(!view.ready() && !view.gated && view.containers.is_empty());
    }
}

//! A pod as every part of hitless sees it: our own small struct, so that a cache holds nothing else and no decision can ask
//! for a field that was thrown away.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, Pod, PodSpec, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::names::{self, annotations};
use crate::{ObjectRef, PodRef, PortTreatment, PullIdentity, PullPolicy};

/// One condition of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionView {
    /// `status == "True"`.
    pub is_true: bool,
    /// Machine-readable reason.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// When the status last changed.
    pub since: Option<Timestamp>,
}

/// A port that a container declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortView {
    /// Number.
    pub port: u16,
    /// Name, if it has one.
    pub name: Option<String>,
    /// What travels on it, from its protocol, its name and the probes on it (docs/contract.md 27).
    pub treatment: PortTreatment,
}

/// One container: what is wished and what runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerView {
    /// Name.
    pub name: String,
    /// `spec.containers[].image`.
    pub image: String,
    /// `spec.containers[].imagePullPolicy`.
    pub pull_policy: PullPolicy,
    /// Declared ports.
    pub ports: Vec<PortView>,
    /// Seconds between probes, one entry for each probe that opens a connection to the pod.
    pub probe_periods: Vec<u32>,
    /// What the kubelet says of it; absent before it was created.
    pub status: Option<ContainerState>,
}

/// What the kubelet says of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerState {
    /// `containerID`, e.g. `containerd://…`; empty before it was created.
    pub container_id: String,
    /// The image that runs, by name: until the kubelet has followed it is not yet the one of the spec.
    pub image: String,
    /// Resolved image with its digest, e.g. `registry/repo@sha256:…`; without `@` when only an id is known.
    pub image_id: String,
    /// Readiness probe passes.
    pub ready: bool,
    /// It runs now, since then.
    pub running_since: Option<Timestamp>,
    /// Reason of the waiting state, e.g. `ImagePullBackOff`.
    pub waiting: Option<String>,
    /// What the kubelet says of a container that does not run, in words: how it ended, else why it waits.
    pub trouble: Option<Box<str>>,
    /// How often it was restarted.
    pub restarts: u32,
}

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
    pub labels: BTreeMap<String, String>,
    /// Those annotations that hitless reads: `hitless.dev/…`, the mirror mark, the rules that the pod skips.
    pub annotations: BTreeMap<String, String>,
    /// Controller owner.
    pub owner: Option<ObjectRef>,
    /// `spec.nodeName`.
    pub node: Option<String>,
    /// Containers in the order of the spec; init containers are not listed.
    pub containers: Vec<ContainerView>,
    /// Whose credentials their images are pulled with.
    pub pull_identity: PullIdentity,
    /// Conditions by type.
    pub conditions: BTreeMap<String, ConditionView>,
    /// Whether `hitless.dev/InService` is one of its readiness gates.
    pub gated: bool,
    /// `spec.hostNetwork`.
    pub host_network: bool,
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

    /// Condition `hitless.dev/InService`, if it was ever written.
    #[must_use]
    pub fn in_service(&self) -> Option<&ConditionView> {
        self.conditions.get(names::IN_SERVICE)
    }

    /// Whether the kubelet made it from a static manifest.
    #[must_use]
    pub fn is_mirror(&self) -> bool {
        self.annotations.contains_key(annotations::MIRROR)
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
        let statuses = status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
        Self {
            id: PodRef {
                namespace: meta.namespace.clone().unwrap_or_default(),
                name: meta.name.clone().unwrap_or_default(),
                uid: meta.uid.clone().unwrap_or_default(),
            },
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            observed_generation: status.and_then(|s| s.observed_generation).unwrap_or_default(),
            labels: meta.labels.clone().unwrap_or_default(),
            annotations: meta
                .annotations
                .iter()
                .flatten()
                .filter(|(key, _)| is_read(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            owner: ObjectRef::controller_of(meta),
            node: spec.and_then(|s| s.node_name.clone()),
            containers: spec
                .map(|s| s.containers.as_slice())
                .unwrap_or_default()
                .iter()
                .map(|container| container_view(container, statuses))
                .collect(),
            pull_identity: spec.map(pull_identity).unwrap_or_default(),
            conditions: status
                .and_then(|s| s.conditions.as_ref())
                .into_iter()
                .flatten()
                .map(|c| {
                    let view = ConditionView {
                        is_true: c.status == "True",
                        reason: c.reason.clone().unwrap_or_default(),
                        message: c.message.clone().unwrap_or_default(),
                        since: c.last_transition_time.as_ref().map(|time| time.0),
                    };
                    (c.type_.clone(), view)
                })
                .collect(),
            gated: spec
                .and_then(|s| s.readiness_gates.as_ref())
                .is_some_and(|gates| gates.iter().any(|gate| gate.condition_type == names::IN_SERVICE)),
            host_network: spec.and_then(|s| s.host_network).unwrap_or_default(),
            grace_seconds: spec
                .and_then(|s| s.termination_grace_period_seconds)
                .map_or(DEFAULT_GRACE_SECONDS, |seconds| u32::try_from(seconds).unwrap_or_default()),
            terminating: meta.deletion_timestamp.is_some(),
            finished: status
                .and_then(|s| s.phase.as_deref())
                .is_some_and(|phase| matches!(phase, "Succeeded" | "Failed")),
            ip: status.and_then(|s| s.pod_ip.clone()),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
        }
    }
}

fn pull_identity(spec: &PodSpec) -> PullIdentity {
    PullIdentity {
        service_account: spec.service_account_name.clone().filter(|name| name != "default"),
        secrets: spec.image_pull_secrets.iter().flatten().map(|secret| secret.name.clone()).collect(),
    }
}

fn is_read(annotation: &str) -> bool {
    annotation.starts_with("hitless.dev/") || matches!(annotation, annotations::MIRROR | annotations::SKIP_RULES)
}

fn container_view(container: &Container, statuses: &[ContainerStatus]) -> ContainerView {
    let probes: Vec<&Probe> = [&container.readiness_probe, &container.liveness_probe, &container.startup_probe]
        .into_iter()
        .flatten()
        .collect();
    let ports = container.ports.iter().flatten().filter_map(|declared| {
        let port = u16::try_from(declared.container_port).ok()?;
        let treatment = match declared.protocol.as_deref() {
            Some("UDP") => PortTreatment::Udp,
            _ => tcp_treatment(declared.name.as_deref(), port, &probes),
        };
        Some(PortView { port, name: declared.name.clone(), treatment })
    });
    let mut ports: Vec<PortView> = ports.collect();
    // A port that only a probe names is a port all the same.
    for port in probes.iter().filter_map(|probe| http_probe_port(probe)) {
        if !ports.iter().any(|known| known.port == port) {
            ports.push(PortView { port, name: None, treatment: PortTreatment::Http1 });
        }
    }
    ContainerView {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        pull_policy: PullPolicy::of(container.image_pull_policy.as_deref()),
        ports,
        probe_periods: probes
            .iter()
            .filter(|probe| probe.exec.is_none())
            .map(|probe| probe.period_seconds.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(10))
            .collect(),
        status: statuses.iter().find(|status| status.name == container.name).map(container_state),
    }
}

fn tcp_treatment(name: Option<&str>, port: u16, probes: &[&Probe]) -> PortTreatment {
    match name {
        Some(name) if name.starts_with("grpc") || name.starts_with("h2") || name.starts_with("http2") => {
            PortTreatment::Http2
        }
        Some(name) if name.starts_with("http") && !name.starts_with("https") => PortTreatment::Http1,
        _ if probes
            .iter()
            .any(|probe| http_probe_port(probe) == Some(port) || http_probe_name(probe) == name && name.is_some()) =>
        {
            PortTreatment::Http1
        }
        _ => PortTreatment::Tcp,
    }
}

fn http_probe_port(probe: &Probe) -> Option<u16> {
    match &probe.http_get.as_ref()?.port {
        IntOrString::Int(port) => u16::try_from(*port).ok(),
        IntOrString::String(_) => None,
    }
}

fn http_probe_name(probe: &Probe) -> Option<&str> {
    match &probe.http_get.as_ref()?.port {
        IntOrString::Int(_) => None,
        IntOrString::String(name) => Some(name),
    }
}

fn container_state(status: &ContainerStatus) -> ContainerState {
    let state = status.state.as_ref();
    ContainerState {
        container_id: status.container_id.clone().unwrap_or_default(),
        image: status.image.clone(),
        image_id: status.image_id.clone(),
        ready: status.ready,
        running_since: state.and_then(|s| s.running.as_ref()).and_then(|r| r.started_at.as_ref()).map(|time| time.0),
        waiting: state.and_then(|s| s.waiting.as_ref()).and_then(|w| w.reason.clone()),
        trouble: trouble(status),
        restarts: u32::try_from(status.restart_count).unwrap_or_default(),
    }
}

/// Longest words of the kubelet that are kept, in characters.
const LONGEST_TROUBLE: usize = 400;

fn trouble(status: &ContainerStatus) -> Option<Box<str>> {
    let state = status.state.as_ref()?;
    if state.running.is_some() {
        return None;
    }
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let words = match (state.terminated.as_ref().or(last), &state.waiting) {
        (Some(ended), _) => {
            let ContainerStateTerminated { exit_code, reason, message, .. } = ended;
            let reason = reason.as_deref().unwrap_or("ended");
            let message = message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
            format!("{reason} with exit code {exit_code}{message}")
        }
        (None, Some(waiting)) => waiting.message.clone()?,
        (None, None) => return None,
    };
    Some(words.chars().take(LONGEST_TROUBLE).collect())
}

#[cfg(test)]
mod tests {
    use super::PortTreatment::{Http1, Http2, Tcp, Udp};
    use super::*;

    fn pod(json: serde_json::Value) -> PodView {
        PodView::from(&serde_json::from_value::<Pod>(json).unwrap())
    }

    #[test]
    fn treatment_of_a_port_comes_from_protocol_then_name_then_probe() {
        let view = pod(serde_json::json!({"metadata": {}, "spec": {"containers": [{"name": "c", "ports": [
            {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 80, "name": "http-web"}, {"containerPort": 90, "name": "grpc"},
            {"containerPort": 91, "name": "admin"}, {"containerPort": 92}, {"containerPort": 443, "name": "https"}],
            "readinessProbe": {"httpGet": {"port": "admin"}}, "livenessProbe": {"httpGet": {"port": 99}, "periodSeconds": 3},
            "startupProbe": {"exec": {}}}]}}));
        let treatments: Vec<_> = view.containers[0].ports.iter().map(|p| (p.port, p.treatment)).collect();
        assert_eq!(treatments, [(53, Udp), (80, Http1), (90, Http2), (91, Http1), (92, Tcp), (443, Tcp), (99, Http1)]);
        assert_eq!(view.containers[0].probe_periods, [10, 3], "exec probes open no connection");
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
    fn a_container_that_does_not_run_has_the_words_of_the_kubelet() {
        let words = |state: serde_json::Value, last: serde_json::Value| {
            let status = serde_json::json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 1,
                "state": state, "lastState": last});
            let view = pod(serde_json::json!({"metadata": {}, "spec": {"containers": [{"name": "c"}]},
                "status": {"containerStatuses": [status]}}));
            view.containers[0].status.as_ref().unwrap().trouble.as_deref().map(ToOwned::to_owned)
        };
        let none = || serde_json::json!({});
        let ended = serde_json::json!({"terminated": {"exitCode": 3, "reason": "Error", "message": "no key"}});
        let waiting = serde_json::json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}});
        assert_eq!(words(waiting.clone(), ended.clone()).as_deref(), Some("Error with exit code 3: no key"));
        assert_eq!(words(ended, none()).as_deref(), Some("Error with exit code 3: no key"));
        assert_eq!(words(waiting, none()).as_deref(), Some("back-off 10s"));
        assert_eq!(words(serde_json::json!({"running": {}}), none()), None);
    }

    #[test]
    fn an_empty_pod_is_no_panic() {
        let view = pod(serde_json::json!({"metadata": {}}));
        assert!(!view.ready() && !view.gated && view.containers.is_empty());
    }
}

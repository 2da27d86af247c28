//! A container of a pod: what is wanted and what runs.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, PodSpec, PodStatus, Probe};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use crate::shared::Shared;
use crate::{PortTreatment, PullPolicy};

/// A port that a container declares.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortView {
    /// Number.
    pub port: u16,
    /// Name, if it has one.
    pub name: Option<String>,
    /// What travels on it, from its protocol, its name and the probes on it (docs/contract.md#port-treatment).
    pub treatment: PortTreatment,
    /// Its protocol.
    pub protocol: Protocol,
    /// The port of its node that leads to it (`hostPort`), whether the pod is Ready or not.
    pub host_port: Option<u16>,
}

/// A protocol of the transport layer, as ports of containers and of Services name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `TCP`, also where nothing is said.
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
}

impl Protocol {
    /// Of the field `protocol` of a port.
    #[must_use]
    pub fn of(name: Option<&str>) -> Self {
        match name {
            Some("UDP") => Self::Udp,
            Some("SCTP") => Self::Sctp,
            _ => Self::Tcp,
        }
    }
}

/// Where a container stands in its pod's spec, with its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// `spec.containers`.
    Container(usize),
    /// `spec.initContainers`, with the restart policy `Always`: it runs as long as the pod does.
    RestartableInit(usize),
}

impl Place {
    /// The list's name in the spec, and the index there.
    #[must_use]
    pub const fn path(self) -> (&'static str, usize) {
        match self {
            Self::Container(index) => ("containers", index),
            Self::RestartableInit(index) => ("initContainers", index),
        }
    }
}

/// One container: what is wanted and what runs. It reads like its spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerView {
    /// What is wanted.
    pub spec: Shared<ContainerSpec>,
    /// What the kubelet says of it; absent before it was created.
    pub status: Option<ContainerState>,
}

impl Deref for ContainerView {
    type Target = ContainerSpec;

    fn deref(&self) -> &ContainerSpec {
        &self.spec
    }
}

impl DerefMut for ContainerView {
    fn deref_mut(&mut self) -> &mut ContainerSpec {
        &mut self.spec
    }
}

/// What the pod's spec says of a container: the same in most pods of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerSpec {
    /// Name.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// Its image in the spec.
    pub image: String,
    /// Its `imagePullPolicy`.
    pub pull_policy: PullPolicy,
    /// Declared ports.
    pub ports: Vec<PortView>,
    /// Seconds between probes, one entry for each probe that opens a connection to the pod.
    pub probe_periods: Vec<u32>,
    /// It has a readiness or startup probe: after a start the pod is not Ready until that passes.
    pub delays_ready: bool,
    /// What it requests of [`ROOM`], and its limits of that, as JSON of `resources`; absent where it says nothing of it.
    pub resources: Option<Box<str>>,
    /// The longest that its startup and readiness probes let a start take, in seconds; 0 without one of them.
    pub start_seconds: u32,
}

/// What LimitRanges and quotas speak of. Devices and huge pages are left out: who has a container's in mind has none to give away twice.
const ROOM: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

impl ContainerSpec {
    /// Whether its spec tells of somebody whom it serves, or of a pod that is not Ready while it starts.
    #[must_use]
    pub fn declares_service(&self) -> bool {
        !self.ports.is_empty() || !self.probe_periods.is_empty() || self.delays_ready
    }
}

/// What the kubelet says of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerState {
    /// `containerID`, e.g. `containerd://…`; empty before it was created.
    pub container_id: String,
    /// The image that runs, by name: until the kubelet has followed it is not yet the one of the spec.
    pub image: Shared<String>,
    /// Resolved image with its digest, e.g. `registry/repo@sha256:…`; without `@` when only an id is known.
    pub image_id: Shared<String>,
    /// Readiness probe passes.
    pub ready: bool,
    /// It runs now, since then.
    pub running_since: Option<Timestamp>,
    /// The one before it ended then: `lastState.terminated.finishedAt`.
    pub last_ended: Option<Timestamp>,
    /// Reason of the waiting state, e.g. `ImagePullBackOff`.
    pub waiting: Option<String>,
    /// What the kubelet says of a container that does not run, in words: of one that crashes how it ended, else why it waits.
    pub trouble: Option<Box<str>>,
    /// How often it was restarted.
    pub restarts: u32,
}

/// The containers that run as long as the pod does: those of `spec.containers`, then restartable init containers. One that only runs
/// before them is no part of the running pod.
pub(super) fn containers(spec: &PodSpec, status: Option<&PodStatus>) -> Vec<ContainerView> {
    let regular = status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    let init = status.and_then(|s| s.init_container_statuses.as_deref()).unwrap_or_default();
    let containers = spec.containers.iter().enumerate();
    let containers = containers.map(|(index, container)| container_view(container, Place::Container(index), regular));
    let restartable = spec.init_containers.iter().flatten().enumerate().filter(|(_, each)| is_restartable(each));
    let restartable =
        restartable.map(|(index, container)| container_view(container, Place::RestartableInit(index), init));
    containers.chain(restartable).collect()
}

/// Names of the init containers that only run before them, if there are any.
pub(super) fn run_once(spec: &PodSpec) -> Option<Vec<String>> {
    let once = spec.init_containers.iter().flatten().filter(|each| !is_restartable(each));
    let names: Vec<String> = once.map(|each| each.name.clone()).collect();
    (!names.is_empty()).then_some(names)
}

/// Of an init container.
fn is_restartable(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn container_view(container: &Container, place: Place, statuses: &[ContainerStatus]) -> ContainerView {
    let probes: Vec<&Probe> = [&container.readiness_probe, &container.liveness_probe, &container.startup_probe]
        .into_iter()
        .flatten()
        .collect();
    let ports = container.ports.iter().flatten().filter_map(|declared| {
        let port = u16::try_from(declared.container_port).ok()?;
        let protocol = Protocol::of(declared.protocol.as_deref());
        let treatment = match protocol {
            Protocol::Udp => PortTreatment::Udp,
            Protocol::Tcp | Protocol::Sctp => tcp_treatment(declared.name.as_deref(), port, &probes),
        };
        let host_port = declared.host_port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        Some(PortView { port, name: declared.name.clone(), treatment, protocol, host_port })
    });
    let mut ports: Vec<PortView> = ports.collect();
    // A port that only a probe names is a port all the same.
    for port in probes.iter().filter_map(|probe| http_probe_port(probe)) {
        if !ports.iter().any(|known| known.port == port) {
            let treatment = tcp_treatment(None, port, &probes);
            ports.push(PortView { port, name: None, treatment, protocol: Protocol::Tcp, host_port: None });
        }
    }
    let spec = ContainerSpec {
        name: container.name.clone(),
        place,
        image: container.image.clone().unwrap_or_default(),
        pull_policy: PullPolicy::of(container.image_pull_policy.as_deref()),
        ports,
        probe_periods: probes
            .iter()
            .filter(|probe| probe.exec.is_none())
            .map(|probe| probe.period_seconds.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(10))
            .collect(),
        delays_ready: container.readiness_probe.is_some() || container.startup_probe.is_some(),
        resources: room(container),
        start_seconds: start_seconds(container),
    };
    ContainerView {
        spec: spec.into(),
        status: statuses.iter().find(|status| status.name == container.name).map(container_state),
    }
}

fn room(container: &Container) -> Option<Box<str>> {
    let resources = container.resources.as_ref()?;
    let room = |all: &Option<BTreeMap<String, Quantity>>| -> BTreeMap<String, String> {
        let all = all.iter().flatten().filter(|(name, _)| ROOM.contains(&name.as_str()));
        all.map(|(name, quantity)| (name.clone(), quantity.0.clone())).collect()
    };
    let (requests, limits) = (room(&resources.requests), room(&resources.limits));
    let is_any = !requests.is_empty() || !limits.is_empty();
    is_any.then(|| json!({"requests": requests, "limits": limits}).to_string().into())
}

/// A startup probe grants its delay and all of its attempts, the last one until it times out. The readiness probe begins after that, and
/// not before its own delay (`doProbe` of the kubelet's `prober/worker.go`).
fn start_seconds(container: &Container) -> u32 {
    let or = |value: Option<i32>, default: u32| value.and_then(|value| u32::try_from(value).ok()).unwrap_or(default);
    let delay = |probe: &Probe| or(probe.initial_delay_seconds, 0);
    let attempts = |probe: &Probe, count: u32| {
        let tries = count.max(1).saturating_mul(or(probe.period_seconds, 10).max(1));
        tries.saturating_add(or(probe.timeout_seconds, 1))
    };
    let startup = container.startup_probe.as_ref();
    let started =
        startup.map_or(0, |probe| delay(probe).saturating_add(attempts(probe, or(probe.failure_threshold, 3))));
    container.readiness_probe.as_ref().map_or(started, |probe| {
        let passes = attempts(probe, or(probe.success_threshold, 1));
        started.max(delay(probe)).saturating_add(passes)
    })
}

fn tcp_treatment(name: Option<&str>, port: u16, probes: &[&Probe]) -> PortTreatment {
    match name {
        Some(name) if name.starts_with("grpc") || name.starts_with("h2") || name.starts_with("http2") => {
            PortTreatment::Http2
        }
        name if speaks_http1(name, port, probes) => PortTreatment::Http1,
        Some(_) | None => PortTreatment::Tcp,
    }
}

/// Whether it is known to be HTTP/1 without TLS: within TLS clients speak HTTP/2 as a rule, whose connections look idle between two
/// requests.
fn speaks_http1(name: Option<&str>, port: u16, probes: &[&Probe]) -> bool {
    let here =
        |probe: &&&Probe| http_probe_port(probe) == Some(port) || (name.is_some() && http_probe_name(probe) == name);
    let is_named = |prefix: &str| name.is_some_and(|name| name.starts_with(prefix));
    let mut asked = probes.iter().filter(here).peekable();
    let is_known = is_named("http") || asked.peek().is_some();
    is_known && !is_named("https") && !asked.any(|probe| is_https(probe))
}

fn is_https(probe: &Probe) -> bool {
    probe.http_get.as_ref().is_some_and(|get| get.scheme.as_deref() == Some("HTTPS"))
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
        image: status.image.clone().into(),
        image_id: status.image_id.clone().into(),
        ready: status.ready,
        running_since: state.and_then(|s| s.running.as_ref()).and_then(|r| r.started_at.as_ref()).map(|time| time.0),
        last_ended: last_terminated(status).and_then(|last| last.finished_at.as_ref()).map(|time| time.0),
        waiting: state.and_then(|s| s.waiting.as_ref()).and_then(|w| w.reason.clone()),
        trouble: trouble(status),
        restarts: u32::try_from(status.restart_count).unwrap_or_default(),
    }
}

fn last_terminated(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.last_state.as_ref()?.terminated.as_ref()
}

/// Reason of a waiting container that has ended, and that the kubelet starts again after a while.
const CRASHES: &str = "CrashLoopBackOff";

/// Longest words of the kubelet that are kept, in characters.
const LONGEST_TROUBLE: usize = 400;

fn trouble(status: &ContainerStatus) -> Option<Box<str>> {
    let state = status.state.as_ref()?;
    if state.running.is_some() {
        return None;
    }
    let waiting = state.waiting.as_ref();
    // What runs before says nothing of why the next one can't be started.
    let obstacle = waiting
        .filter(|waiting| waiting.reason.as_deref() != Some(CRASHES))
        .and_then(|waiting| waiting.message.as_ref());
    let words = match (state.terminated.as_ref().or(last_terminated(status)), waiting) {
        _ if obstacle.is_some_and(|words| !words.is_empty()) => obstacle?.clone(),
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
    use crate::pod::PodView;
    use k8s_openapi::api::core::v1::Pod;

    fn pod(json: serde_json::Value) -> PodView {
        PodView::from(&serde_json::from_value::<Pod>(json).unwrap())
    }

    #[test]
    fn treatment_of_a_port_comes_from_protocol_then_name_then_probe() {
        let view = pod(serde_json::json!({"metadata": {}, "spec": {"containers": [{"name": "c", "ports": [
            {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 80, "name": "http-web"}, {"containerPort": 90, "name": "grpc"},
            {"containerPort": 91, "name": "admin"}, {"containerPort": 92}, {"containerPort": 443, "name": "https"}, {"containerPort": 3868, "protocol": "SCTP"}],
            "readinessProbe": {"httpGet": {"port": "admin"}}, "livenessProbe": {"httpGet": {"port": 99}, "periodSeconds": 3},
            "startupProbe": {"exec": {}}}]}}));
        let treatments: Vec<_> = view.containers[0].ports.iter().map(|p| (p.port, p.treatment)).collect();
        assert_eq!(
            treatments,
            [(53, Udp), (80, Http1), (90, Http2), (91, Http1), (92, Tcp), (443, Tcp), (3868, Tcp), (99, Http1)]
        );
        let sctp: Vec<_> =
            view.containers[0].ports.iter().filter(|p| p.protocol == Protocol::Sctp).map(|p| p.port).collect();
        assert_eq!(sctp, [3868]);
        assert_eq!(view.containers[0].probe_periods, [10, 3], "exec probes open no connection");
    }

    #[test]
    fn what_is_probed_within_tls_is_no_http1() {
        let treatments = |name: Option<&str>, port: serde_json::Value, scheme: &str| -> Vec<_> {
            let declared: Vec<_> =
                name.map(|name| serde_json::json!({"containerPort": 8443, "name": name})).into_iter().collect();
            let view = pod(serde_json::json!({"metadata": {}, "spec": {"containers": [{"name": "c", "ports": declared,
                "readinessProbe": {"httpGet": {"port": port, "scheme": scheme}}}]}}));
            view.containers[0].ports.iter().map(|port| port.treatment).collect()
        };
        let number = || serde_json::json!(8443);
        assert_eq!(treatments(Some("main-port"), "main-port".into(), "HTTPS"), [Tcp]);
        assert_eq!(treatments(Some("main-port"), "main-port".into(), "HTTP"), [Http1]);
        assert_eq!(treatments(Some("http"), number(), "HTTPS"), [Tcp], "the kubelet knows better than the name");
        assert_eq!(treatments(Some("https"), number(), "HTTP"), [Tcp]);
        assert_eq!(treatments(Some("h2"), number(), "HTTPS"), [Http2]);
        assert_eq!(treatments(None, number(), "HTTPS"), [Tcp], "only the probe names it");
        assert_eq!(treatments(None, number(), "HTTP"), [Http1]);
    }

    #[test]
    fn a_start_may_take_as_long_as_its_probes_let_it() {
        let seconds = |probes: serde_json::Value| {
            let mut container = serde_json::json!({"name": "c"});
            container.as_object_mut().unwrap().extend(probes.as_object().unwrap().clone());
            pod(serde_json::json!({"metadata": {}, "spec": {"containers": [container]}})).containers[0].start_seconds
        };
        let startup = serde_json::json!({"initialDelaySeconds": 20, "periodSeconds": 5, "failureThreshold": 60});
        let readiness = serde_json::json!({"periodSeconds": 2, "successThreshold": 3, "timeoutSeconds": 4});
        assert_eq!(seconds(serde_json::json!({})), 0);
        assert_eq!(seconds(serde_json::json!({"livenessProbe": startup})), 0);
        assert_eq!(seconds(serde_json::json!({"startupProbe": {}})), 31, "what the API server adds by itself");
        assert_eq!(seconds(serde_json::json!({"startupProbe": startup})), 20 + 300 + 1);
        assert_eq!(seconds(serde_json::json!({"startupProbe": startup, "readinessProbe": readiness})), 321 + 10);
        assert_eq!(seconds(serde_json::json!({"readinessProbe": {"initialDelaySeconds": 700}})), 711);
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
        assert_eq!(words(ended.clone(), none()).as_deref(), Some("Error with exit code 3: no key"));
        assert_eq!(words(waiting, none()).as_deref(), Some("back-off 10s"));
        let pull = serde_json::json!({"waiting": {"reason": "ErrImagePull", "message": "web:v2: not found"}});
        assert_eq!(
            words(pull, ended).as_deref(),
            Some("web:v2: not found"),
            "how the one before ended says nothing of it"
        );
        assert_eq!(words(serde_json::json!({"running": {}}), none()), None);
    }

    #[test]
    fn restartable_init_containers_run_as_long_as_the_pod_and_others_do_not() {
        let status = |name: &str| serde_json::json!({"name": name, "image": "", "imageID": format!("id-{name}"), "ready": true, "restartCount": 0});
        let view = pod(serde_json::json!({"metadata": {},
            "spec": {"containers": [{"name": "web"}], "initContainers": [{"name": "setup", "image": "setup:1"},
                {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always", "ports": [{"containerPort": 15001, "name": "http-in"}]}]},
            "status": {"containerStatuses": [status("web")], "initContainerStatuses": [status("setup"), status("proxy")]}}));
        let places: Vec<_> = view.containers.iter().map(|each| (each.name.as_str(), each.place)).collect();
        assert_eq!(places, [("web", Place::Container(0)), ("proxy", Place::RestartableInit(1))]);
        assert_eq!(view.containers[1].place.path(), ("initContainers", 1));
        assert_eq!(view.containers[1].status.as_ref().unwrap().image_id.as_str(), "id-proxy");
        assert_eq!(view.containers[1].ports[0].treatment, Http1);
    }
}

//! The kernel's side of an operation: looking at the sockets of pods that leave, and holding new connections of pods that
//! stay. On threads of their own, because the calls block, and only while there is something to do.

mod ambiguous;
mod asked;
pub mod hold;
mod in_flight;
mod looks;
mod notifier;
pub mod observed;
pub mod observer;
pub mod quiet;
mod restart;
mod stragglers;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use hitless_api::pod::{ContainerView, PodView, PortView, Protocol};
use hitless_api::{DrainSpec, PortTreatment};
use hitless_kernel::{KernelError, PodNetns};
use tokio::sync::Notify;

use crate::view::Observation;
use hold::HoldThreads;
use observer::Observer;

/// Whether somebody must be seen to listen in the pod: a container is ready that is probed by connections, or has TCP ports. One that
/// is being deleted may listen no more. With a runtime class the pod may have a network stack that nobody can see, and its port may be
/// one that only a Service names: a count of 0 says nothing there, also of a pod that is being deleted.
pub(crate) fn must_listen(pod: &PodView) -> bool {
    let is_ready = |container: &&ContainerView| container.status.as_ref().is_some_and(|status| status.ready);
    let mut ready = pod.containers.iter().filter(is_ready).peekable();
    if pod.runtime_class.is_some() && ready.peek().is_some() {
        return true;
    }
    !pod.terminating
        && ready.any(|container| {
            let has_tcp = container.ports.iter().any(|port| port.treatment != PortTreatment::Udp);
            has_tcp || !container.probe_periods.is_empty()
        })
}

/// A port that the pod declares for SCTP, unless nobody is to be waited for there.
pub(crate) fn sctp_port(pod: &PodView, drain: &DrainSpec) -> Option<u16> {
    let ports = pod.containers.iter().flat_map(|container| &container.ports);
    let mut waited =
        ports.filter(|port| port.protocol == Protocol::Sctp && drain.treatment(port.port) != PortTreatment::Ignore);
    waited.next().map(|port| port.port)
}

/// Whether the pod serves by UDP. The grant says so of the port's number; where TCP has the same number, only the pod does.
pub(crate) fn has_udp(pod: &PodView, drain: &DrainSpec) -> bool {
    let mut declared = pod.containers.iter().flat_map(|container| &container.ports);
    let is_udp =
        |port: &PortView| port.protocol == Protocol::Udp && drain.treatment(port.port) != PortTreatment::Ignore;
    drain.ports.iter().any(|port| port.treat == PortTreatment::Udp) || declared.any(is_udp)
}

/// Fails if the pod serves at this port by SCTP.
pub(crate) fn ensure_no_sctp(pod_uid: &str, sctp: Option<u16>) -> Result<(), KernelError> {
    sctp.map_or(Ok(()), |port| Err(KernelError::Sctp { pod_uid: pod_uid.to_owned(), port }))
}

/// Fails if somebody must listen, and nobody is seen to: then a count of 0 says nothing.
pub(crate) fn ensure_listened(netns: &PodNetns, pod_uid: &str, must_listen: bool) -> Result<(), KernelError> {
    if must_listen && netns.listeners()?.is_empty() {
        return Err(KernelError::NobodyListens { pod_uid: pod_uid.to_owned() });
    }
    Ok(())
}

/// All of them.
#[derive(Debug)]
pub struct Threads {
    /// Looks at pods that leave.
    pub observer: Observer,
    /// Holds new connections of pods that stay.
    pub holds: HoldThreads,
    /// The `/proc` of the node's process namespace.
    pub proc_root: PathBuf,
}

impl Threads {
    /// Nothing is to be done yet. `proc_root` is the `/proc` of the node's process namespace; `wake` is notified of news.
    pub fn start(proc_root: PathBuf, wake: &Arc<Notify>) -> io::Result<Self> {
        let observer = Observer::start(proc_root.clone(), wake.clone())?;
        Ok(Self { observer, holds: HoldThreads::new(proc_root.clone(), wake.clone()), proc_root })
    }

    /// What is known of one pod.
    #[must_use]
    pub fn observation(&self, pod_uid: &str) -> Observation {
        let held = self.holds.observation(pod_uid);
        held.or_else(|| self.observer.observation(pod_uid)).unwrap_or_default()
    }

    /// What is known of each pod, by its uid.
    #[must_use]
    pub fn observations(&self) -> BTreeMap<String, Observation> {
        let mut observations = self.observer.observations();
        observations.extend(self.holds.observations());
        observations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    /// With this metadata and spec, and one container with these ports.
    fn pod(metadata: &Value, class: Option<&str>, ready: bool, ports: &Value) -> PodView {
        let pod = json!({"metadata": metadata,
            "spec": {"runtimeClassName": class, "containers": [{"name": "web", "ports": ports}]},
            "status": {"containerStatuses": [{"name": "web", "image": "", "imageID": "", "ready": ready, "restartCount": 0}]}});
        PodView::from(&serde_json::from_value::<Pod>(pod).unwrap())
    }

    #[test]
    fn somebody_must_listen_where_a_port_is_declared_or_the_runtime_may_hide_it() {
        let (none, tcp) = (json!([]), json!([{"containerPort": 80}]));
        let (stays, goes) = (json!({}), json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        for (metadata, class, ready, ports, expected) in [
            (&stays, None, true, &none, false),
            (&stays, None, true, &tcp, true),
            (&stays, None, false, &tcp, false),
            (&goes, None, true, &tcp, false),
            (&stays, Some("gvisor"), true, &none, true),
            (&stays, Some("gvisor"), false, &tcp, false),
            (&goes, Some("gvisor"), true, &none, true),
        ] {
            assert_eq!(
                must_listen(&pod(metadata, class, ready, ports)),
                expected,
                "{metadata} {class:?} {ready} {ports}"
            );
        }
    }

    #[test]
    fn a_pod_serves_by_udp_also_where_tcp_has_the_same_number() {
        let serves = |port: serde_json::Value, own: &str| {
            let pod = json!({"metadata": {"annotations": {"hitless.dev/drain": own}},
                "spec": {"containers": [{"name": "dns", "ports": [{"containerPort": 53}, port]}]}});
            let pod = PodView::from(&serde_json::from_value::<Pod>(pod).unwrap());
            has_udp(&pod, &DrainSpec::of(&pod).unwrap())
        };
        assert!(serves(json!({"containerPort": 53, "protocol": "UDP"}), "{}"));
        assert!(!serves(json!({"containerPort": 54}), "{}"));
        let ignored = r#"{"ports": [{"port": 53, "treat": "ignore"}]}"#;
        assert!(!serves(json!({"containerPort": 53, "protocol": "UDP"}), ignored));
        let named = r#"{"ports": [{"port": 99, "treat": "udp"}]}"#;
        assert!(serves(json!({"containerPort": 54}), named), "a Service leads there");
    }

    #[test]
    fn a_port_for_sctp_fails_a_count_by_name_unless_it_is_ignored() {
        let ports = json!([{"containerPort": 80}, {"containerPort": 3868, "protocol": "SCTP"}]);
        let mut pod = pod(&json!({}), None, true, &ports);
        let port = |pod: &PodView| sctp_port(pod, &DrainSpec::of(pod).unwrap());
        assert_eq!(port(&pod), Some(3868));
        let words = ensure_no_sctp("u", port(&pod)).unwrap_err().to_string();
        assert!(words.contains("port 3868 for SCTP") && words.contains("ignore"), "{words}");
        let ignored = r#"{"ports": [{"port": 3868, "treat": "ignore"}]}"#;
        pod.annotations.insert("hitless.dev/drain".into(), ignored.into());
        assert_eq!(port(&pod), None);
        ensure_no_sctp("u", None).unwrap();
    }
}

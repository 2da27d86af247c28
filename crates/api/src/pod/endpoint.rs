//! The annotation `hitless.dev/endpoint` (docs/endpoint.md): which port it names, and why no agent listens there.

use super::PodView;
use crate::PortTreatment;
use crate::names::annotations::ENDPOINT;

/// Why no agent listens in a pod that asks for it, as far as its spec tells.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointFault {
    /// The value names no port.
    #[error("{ENDPOINT} is {0:?}, which is no port; write a number from 1 to 65535 in quotes, such as \"9754\"")]
    NoPort(String),
    /// A container declares the port as its own.
    #[error(
        "{ENDPOINT} names port {port}, which container {container} listens at, so the agent can't; take another port here and in the preStop hook"
    )]
    Taken {
        /// The port.
        port: u16,
        /// Name of the container.
        container: String,
    },
    /// No agent listens in pods on the host's network.
    #[error(
        "{ENDPOINT} does nothing in pods on the host's network; remove it, and ask the node's own endpoint (docs/endpoint.md)"
    )]
    HostNetwork,
}

pub(super) fn port(value: &str) -> Option<u16> {
    value.parse().ok().filter(|port| *port > 0)
}

pub(super) fn fault(pod: &PodView) -> Option<EndpointFault> {
    let value = pod.annotations.get(ENDPOINT)?;
    let Some(port) = port(value) else { return Some(EndpointFault::NoPort(value.clone())) };
    if pod.host_network {
        return Some(EndpointFault::HostNetwork);
    }
    // Ports of UDP are others.
    let mut containers = pod.containers.iter();
    let owner = containers
        .find(|each| each.ports.iter().any(|own| own.port == port && !matches!(own.treatment, PortTreatment::Udp)))?;
    Some(EndpointFault::Taken { port, container: owner.name.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn fault(value: &str, host_network: bool) -> Option<EndpointFault> {
        of(&json!({ENDPOINT: value}), host_network)
    }

    fn of(annotations: &serde_json::Value, host_network: bool) -> Option<EndpointFault> {
        let pod = json!({"metadata": {"annotations": annotations}, "spec": {"hostNetwork": host_network, "containers": [
            {"name": "web", "ports": [{"containerPort": 8080}, {"containerPort": 53, "protocol": "UDP"}]}]}});
        PodView::from(&serde_json::from_value::<Pod>(pod).unwrap()).endpoint_fault()
    }

    #[test]
    fn a_port_is_a_number_that_nobody_else_has() {
        assert_eq!(fault("9754", false), None);
        assert_eq!(fault("53", false), None);
        for value in ["http", "0", "65536", "-1", "", "9754 "] {
            assert_eq!(fault(value, false), Some(EndpointFault::NoPort(value.to_owned())));
        }
        let taken = EndpointFault::Taken { port: 8080, container: "web".to_owned() };
        assert_eq!(fault("8080", false), Some(taken));
        assert_eq!(fault("8080", true), Some(EndpointFault::HostNetwork));
        assert_eq!(of(&json!({}), true), None, "it does not ask");
    }
}

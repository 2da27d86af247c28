//! Ports: Services whose port is not their pods', that name a container port, or that are of one pod alone; and workers that have another port
//! alone. All of it is drawn apart.

use hitless_api::PortTreatment;
use hitless_api::pod::{PortView, Protocol};
use serde_json::{Value, json};

use crate::chance::Chance;
use crate::manifest::Manifest;

/// By it the pods of a StatefulSet are told apart.
pub(crate) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// Name of the port of pods that declare one.
const NAME: &str = "http";

/// What an owner writes of ports into a template: workers have one for metrics alone. (An empty list would be none to an API server, and
/// templates without a list have the port of all pods here.)
pub(crate) fn write(chance: &mut Chance, template: &mut Value) {
    let is_worker = chance.happens(2_500);
    let ports = if is_worker {
        json!([{"name": "metrics", "containerPort": 9090}])
    } else {
        json!([{"name": NAME, "containerPort": 80}])
    };
    template["spec"]["containers"][0]["ports"] = ports;
}

/// Where a Service's port leads to.
pub(crate) fn of_service(chance: &mut Chance, manifest: &mut Manifest) {
    manifest.port = chance.pick(&[80, 8080]);
    manifest.by_name = chance.happens(4_000).then_some(NAME);
}

/// Whether a namespace has a Service for all of its pods, beside those that have one anyway.
pub(crate) fn is_shared(chance: &mut Chance) -> bool {
    chance.happens(3_000)
}

/// Whether a StatefulSet has a Service for each of its pods.
pub(crate) fn has_own_services(chance: &mut Chance) -> bool {
    chance.happens(3_000)
}

/// The ports of a pod of this template.
pub(crate) fn of_pod(template: &Value) -> Vec<PortView> {
    let port = |name: Option<&str>, number: Option<u64>| PortView {
        port: number.and_then(|number| u16::try_from(number).ok()).unwrap_or(80),
        name: name.map(Into::into),
        treatment: PortTreatment::Http1,
        protocol: Protocol::Tcp,
        host_port: None,
    };
    let container = &template["spec"]["containers"][0];
    let Some(declared) = container["ports"].as_array() else { return vec![port(None, None)] };
    let declared = declared.iter().map(|each| port(each["name"].as_str(), each["containerPort"].as_u64()));
    let mut ports: Vec<PortView> = declared.collect();
    // A port that only a probe names is a port all the same.
    let probed = container["startupProbe"]["httpGet"]["port"].as_u64().map(|number| port(None, Some(number)));
    ports.extend(probed.filter(|probed| !ports.iter().any(|known| known.port == probed.port)));
    ports
}

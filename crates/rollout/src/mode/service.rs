//! Services, as far as a Hold looks at them (docs/contract.md#services-of-a-held-pod).

use std::collections::BTreeMap;

use hitless_api::names::{self, annotations, labels};
use hitless_api::pod::{PodView, PortView, Protocol};
use hitless_api::{PortTreatment, Version};
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

/// Annotation in which GKE's controller says which network endpoint groups it keeps for a Service (`pkg/neg` in
/// kubernetes/ingress-gce). It removes a pod's address only when the pod is terminating.
pub(super) const ENDPOINT_GROUPS: &str = "cloud.google.com/neg-status";

/// Beginnings of the conditions by which AWS Load Balancer Controller (`target-type: ip`) and GKE tell of a pod's own address in a load
/// balancer. Both keep it as long as the pod's containers are ready, whatever its readiness gates say (`endpoint_resolver.go` in
/// kubernetes-sigs/aws-load-balancer-controller, `pkg/neg` in kubernetes/ingress-gce).
pub(super) const KEEPING: [&str; 2] = ["target-health.elbv2.k8s.aws/", "cloud.google.com/load-balancer-neg-ready"];

/// Whether a load balancer's controller sets the condition on every pod that a Service selects, whoever owns it.
#[must_use]
pub fn is_of_load_balancer(condition: &str) -> bool {
    KEEPING.iter().any(|beginning| condition.starts_with(beginning))
}

/// Where a Service's port leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To that port of the pod.
    Number(u16),
    /// To the container port of that name.
    Name(String),
}

/// A port of a Service, as pods see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPort {
    /// Where it leads to.
    pub target: Target,
    /// What a named port of a container has to have, too.
    pub protocol: Protocol,
}

impl TargetPort {
    /// The port of the pod that it leads to, as the EndpointSlice controller finds it (`FindPort` in kubernetes/kubernetes
    /// `pkg/api/v1/pod/util.go`): a number is the same in every pod, a name has to be declared by one of its containers. `None`: no
    /// client of this port gets to that pod.
    #[must_use]
    pub fn of(&self, pod: &PodView) -> Option<u16> {
        match &self.target {
            Target::Number(number) => Some(*number),
            Target::Name(name) => {
                let is_meant = |port: &&PortView| port.name.as_deref() == Some(name) && port.protocol == self.protocol;
                declared(pod).find(is_meant).map(|port| port.port)
            }
        }
    }

    /// Whether `other` answers clients that come to `pod` by it. Somebody is sent to a number whether anything listens there or not:
    /// where `pod` declares that port, the other one has to declare it, too.
    fn is_answered_by(&self, other: &PodView, pod: &PodView) -> bool {
        let Some(port) = self.of(other) else { return false };
        let declares =
            |pod: &PodView| declared(pod).any(|declared| declared.port == port && declared.protocol == self.protocol);
        match &self.target {
            Target::Name(_) => true,
            Target::Number(_) => declares(other) || !declares(pod),
        }
    }
}

fn declared(pod: &PodView) -> impl Iterator<Item = &PortView> {
    pod.containers.iter().flat_map(|container| &container.ports)
}

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact of the object")]
pub struct ServiceView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What a write is conditional on.
    pub version: Version,
    /// `spec.selector`; empty where somebody else makes its endpoints.
    pub selector: BTreeMap<String, String>,
    /// It has an address of its own, so that somebody distributes connections by the readiness of pods: neither headless nor
    /// `ExternalName`. Others are left alone.
    pub has_address: bool,
    /// It is headless: its name gives its clients the addresses of its pods.
    pub headless: bool,
    /// It sends what comes to a node to pods of that node only: `externalTrafficPolicy` or `internalTrafficPolicy` is `Local`.
    pub node_local: bool,
    /// `spec.publishNotReadyAddresses`.
    pub open: bool,
    /// Annotation `hitless.dev/held-by`.
    pub held_by: Option<String>,
    /// Its owner's own tools say that it is to be open: then it stays so, whatever it was when we opened it.
    pub declared_open: bool,
    /// Whether it has any annotation.
    pub has_annotations: bool,
    /// Google's controller has put its pods' own addresses into a network endpoint group.
    pub has_endpoint_group: bool,
    /// Its ports. Only a headless one may have none, and then leads to all of a pod.
    pub targets: Vec<TargetPort>,
    /// Ports whose `appProtocol` says what travels on them.
    pub treatments: Vec<(Target, PortTreatment)>,
    /// What it wants of load balancers outside of the cluster, if it has the label `kusionstack.io/control: "true"`.
    pub control: Option<Control>,
}

/// What a Service with the label `kusionstack.io/control: "true"` wants of load balancers outside of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Annotation `hitless.dev/traffic`.
    pub pools: Option<String>,
    /// Its TCP ports: name and where they lead to.
    pub ports: Vec<(Option<String>, Target)>,
}

impl ServiceView {
    /// Whether its selector matches the pod's labels. Whether a client gets there is for its ports to say: [`Self::leads_to`].
    #[must_use]
    pub fn selects(&self, pod: &PodView) -> bool {
        !self.selector.is_empty()
            && self.namespace == pod.id.namespace
            && self.selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
    }

    /// Whether it selects the pod, and one of its ports leads there.
    #[must_use]
    pub fn leads_to(&self, pod: &PodView) -> bool {
        self.selects(pod) && (self.targets.is_empty() || self.targets.iter().any(|port| port.of(pod).is_some()))
    }

    /// Whether each of its ports that leads to `pod` is answered by one of `others`, which it selects.
    pub(super) fn is_answered_by<'p>(&self, others: impl Iterator<Item = &'p PodView>, pod: &PodView) -> bool {
        let others: Vec<&PodView> = others.collect();
        let mut ports = self.targets.iter().filter(|port| port.of(pod).is_some());
        !others.is_empty() && ports.all(|port| others.iter().any(|other| port.is_answered_by(other, pod)))
    }

    /// Whether `other` gets the connections that come to the node of `pod`.
    #[must_use]
    pub fn reaches(&self, other: &PodView, pod: &PodView) -> bool {
        !self.node_local || other.node == pod.node
    }

    /// As its owner wants, it sends connections to pods that are not Ready, too.
    #[must_use]
    pub fn is_published(&self) -> bool {
        self.has_address && self.open && self.held_by.is_none()
    }

    /// Its name gives the addresses of pods that are Ready, and no others.
    #[must_use]
    pub fn is_resolved_by_readiness(&self) -> bool {
        self.headless && !self.open
    }

    /// Id of the grant for which we opened it.
    #[must_use]
    pub fn mark(&self) -> Option<&str> {
        let mark = self.held_by.as_deref()?;
        Some(mark.rsplit_once(',').map_or(mark, |(id, _)| id))
    }

    /// The port of the pod that this leads to, if the pod has it.
    #[must_use]
    pub fn port(&self, pod: &PodView, target: &Target) -> Option<u16> {
        match target {
            Target::Number(number) => Some(*number),
            Target::Name(name) => declared(pod).find(|port| port.name.as_deref() == Some(name)).map(|port| port.port),
        }
    }

    /// What travels on that port of the pod, if it says so.
    #[must_use]
    pub fn treatment(&self, pod: &PodView, port: u16) -> Option<PortTreatment> {
        let named = |name: &str| declared(pod).any(|known| known.port == port && known.name.as_deref() == Some(name));
        let leads_there = |target: &Target| match target {
            Target::Number(number) => *number == port,
            Target::Name(name) => named(name),
        };
        self.treatments.iter().find(|(target, _)| leads_there(target)).map(|(_, treatment)| *treatment)
    }
}

impl From<&Service> for ServiceView {
    fn from(service: &Service) -> Self {
        let meta = &service.metadata;
        let spec = service.spec.clone().unwrap_or_default();
        let annotation = |name: &str| meta.annotations.as_ref().and_then(|all| all.get(name));
        let open = spec.publish_not_ready_addresses.unwrap_or_default();
        let is_applied = annotation(annotations::LAST_APPLIED)
            .and_then(|text| serde_json::from_str::<Value>(text).ok())
            .is_some_and(|applied| applied.pointer("/spec/publishNotReadyAddresses") == Some(&Value::Bool(true)));
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            version: Version {
                uid: meta.uid.clone().unwrap_or_default(),
                resource_version: meta.resource_version.clone().unwrap_or_default(),
            },
            headless: spec.cluster_ip.as_deref() == Some("None") && spec.type_.as_deref() != Some("ExternalName"),
            has_address: spec.cluster_ip.as_deref() != Some("None") && spec.type_.as_deref() != Some("ExternalName"),
            node_local: is_local(spec.external_traffic_policy.as_deref())
                || is_local(spec.internal_traffic_policy.as_deref()),
            open,
            held_by: annotation(annotations::HELD_BY).cloned(),
            declared_open: is_applied || (open && is_owned_by_another(service)),
            has_annotations: meta.annotations.as_ref().is_some_and(|all| !all.is_empty()),
            has_endpoint_group: annotation(ENDPOINT_GROUPS).is_some(),
            targets: spec.ports.iter().flatten().filter_map(target_port).collect(),
            treatments: spec.ports.iter().flatten().filter_map(treatment).collect(),
            control: control(service),
            selector: spec.selector.unwrap_or_default(),
        }
    }
}

fn is_local(policy: Option<&str>) -> bool {
    policy == Some("Local")
}

/// Whether somebody else than we has applied `publishNotReadyAddresses` server-side, to the value that it has.
fn is_owned_by_another(service: &Service) -> bool {
    service.metadata.managed_fields.iter().flatten().any(|entry| {
        let is_applied =
            entry.operation.as_deref() == Some("Apply") && entry.manager.as_deref() != Some(names::CONTROLLER);
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        is_applied && fields.is_some_and(|fields| fields.pointer("/f:spec/f:publishNotReadyAddresses").is_some())
    })
}

fn treatment(port: &ServicePort) -> Option<(Target, PortTreatment)> {
    if Protocol::of(port.protocol.as_deref()) == Protocol::Udp {
        return None;
    }
    let treatment = match port.app_protocol.as_deref()?.to_ascii_lowercase().as_str() {
        "http" => PortTreatment::Http1,
        "grpc" | "h2c" | "http2" | "kubernetes.io/h2c" => PortTreatment::Http2,
        // Websockets look idle between frames; behind TLS nobody sees what is asked.
        "kubernetes.io/ws" | "kubernetes.io/wss" | "https" | "tcp" | "tls" => PortTreatment::Tcp,
        _ => return None,
    };
    Some((target(port)?, treatment))
}

fn target_port(port: &ServicePort) -> Option<TargetPort> {
    Some(TargetPort { target: target(port)?, protocol: Protocol::of(port.protocol.as_deref()) })
}

fn target(port: &ServicePort) -> Option<Target> {
    Some(match &port.target_port {
        Some(IntOrString::String(name)) => Target::Name(name.clone()),
        Some(IntOrString::Int(number)) => Target::Number(u16::try_from(*number).ok()?),
        None => Target::Number(u16::try_from(port.port).ok()?),
    })
}

fn control(service: &Service) -> Option<Control> {
    let labels = service.metadata.labels.as_ref()?;
    labels.get(labels::CONTROL).filter(|value| *value == "true")?;
    let pools = service.metadata.annotations.as_ref().and_then(|all| all.get(annotations::TRAFFIC)).cloned();
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let ports = ports.filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"));
    let ports = ports.filter_map(|port| Some((port.name.clone(), target(port)?))).collect();
    Some(Control { pools, ports })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::pod::PodView;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn view(metadata: Value, spec: Value) -> ServiceView {
        let parts = [("metadata".to_owned(), metadata), ("spec".to_owned(), spec)];
        ServiceView::from(&serde_json::from_value::<Service>(Value::Object(parts.into_iter().collect())).unwrap())
    }

    fn pod() -> PodView {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"namespace": "shop", "labels": {"app": "web", "x": "y"}},
            "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 8080, "name": "web"}, {"containerPort": 9000}]}]}}))
        .unwrap();
        PodView::from(&pod)
    }

    #[test]
    fn what_travels_on_a_port_is_told_by_its_app_protocol() {
        let service = view(
            json!({"namespace": "shop", "name": "web"}),
            json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "web", "appProtocol": "kubernetes.io/h2c"},
                {"port": 9000, "appProtocol": "HTTP"}, {"port": 9000, "protocol": "UDP", "appProtocol": "https"}, {"port": 1, "appProtocol": "acme.io/own"}]}),
        );
        assert!(service.selects(&pod()) && service.has_address);
        assert_eq!(service.treatment(&pod(), 8080), Some(PortTreatment::Http2));
        assert_eq!(service.treatment(&pod(), 9000), Some(PortTreatment::Http1));
        assert_eq!(service.treatment(&pod(), 1), None);
    }

    #[test]
    fn a_named_port_leads_to_pods_that_declare_it_with_its_protocol() {
        let leads = |ports: Value| {
            let spec = json!({"selector": {"app": "web"}, "ports": ports});
            view(json!({"namespace": "shop", "name": "web"}), spec).leads_to(&pod())
        };
        assert!(leads(json!([{"port": 80, "targetPort": "web"}])));
        assert!(!leads(json!([{"port": 80, "targetPort": "web", "protocol": "UDP"}])));
        assert!(!leads(json!([{"port": 80, "targetPort": "admin"}])));
        assert!(leads(json!([{"port": 80, "targetPort": "admin"}, {"port": 81, "targetPort": "web"}])));
        assert!(leads(json!([{"port": 80, "targetPort": 1234}])), "a number is the same in every pod");
        assert!(leads(json!([])), "a headless one without ports has names of pods only");
    }

    #[test]
    fn without_a_selector_it_selects_nobody_and_others_namespaces_are_none_of_its_business() {
        assert!(!view(json!({"namespace": "shop"}), json!({})).selects(&pod()));
        assert!(!view(json!({"namespace": "other"}), json!({"selector": {"app": "web"}})).selects(&pod()));
        assert!(!view(json!({"namespace": "shop"}), json!({"clusterIP": "None"})).has_address);
        assert!(!view(json!({"namespace": "shop"}), json!({"type": "ExternalName"})).has_address);
    }

    #[test]
    fn who_wants_it_open_is_told_by_what_was_applied() {
        let open = json!({"publishNotReadyAddresses": true});
        let ours = json!({"manager": "hitless-controller", "operation": "Update", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:publishNotReadyAddresses": {}}}});
        let mut theirs = ours.clone();
        (theirs["manager"], theirs["operation"]) = (json!("kubectl"), json!("Apply"));
        let applied = json!({annotations::LAST_APPLIED: "{\"spec\":{\"publishNotReadyAddresses\":true}}"});
        assert!(!view(json!({"managedFields": [ours]}), open.clone()).declared_open);
        assert!(view(json!({"managedFields": [ours, theirs]}), open.clone()).declared_open);
        assert!(view(json!({"annotations": applied}), open).declared_open);
    }

    #[test]
    fn a_mark_names_the_grant() {
        let mut service = view(json!({"annotations": {annotations::HELD_BY: "uid.hash,false"}}), json!({}));
        assert_eq!(service.mark(), Some("uid.hash"));
        service.held_by = Some("nonsense".to_owned());
        assert_eq!(service.mark(), Some("nonsense"));
    }
}

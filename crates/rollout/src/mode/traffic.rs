//! Which Services send a pod connections, who else takes them while it is away, and what a Service needs while its pod is held
//! (docs/contract.md#services-of-a-held-pod).

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use hitless_api::pod::{PodView, Protocol};
use hitless_api::{GrantMode, PortTreatment};

use super::ServiceView;
use super::service::{ENDPOINT_GROUPS, is_of_load_balancer};
use crate::companion::is_companion;

/// A pod that is being deleted and has a longer grace period is not waited for: nothing waits for it natively either.
const LONGEST_GRACE_SECONDS: u32 = 60;

/// Services and pods, as one finds the other.
pub struct Traffic<'a> {
    /// Services with a selector, by namespace.
    services: HashMap<&'a str, Vec<&'a ServiceView>>,
    all: &'a [Arc<PodView>],
    /// uids of pods whose nodes are lost: they do not come back, and are not gone either.
    lost: HashSet<&'a str>,
    /// Made when somebody asks for other pods: most rounds grant nothing.
    pods: OnceCell<Pods<'a>>,
}

struct Pods<'a> {
    by_owner: HashMap<&'a str, Vec<&'a PodView>>,
    /// Of namespaces with Services.
    by_namespace: HashMap<&'a str, Vec<&'a PodView>>,
}

/// How a pod is at the moment that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// It takes connections.
    Serves,
    /// It is being operated, or about to be, or being deleted: it comes back, or is gone for good.
    Away,
    /// It is not Ready, and nobody knows until when.
    Down,
}

impl Serving {
    /// Of a pod as it was seen. `taken`: it is being operated, or about to be.
    #[must_use]
    pub fn of(pod: &PodView, taken: bool) -> Self {
        match (taken || pod.terminating, pod.available()) {
            (true, _) => Self::Away,
            (false, true) => Self::Serves,
            (false, false) => Self::Down,
        }
    }
}

/// Who takes a pod's traffic while it is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandIn<'a> {
    /// Other pods do.
    Serves,
    /// Other pods do, but not for clients of this Service.
    ExceptFor(&'a str),
    /// Other pods do, but not for clients of this Service: it sends what comes to a node to pods of that node only, and its others are on
    /// other nodes.
    ExceptOnNode(&'a str),
    /// Other pods serve, but on other nodes, and this Service sends what comes to a node to pods of that node only, as all do that lead to
    /// the pod. Whoever watches the node would take all of it out.
    OnOtherNodes(&'a str),
    /// Nobody.
    None,
}

/// Whether an operation may begin now, as far as Services are concerned.
#[derive(Debug)]
pub enum ServiceReadiness<'a> {
    /// At once.
    Now {
        /// Services of a held pod that must stay as they are.
        open: Vec<&'a ServiceView>,
        /// What clients will notice all the same.
        note: Option<String>,
    },
    /// First these Services are to be open.
    Opening(Vec<&'a ServiceView>),
    /// Something else has to end first.
    Wait(ServiceConflict),
}

/// What has to end first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceConflict {
    /// This Service is open for a pod that is held: one that leaves would get connections all the same.
    Open(String),
    /// This Service has no other pod but one that is away.
    NoOther {
        /// The Service.
        service: String,
        /// The pod that is waited for.
        pod: String,
    },
}

/// What one Service of a pod that is held needs.
enum Need {
    /// Somebody else takes its connections, or nobody looks at readiness.
    Nothing,
    Open,
    /// It can't be opened because of this pod, which must not get any connection.
    CannotOpen(String),
    /// Until this pod is back, or gone.
    WaitFor(String),
}

impl<'a> Traffic<'a> {
    /// Of these Services and pods.
    #[must_use]
    pub fn new(services: &'a [Arc<ServiceView>], pods: &'a [Arc<PodView>]) -> Self {
        let mut known: HashMap<&str, Vec<&ServiceView>> = HashMap::new();
        for service in services.iter().filter(|service| !service.selector.is_empty()) {
            known.entry(service.namespace.as_str()).or_default().push(service);
        }
        Self { services: known, all: pods, lost: HashSet::new(), pods: OnceCell::new() }
    }

    /// The same, with the pods whose nodes are lost.
    #[must_use]
    pub fn with_lost(self, uids: impl IntoIterator<Item = &'a str>) -> Self {
        Self { lost: uids.into_iter().collect(), ..self }
    }

    /// The Services whose clients get to the pod.
    pub fn leading_to(&self, pod: &PodView) -> impl Iterator<Item = &'a ServiceView> {
        let here = self.services.get(pod.id.namespace.as_str()).map_or(&[] as &[&ServiceView], Vec::as_slice);
        here.iter().copied().filter(|service| service.leads_to(pod))
    }

    /// What the pod's Services say of a port; if they don't agree, what is waited for rather than closed.
    #[must_use]
    pub fn treatment(&self, pod: &PodView, port: u16) -> Option<PortTreatment> {
        let here = self.services.get(pod.id.namespace.as_str())?;
        let telling = here.iter().filter(|service| !service.treatments.is_empty() && service.selects(pod));
        let said = telling.filter_map(|service| service.treatment(pod, port));
        said.reduce(|one, other| if one == PortTreatment::Http1 { other } else { one })
    }

    /// Ports of the pod to which a Service leads by this protocol, whether the pod declares them or not.
    #[must_use]
    pub fn ports(&self, pod: &PodView, protocol: Protocol) -> BTreeSet<u16> {
        let targets = self.leading_to(pod).flat_map(|service| &service.targets);
        targets.filter(|target| target.protocol == protocol).filter_map(|target| target.of(pod)).collect()
    }

    /// Whether a Service sends the pod connections whether it is Ready or not, because its owner wants it.
    #[must_use]
    pub fn always_published(&self, pod: &PodView) -> bool {
        self.leading_to(pod).any(ServiceView::is_published)
    }

    /// What shows that a load balancer outside of the cluster sends connections to the pod's own address whether it is Ready or not.
    #[must_use]
    pub fn load_balancer_keeps(&self, pod: &PodView) -> Option<String> {
        let condition = pod.conditions.keys().find(|name| is_of_load_balancer(name));
        let group = || self.leading_to(pod).find(|service| service.has_endpoint_group);
        let service = || group().map(|service| format!("annotation {ENDPOINT_GROUPS} of Service {}", service.name));
        condition.map(|name| format!("its condition {name}")).or_else(service)
    }

    fn pods(&self) -> &Pods<'a> {
        self.pods.get_or_init(|| {
            let (mut by_owner, mut by_namespace) = (HashMap::new(), HashMap::new());
            for pod in self.all.iter().map(|pod| &**pod).filter(|pod| !pod.finished) {
                if let Some(owner) = &pod.owner {
                    by_owner.entry(owner.uid.as_str()).or_insert_with(Vec::new).push(pod);
                }
                if self.services.contains_key(pod.id.namespace.as_str()) {
                    by_namespace.entry(pod.id.namespace.as_str()).or_insert_with(Vec::new).push(pod);
                }
            }
            Pods { by_owner, by_namespace }
        })
    }

    /// The other pods that clients of a Service of `pod` get to.
    fn others<'p>(&'p self, service: &'p ServiceView, pod: &'p PodView) -> impl Iterator<Item = &'a PodView> + Clone {
        let here = self.pods().by_namespace.get(pod.id.namespace.as_str()).map_or(&[] as &[&PodView], Vec::as_slice);
        here.iter().copied().filter(|other| other.id.uid != pod.id.uid && service.leads_to(other))
    }

    /// Who takes the traffic when `pod` is gone: for each port of its Services another pod; without Services one of its workload.
    /// Services that send connections to pods whether they are Ready or not are left out where there are others.
    #[must_use]
    pub fn stand_in(&self, pod: &PodView, serving: &impl Fn(&PodView) -> Serving) -> StandIn<'a> {
        let serves = |other: &&PodView| serving(other) == Serving::Serves;
        let with_address = || self.leading_to(pod).filter(|service| service.has_address);
        let by_readiness = || with_address().filter(|service| !service.is_published());
        let has_others = by_readiness().next().is_some();
        let mut services = with_address().filter(|service| !has_others || !service.is_published()).peekable();
        if services.peek().is_some() {
            let (mut is_served, mut alone, mut elsewhere) = (false, None, None);
            for service in services {
                let others = self.others(service, pod).filter(serves);
                if !service.is_answered_by(others.clone(), pod) {
                    alone.get_or_insert(service.name.as_str());
                } else if service.is_answered_by(others.filter(|other| service.reaches(other, pod)), pod) {
                    is_served = true;
                } else {
                    elsewhere.get_or_insert(service.name.as_str());
                }
            }
            return match (is_served, alone, elsewhere) {
                (true, Some(service), _) => StandIn::ExceptFor(service),
                (true, None, Some(service)) => StandIn::ExceptOnNode(service),
                (false, None, Some(service)) => StandIn::OnOtherNodes(service),
                (true, None, None) => StandIn::Serves,
                (false, _, _) => StandIn::None,
            };
        }
        if self.siblings(pod).any(|other| serves(&other)) { StandIn::Serves } else { StandIn::None }
    }

    /// The other pods that stand in for one to which no Service with an address leads: those of its owner, and the companion pod of
    /// its workload where clients find both by the same name.
    fn siblings<'p>(&'p self, pod: &'p PodView) -> impl Iterator<Item = &'a PodView> + 'p {
        let of_owner = pod.owner.as_ref().and_then(|owner| self.pods().by_owner.get(owner.uid.as_str()));
        let of_owner = of_owner.into_iter().flatten().copied().filter(move |other| other.id.uid != pod.id.uid);
        let by_name = self.leading_to(pod).filter(|service| service.is_resolved_by_readiness());
        let by_name = by_name.flat_map(move |service| self.others(service, pod));
        of_owner.chain(by_name.filter(move |other| is_companion(other) || is_companion(pod)))
    }

    /// Another pod that comes back from its operation, and before which nobody serves all clients of `pod`, or those of one of its Services.
    #[must_use]
    pub fn awaited(&self, pod: &PodView, serving: &impl Fn(&PodView) -> Serving) -> Option<&'a PodView> {
        let mut services = self.leading_to(pod).filter(|service| service.has_address).peekable();
        if services.peek().is_none() {
            let is_served = self.siblings(pod).any(|other| serving(other) == Serving::Serves);
            return if is_served { None } else { self.awaited_sibling(pod, serving) };
        }
        services.filter(|service| !service.is_published()).find_map(|service| {
            let others = self.others(service, pod).filter(|other| service.reaches(other, pod));
            let is_answered = |takes: &dyn Fn(&PodView) -> bool| {
                service.is_answered_by(others.clone().filter(|other| takes(other)), pod)
            };
            let comes_back = |other: &PodView| self.comes_back(other, serving);
            let is_served = is_answered(&|other| serving(other) == Serving::Serves);
            let is_served_then = is_answered(&|other| serving(other) == Serving::Serves || comes_back(other));
            if is_served || !is_served_then { None } else { others.clone().find(|other| comes_back(other)) }
        })
    }

    /// Another pod that comes back from its operation, and would stand in then for one to which no Service with an address leads. Of
    /// others [`Self::begin`] says whom they wait for.
    #[must_use]
    pub fn awaited_sibling(&self, pod: &PodView, serving: &impl Fn(&PodView) -> Serving) -> Option<&'a PodView> {
        if self.leading_to(pod).any(|service| service.has_address) {
            return None;
        }
        self.siblings(pod).find(|other| self.comes_back(other, serving))
    }

    fn comes_back(&self, other: &PodView, serving: &impl Fn(&PodView) -> Serving) -> bool {
        !other.terminating && serving(other) == Serving::Away && !self.lost.contains(other.id.uid.as_str())
    }

    /// Whether a pod that is away is back or gone soon. One on a lost node stays as it is, and one with a long grace period may take all of it.
    fn is_soon_over(&self, other: &PodView) -> bool {
        let is_long = other.terminating && other.grace_seconds > LONGEST_GRACE_SECONDS;
        !is_long && !self.lost.contains(other.id.uid.as_str())
    }

    /// Whether clients find the pods by their readiness: then another pod can take the clients of this one.
    #[must_use]
    pub fn takes_clients(&self, pod: &PodView) -> bool {
        self.leading_to(pod).any(|service| service.has_address || service.is_resolved_by_readiness())
    }

    /// The same while `pod` is there and not Ready: nobody takes what a Service sends to it all the same.
    #[must_use]
    pub fn stand_in_while_unready(&self, pod: &PodView, serving: &impl Fn(&PodView) -> Serving) -> StandIn<'a> {
        let mut with_address = self.leading_to(pod).filter(|service| service.has_address);
        let has_others = with_address.any(|service| !service.is_published());
        let published = || self.leading_to(pod).find(|service| service.is_published());
        match (self.stand_in(pod, serving), published()) {
            (StandIn::Serves, Some(service)) if has_others => StandIn::ExceptFor(&service.name),
            (StandIn::Serves, Some(_)) => StandIn::None,
            (stand_in, _) => stand_in,
        }
    }

    /// Whether this Service has to be open while `pod` is held.
    #[must_use]
    pub fn must_be_open(&self, service: &ServiceView, pod: &PodView, serving: &impl Fn(&PodView) -> Serving) -> bool {
        match self.need(service, pod, serving) {
            Need::Open => true,
            Need::Nothing | Need::CannotOpen(_) | Need::WaitFor(_) => false,
        }
    }

    fn need(&self, service: &ServiceView, pod: &PodView, serving: &impl Fn(&PodView) -> Serving) -> Need {
        if !service.has_address || service.is_published() {
            return Need::Nothing;
        }
        let serves = |other: &&PodView| serving(other) == Serving::Serves && service.reaches(other, pod);
        if service.is_answered_by(self.others(service, pod).filter(serves), pod) {
            return Need::Nothing;
        }
        let (mut waits_for, mut in_the_way) = (None, None);
        for other in self.others(service, pod) {
            match serving(other) {
                Serving::Serves => {}
                Serving::Away if self.is_soon_over(other) => waits_for = Some(other.id.name.clone()),
                Serving::Away | Serving::Down => in_the_way = Some(other.id.name.clone()),
            }
        }
        match (in_the_way, waits_for) {
            (Some(other), _) => Need::CannotOpen(other),
            (None, Some(other)) => Need::WaitFor(other),
            (None, None) => Need::Open,
        }
    }

    /// Whether the pod may be operated in this mode now.
    #[must_use]
    pub fn begin(
        &self,
        pod: &PodView,
        mode: &GrantMode,
        serving: &impl Fn(&PodView) -> Serving,
    ) -> ServiceReadiness<'a> {
        if *mode != GrantMode::Hold {
            // It would get connections although it has left.
            let opened = self.leading_to(pod).find(|service| service.open && service.held_by.is_some());
            return match opened {
                Some(service) => ServiceReadiness::Wait(ServiceConflict::Open(service.name.clone())),
                None => ServiceReadiness::Now { open: Vec::new(), note: None },
            };
        }
        let (mut closed, mut open, mut note) = (Vec::new(), Vec::new(), None);
        for service in self.leading_to(pod) {
            match self.need(service, pod, serving) {
                Need::Nothing => {}
                Need::Open if service.open => open.push(service),
                Need::Open => closed.push(service),
                Need::CannotOpen(other) => {
                    note = Some(format!(
                        "Service {} can't be opened because of pod {other}, which is not Ready or is being deleted",
                        service.name
                    ));
                }
                Need::WaitFor(other) => {
                    return ServiceReadiness::Wait(ServiceConflict::NoOther {
                        service: service.name.clone(),
                        pod: other,
                    });
                }
            }
        }
        if closed.is_empty() {
            return ServiceReadiness::Now { open, note };
        }
        closed.extend(open);
        ServiceReadiness::Opening(closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{Pod, Service};
    use serde_json::{Value, json};

    /// A pod that all Services here select.
    fn pod(name: &str, is_ready: bool) -> Arc<PodView> {
        let ready = if is_ready { "True" } else { "False" };
        let pod = json!({
            "metadata": {"namespace": "shop", "name": name, "uid": name, "labels": {"app": "web"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": true}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}
        });
        Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod).unwrap()))
    }

    fn service(name: &str, more: &Value) -> Arc<ServiceView> {
        let mut service =
            json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"selector": {"app": "web"}}});
        for (field, value) in more.as_object().into_iter().flatten() {
            service["spec"][field] = value.clone();
        }
        Arc::new(ServiceView::from(&serde_json::from_value::<Service>(service).unwrap()))
    }

    fn present(taken: &[&str]) -> impl Fn(&PodView) -> Serving {
        move |pod| Serving::of(pod, taken.contains(&pod.id.name.as_str()))
    }

    #[test]
    fn another_one_serves_if_it_is_ready_and_stays() {
        let pods = [pod("a", true), pod("b", true), pod("c", false)];
        for services in [vec![], vec![service("web", &json!({}))]] {
            let traffic = Traffic::new(&services, &pods);
            let stand_in = |taken: &[&str]| traffic.stand_in(&pods[0], &present(taken));
            assert_eq!((stand_in(&[]), stand_in(&["b"])), (StandIn::Serves, StandIn::None), "c is not Ready");
            assert_eq!(Traffic::new(&services, &pods[..1]).stand_in(&pods[0], &present(&[])), StandIn::None);
        }
    }

    #[test]
    fn a_load_balancer_that_keeps_pods_is_seen_by_their_conditions_or_their_services_annotation() {
        let mut pods = [PodView::clone(&pod("a", true))];
        let keeps = |pod: &PodView, services: &[Arc<ServiceView>]| Traffic::new(services, &[]).load_balancer_keeps(pod);
        let plain = service("web", &json!({}));
        assert_eq!(keeps(&pods[0], &[Arc::clone(&plain)]), None);
        let group = ServiceView { has_endpoint_group: true, ..ServiceView::clone(&plain) };
        let shown = keeps(&pods[0], &[Arc::new(group)]).unwrap();
        assert_eq!(shown, "annotation cloud.google.com/neg-status of Service web");
        let name = "target-health.elbv2.k8s.aws/k8s-shop-web-0123456789";
        pods[0].conditions.insert(name, pods[0].conditions.get("Ready").unwrap().clone());
        assert_eq!(keeps(&pods[0], &[plain]).unwrap(), format!("its condition {name}"));
    }

    /// Like [`pod`], with these ports.
    fn listens(name: &str, ports: &Value) -> Arc<PodView> {
        let spec = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "ports": ports}]}});
        let containers = PodView::from(&serde_json::from_value::<Pod>(spec).unwrap()).containers;
        Arc::new(PodView { containers, ..PodView::clone(&pod(name, true)) })
    }

    #[test]
    fn a_worker_that_a_selector_matches_without_its_port_is_no_stand_in() {
        let web = |name: &str| listens(name, &json!([{"containerPort": 8080, "name": "http"}]));
        let worker = listens("worker", &json!([{"containerPort": 9090, "name": "metrics"}]));
        let by = |target: Value| [service("web", &json!({"ports": [{"port": 80, "targetPort": target}]}))];
        for services in [by(json!("http")), by(json!(8080))] {
            let ask = |pods: &[Arc<PodView>]| {
                let traffic = Traffic::new(&services, pods);
                let begin = traffic.begin(&pods[0], &GrantMode::Hold, &present(&[]));
                (
                    traffic.stand_in(&pods[0], &present(&[])) == StandIn::Serves,
                    matches!(begin, ServiceReadiness::Opening(_)),
                )
            };
            assert_eq!(ask(&[web("a"), worker.clone()]), (false, true), "{services:?}");
            assert_eq!(ask(&[web("a"), worker.clone(), web("b")]), (true, false), "{services:?}");
        }
        let services = by(json!("http"));
        let pods = [worker, web("a")];
        let traffic = Traffic::new(&services, &pods);
        assert_eq!(traffic.leading_to(&pods[0]).count(), 0, "no client of the Service gets there");
    }

    #[test]
    fn each_port_may_have_another_stand_in() {
        let port = |name: &str, number: u16| json!({"containerPort": number, "name": name});
        let ports = json!([{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": "admin"}]);
        let services = [service("web", &json!({"ports": ports}))];
        let one = listens("a", &json!([port("http", 8080), port("admin", 8081)]));
        let (two, three) = (listens("b", &json!([port("http", 80)])), listens("c", &json!([port("admin", 81)])));
        let serves =
            |pods: &[Arc<PodView>]| Traffic::new(&services, pods).stand_in(&pods[0], &present(&[])) == StandIn::Serves;
        assert!(!serves(&[one.clone(), two.clone()]));
        assert!(serves(&[one, two, three]));
    }

    #[test]
    fn one_odd_service_does_not_decide_for_the_clients_of_the_others() {
        let pods = [pod("a", true), pod("b", true)];
        let mut one = PodView::clone(&pods[0]);
        one.labels.insert("name".to_owned(), "a".to_owned());
        let ask = |more: &[Value]| {
            let odd = more.iter().map(|more| service("odd", more));
            let services: Vec<_> = odd.chain([service("web", &json!({}))]).collect();
            let traffic = Traffic::new(&services, &pods);
            let [gone, unready] =
                [traffic.stand_in(&one, &present(&[])), traffic.stand_in_while_unready(&one, &present(&[]))];
            let alone = traffic.stand_in_while_unready(&one, &present(&["b"]));
            (format!("{gone:?}"), format!("{unready:?}"), alone == StandIn::None)
        };
        let (serves, except) = (|| "Serves".to_owned(), || "ExceptFor(\"odd\")".to_owned());
        let only_a = json!({"selector": {"app": "web", "name": "a"}});
        assert_eq!(ask(&[]), (serves(), serves(), true));
        assert_eq!(ask(std::slice::from_ref(&only_a)), (except(), except(), true), "a Service for each pod");
        let published = json!({"publishNotReadyAddresses": true});
        assert_eq!(ask(&[published]), (serves(), except(), true), "others serve once the pod is gone");
        let mut headless = only_a;
        headless["clusterIP"] = json!("None");
        assert_eq!(ask(&[headless]), (serves(), serves(), true));
    }

    #[test]
    fn a_service_is_opened_for_its_only_pod_and_not_for_one_that_is_down() {
        let services = [service("web", &json!({}))];
        let begin = |pods: &[Arc<PodView>], taken: &[&str]| match Traffic::new(&services, pods).begin(
            &pods[0],
            &GrantMode::Hold,
            &present(taken),
        ) {
            ServiceReadiness::Now { note, .. } => note.unwrap_or_else(|| "now".to_owned()),
            ServiceReadiness::Opening(services) => format!("open {}", services.len()),
            ServiceReadiness::Wait(busy) => format!("{busy:?}"),
        };
        let [one, two, down] = [pod("a", true), pod("b", true), pod("c", false)];
        assert_eq!(begin(std::slice::from_ref(&one), &[]), "open 1");
        assert_eq!(begin(&[one.clone(), two.clone()], &[]), "now");
        assert!(begin(&[one.clone(), two], &["b"]).starts_with("NoOther"));
        assert!(begin(&[one, down], &[]).starts_with("Service web can't be opened because of pod c"));
    }

    #[test]
    fn a_held_pod_does_not_wait_for_one_that_is_not_gone_soon() {
        let services = [service("web", &json!({}))];
        let begin = |change: &dyn Fn(&mut PodView), lost: Option<&'static str>, taken: &[&str]| {
            let mut other = PodView::clone(&pod("b", false));
            change(&mut other);
            let pods = [pod("a", true), Arc::new(other)];
            let traffic = Traffic::new(&services, &pods).with_lost(lost);
            match traffic.begin(&pods[0], &GrantMode::Hold, &present(taken)) {
                ServiceReadiness::Now { note, .. } => note.unwrap_or_default(),
                ServiceReadiness::Opening(_) => "open".to_owned(),
                ServiceReadiness::Wait(busy) => format!("{busy:?}"),
            }
        };
        let deleted = |pod: &mut PodView| pod.terminating = true;
        let slowly = |pod: &mut PodView| (pod.terminating, pod.grace_seconds) = (true, 3600);
        let stays = |_: &mut PodView| ();
        assert!(begin(&deleted, None, &[]).starts_with("NoOther"), "it is gone in half a minute");
        assert!(begin(&stays, None, &["b"]).starts_with("NoOther"), "it comes back from its operation");
        let cannot = "Service web can't be opened because of pod b";
        assert!(begin(&deleted, Some("b"), &[]).starts_with(cannot), "its kubelet ends it never");
        assert!(begin(&stays, Some("b"), &["b"]).starts_with(cannot), "nobody ends its operation");
        assert!(begin(&slowly, None, &[]).starts_with(cannot));
    }

    #[test]
    fn where_a_node_serves_itself_only_pods_of_the_same_node_count() {
        let on = |name: &str, node: &str| {
            Arc::new(PodView { node: Some(node.to_owned()), ..PodView::clone(&pod(name, true)) })
        };
        let pods = [on("a", "n1"), on("b", "n2")];
        for policy in ["externalTrafficPolicy", "internalTrafficPolicy"] {
            let (local, all) = (service("web", &json!({policy: "Local"})), service("all", &json!({})));
            let alone = [local.clone()];
            let of_all = Traffic::new(&alone, &pods);
            assert_eq!(of_all.stand_in(&pods[0], &present(&[])), StandIn::OnOtherNodes("web"), "it has no other one");
            let services = [local, all];
            let ask = |pods: &[Arc<PodView>], taken: &[&str]| {
                let traffic = Traffic::new(&services, pods);
                let begin = match traffic.begin(&pods[0], &GrantMode::Hold, &present(taken)) {
                    ServiceReadiness::Now { .. } => "now".to_owned(),
                    ServiceReadiness::Opening(services) => format!("open {}", services[0].name),
                    ServiceReadiness::Wait(busy) => format!("{busy:?}"),
                };
                (format!("{:?}", traffic.stand_in(&pods[0], &present(taken))), begin)
            };
            let (stand_in, begin) = ask(&pods, &[]);
            assert_eq!((stand_in.as_str(), begin.as_str()), ("ExceptOnNode(\"web\")", "open web"));
            let (stand_in, begin) = ask(&pods, &["b"]);
            assert_eq!(stand_in, "None");
            assert!(begin.starts_with("NoOther"), "an open Service would send it connections: {begin}");
            let both = [pods[0].clone(), pods[1].clone(), on("c", "n1")];
            assert_eq!(ask(&both, &[]), ("Serves".to_owned(), "now".to_owned()));
        }
    }

    #[test]
    fn nobody_leaves_while_a_service_is_open_for_another_one() {
        let mut open = ServiceView::clone(&service("web", &json!({"publishNotReadyAddresses": true})));
        let pods = [pod("a", true), pod("b", true)];
        let leave = |service: &ServiceView| {
            let services = [Arc::new(service.clone())];
            let traffic = Traffic::new(&services, &pods);
            let is_busy = matches!(
                traffic.begin(&pods[0], &GrantMode::Leave, &present(&[])),
                ServiceReadiness::Wait(ServiceConflict::Open(_))
            );
            (traffic.always_published(&pods[0]), is_busy)
        };
        assert_eq!(leave(&open), (true, false), "its owner has it so");
        open.held_by = Some("uid.hash,false".to_owned());
        assert_eq!(leave(&open), (false, true));
    }
}

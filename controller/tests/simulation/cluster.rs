//! Objects with resourceVersions, one Deployment with its ReplicaSets, and what Kubernetes does to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::names::system_namespace;
use hitless_api::node_transition::AgentInfo;
use hitless_api::pod::PodView;
use hitless_api::pod_transition_rule::{AvailableRule, TransitionRule};
use hitless_api::{Grant, PodTransitionRuleSpec};
use hitless_gate::{Budget, DisruptionBudget};
use hitless_rollout::mode::ServiceView;
use hitless_rollout::prefetch::{NamePool, NodeImages, PrefetchView};
use hitless_rollout::snapshot::{
    AgentState, BindingView, LedgerView, NodePressure, NodeTransitionView, NodeView, RuleView, Snapshot, Version,
};
use hitless_workloads::image::unpinned;
use hitless_workloads::{Installed, Write, registry};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

mod writes;

pub(crate) const NAMESPACE: &str = "shop";
pub(crate) const NODES: usize = 2;

/// A cluster with one Deployment `web`, driven in place.
pub(crate) struct Cluster {
    pub(crate) now: Timestamp,
    version: u64,
    pub(crate) deployment: Value,
    pub(crate) sets: BTreeMap<String, Value>,
    pub(crate) pods: BTreeMap<String, Value>,
    /// Companion pods by name.
    pub(crate) companions: BTreeMap<String, Value>,
    pub(crate) nodes: BTreeMap<String, Arc<NodeView>>,
    pub(crate) agents: BTreeMap<String, AgentState>,
    pub(crate) transitions: BTreeMap<String, NodeTransitionView>,
    pub(crate) ledgers: BTreeMap<String, LedgerView>,
    pub(crate) bindings: BTreeMap<String, Arc<BindingView>>,
    pub(crate) rules: Vec<RuleView>,
    pub(crate) budgets: Vec<Arc<Budget>>,
    disruption_budgets: Vec<Arc<DisruptionBudget>>,
    /// Pods that fetch images, as JSON, by name.
    pub(crate) prefetches: BTreeMap<String, Value>,
    /// As JSON, by name.
    pub(crate) services: BTreeMap<String, Value>,
    /// What is installed.
    pub(crate) installed: Installed,
    /// What agents say of themselves with their reports.
    pub(crate) agent: AgentInfo,
    /// What agents report of an operation that is done.
    pub(crate) gap_milliseconds: Option<u32>,
    /// Of four connections that were open when the pod became not Ready so many were reset, as they report.
    pub(crate) resets: Option<i64>,
    /// What they report of how long new connections came.
    pub(crate) propagation: Option<i64>,
    /// Successful writes by kind.
    pub(crate) written: BTreeMap<&'static str, usize>,
}

fn image(version: u8) -> String {
    format!("web:v{version}")
}

impl Cluster {
    /// `replicas` pods of version 1, of which at most `max_unavailable` may be unavailable.
    pub(crate) fn new(replicas: u32, max_unavailable: i32) -> Self {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image(1)}]}});
        let mut hashed = template.clone();
        hashed["metadata"]["labels"]["pod-template-hash"] = json!("h1");
        let meta = |name: &str| json!({"name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}"), "resourceVersion": "1", "generation": 1});
        let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("web"), "spec": {"replicas": replicas, "template": template}, "status": {}});
        deployment["metadata"]["annotations"] = json!({"hitless.dev/update": "in-place"});
        // No second pod may run beside a single one: stories about companions and about the native way allow it.
        deployment["spec"]["strategy"] = json!({"type": "Recreate"});
        let mut set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta("web-h1"), "status": {"replicas": 0},
            "spec": {"replicas": replicas, "template": hashed, "selector": {"matchLabels": {"app": "web", "pod-template-hash": "h1"}}}});
        set["metadata"]["labels"] = json!({"app": "web", "pod-template-hash": "h1"});
        set["metadata"]["creationTimestamp"] = json!("2026-11-21T00:00:00Z");
        set["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": true}]);
        let mut names = NamePool::default();
        let all: Vec<String> = (1..10).map(image).collect();
        let mut node = |index: usize| NodeView {
            name: format!("n{index}"),
            uid: format!("uid-n{index}"),
            images: NodeImages::of(all.iter().map(|name| [name.as_str()]), &mut names),
            ..NodeView::default()
        };
        let mut cluster = Self {
            now: "2026-11-22T00:00:00Z".parse().unwrap(),
            version: 1000,
            deployment,
            sets: BTreeMap::from([("web-h1".to_owned(), set)]),
            pods: BTreeMap::new(),
            companions: BTreeMap::new(),
            nodes: (0..NODES).map(|index| (format!("n{index}"), Arc::new(node(index)))).collect(),
            agents: (0..NODES).map(|index| (format!("n{index}"), AgentState::Ready)).collect(),
            transitions: BTreeMap::new(),
            ledgers: BTreeMap::new(),
            bindings: BTreeMap::new(),
            rules: vec![rule(max_unavailable)],
            budgets: Vec::new(),
            disruption_budgets: Vec::new(),
            prefetches: BTreeMap::new(),
            services: BTreeMap::new(),
            installed: Installed::default(),
            agent: AgentInfo { features: vec!["Leave".to_owned(), "Hold".to_owned()], ..AgentInfo::default() },
            gap_milliseconds: None,
            resets: None,
            propagation: None,
            written: BTreeMap::new(),
        };
        cluster.controllers();
        cluster
    }

    /// The same budget as one for the whole cluster, in place of the rule.
    pub(crate) fn cluster_wide(mut self, max_unavailable: u8) -> Self {
        let spec = json!({"scope": "Cluster", "selector": {}, "maxUnavailable": max_unavailable});
        let spec = serde_json::from_value(spec).unwrap();
        let budget = Budget {
            name: "all".into(),
            namespace: system_namespace().into(),
            uid: "all".into(),
            spec,
            unreadable: None,
        };
        (self.rules, self.budgets) = (Vec::new(), vec![Arc::new(budget)]);
        self
    }

    /// With a PodDisruptionBudget for the Deployment's pods in place of the rule.
    pub(crate) fn disruption_budget(mut self, spec: &Value) -> Self {
        let mut object = json!({"metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec});
        object["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
        let object: PodDisruptionBudget = serde_json::from_value(object).unwrap();
        (self.rules, self.disruption_budgets) = (Vec::new(), vec![Arc::new(object.into())]);
        self
    }

    /// With a Service of this name for the Deployment's pods.
    pub(crate) fn service(mut self, name: &str) -> Self {
        self.apply_service(name, &json!({}));
        self
    }

    /// `kubectl replace` of the Service, with more in its spec.
    pub(crate) fn apply_service(&mut self, name: &str, spec: &Value) {
        let version = self.bump();
        let mut service = json!({
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}"), "resourceVersion": version,
                "annotations": {"team": "shop"}},
            "spec": {"clusterIP": "10.0.0.1", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        });
        json_patch::merge(&mut service["spec"], spec);
        self.services.insert(name.to_owned(), service);
    }

    /// The Service as a controller sees it.
    pub(crate) fn see_service(&self, name: &str) -> ServiceView {
        ServiceView::from(&serde_json::from_value::<Service>(self.services[name].clone()).unwrap())
    }

    pub(crate) fn bump(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(crate) fn pass(&mut self, milliseconds: i64) {
        self.now += SignedDuration::from_millis(milliseconds);
    }

    /// Everything as it is at this moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let read = |value: &Value| Arc::new(registry::read(value.clone()).unwrap().unwrap());
        Snapshot {
            objects: std::iter::once(&self.deployment).chain(self.sets.values()).map(read).collect(),
            prefetches: self.prefetches.values().map(|pod| Arc::new(see_prefetch(pod))).collect(),
            nodes: self.nodes.clone(),
            node_transitions: self
                .transitions
                .iter()
                .map(|(name, each)| (name.clone(), Arc::new(each.clone())))
                .collect(),
            ledgers: self.ledgers.iter().map(|(name, each)| (name.clone(), Arc::new(each.clone()))).collect(),
            bindings: self.bindings.clone(),
            installed: Arc::new(self.installed.clone()),
            rules: self.rules.iter().cloned().map(Arc::new).collect(),
            budgets: self.budgets.clone(),
            disruption_budgets: self.disruption_budgets.clone(),
            services: self.services.keys().map(|name| Arc::new(self.see_service(name))).collect(),
            agents: self.agents.clone(),
            ..Snapshot::default()
        }
        .with_pods(self.pods.values().chain(self.companions.values()).map(|pod| Arc::new(view(pod))).collect())
    }

    /// What the API server does with one write; `false` if a precondition fails.
    pub(crate) fn write(&mut self, write: &Write) -> bool {
        let version = self.bump();
        let is_done = self.serve(write, version).is_ok();
        // Writes with a subject of their own are known by their verb, all others are a workload's.
        let kind = if write.subject.is_some() { write.verb } else { "workload" };
        if is_done {
            *self.written.entry(kind).or_default() += 1;
        }
        is_done
    }

    /// The owner lets companions run.
    pub(crate) fn with_companions(mut self) -> Self {
        self.deployment["spec"].as_object_mut().unwrap().remove("strategy");
        self.agent.features.push("drain".to_owned());
        self
    }

    /// The kubelet of node n1 has this to say of the companion's container.
    pub(crate) fn companion_is(&mut self, state: &Value, conditions: &Value) {
        let version = self.bump();
        for pod in self.companions.values_mut() {
            pod["metadata"]["resourceVersion"] = json!(version);
            pod["spec"]["nodeName"] = json!("n1");
            pod["status"] = json!({"conditions": conditions, "containerStatuses": [{"name": "web", "image": "",
                "imageID": "web@sha256:2", "containerID": "c://companion", "ready": true, "restartCount": 0, "state": state}]});
        }
    }

    /// No node has any image of which nothing runs there.
    pub(crate) fn without_images(mut self) -> Self {
        self.nodes.values_mut().for_each(|node| Arc::make_mut(node).images = NodeImages::default());
        self
    }

    /// The disk of every node is full.
    pub(crate) fn fill_disks(&mut self) {
        let pressure = Some(NodePressure { condition: "DiskPressure", since: Some(self.now) });
        self.nodes.values_mut().for_each(|node| Arc::make_mut(node).pressure = pressure);
    }

    /// What the kubelets say of every image that is being fetched.
    pub(crate) fn fetched(&mut self, state: &Value) {
        for pod in self.prefetches.values_mut() {
            let status = json!({"name": "image", "image": "", "imageID": "web@sha256:2", "ready": false, "restartCount": 0, "state": state});
            pod["status"] = json!({"containerStatuses": [status]});
        }
    }

    /// The kubelets let no pod in that fetches an image.
    pub(crate) fn rejected(&mut self, reason: &str) {
        for pod in self.prefetches.values_mut() {
            pod["status"] = json!({"phase": "Failed", "reason": reason, "message": "Pod was rejected"});
        }
    }

    /// A template change by a user, held by the guard policy.
    pub(crate) fn set_image(&mut self, version: u8) {
        self.deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image(version));
        self.deployment["metadata"]["annotations"]["hitless.dev/rollout"] = json!("held");
        self.deployment["spec"]["paused"] = json!(true);
        self.specified();
    }

    pub(crate) fn scale(&mut self, replicas: u32) {
        self.deployment["spec"]["replicas"] = json!(replicas);
        self.specified();
    }

    /// The Deployment's specification was changed: without another generation nobody could tell an old view of it from a new one.
    fn specified(&mut self) {
        let generation = self.deployment["metadata"]["generation"].as_i64().unwrap();
        self.deployment["metadata"]["generation"] = json!(generation + 1);
        self.deployment["metadata"]["resourceVersion"] = json!(self.bump());
    }

    /// The grants of all nodes.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        self.transitions.values().flat_map(|each| each.spec.grants.clone()).collect()
    }

    pub(crate) fn images(&self) -> Vec<&str> {
        self.pods.values().map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap()).collect()
    }

    /// Nothing is left to do: pods as wanted, no grant, no reservation, no pause.
    pub(crate) fn assert_at_rest(&self) {
        let target = self.deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap();
        assert!(self.images().iter().all(|image| unpinned(image) == target), "{:?} but wanted {target}", self.images());
        assert!(self.pods.values().all(|pod| view(pod).ready()), "a pod was left out of service");
        assert!(self.grants().is_empty(), "{:#?}", self.grants());
        assert!(self.ledgers.values().all(|ledger| ledger.spec.reservations.is_empty()), "{:#?}", self.ledgers);
        assert_ne!(self.deployment["spec"]["paused"], true);
        assert!(self.prefetches.is_empty(), "{:?}", self.prefetches.keys());
        for name in self.services.keys() {
            let service = self.see_service(name);
            assert!(!service.open && service.held_by.is_none(), "{name} was left open");
        }
    }
}

fn see_prefetch(pod: &Value) -> PrefetchView {
    PrefetchView::of(&serde_json::from_value(pod.clone()).unwrap()).unwrap()
}

pub(crate) fn view(pod: &Value) -> PodView {
    PodView::from(&serde_json::from_value::<Pod>(pod.clone()).unwrap())
}

fn rule(max_unavailable: i32) -> RuleView {
    let available =
        AvailableRule { max_unavailable_value: Some(IntOrString::Int(max_unavailable)), ..AvailableRule::default() };
    RuleView {
        namespace: NAMESPACE.to_owned(),
        name: "budget".to_owned(),
        version: Version { uid: "uid-rule".into(), resource_version: "1".into() },
        generation: 1,
        spec: PodTransitionRuleSpec {
            selector: Some(LabelSelector {
                match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
                ..LabelSelector::default()
            }),
            rules: vec![TransitionRule {
                name: "max".to_owned(),
                available_policy: Some(available),
                ..TransitionRule::default()
            }],
        },
        unreadable: None,
        status: None,
    }
}

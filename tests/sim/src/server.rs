//! The simulated API server: objects with uid and resourceVersion, conditional writes, admission, and what watchers are told.

mod admission;
mod colla_sets;
mod images;
mod lead;
mod objects;
mod pods;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_agent::view::NodePod;
use hitless_api::pod::PodView;
use hitless_api::{NodeTransition, NodeTransitionStatus, PodRef};
use hitless_rollout::mode::{PolicyView, ServiceView};
use hitless_rollout::prefetch::PrefetchView;
use hitless_rollout::snapshot::{BindingView, LedgerView, NodeTransitionView, NodeView, RuleView, Version};
use hitless_runtime::write::WriteError;
use hitless_workloads::Write;
use hitless_world::Refused;
use jiff::Timestamp;
use serde_json::Value;

use crate::balancer::Balancer;
use crate::checks::{Checks, Operation, Seen};
use crate::clock::{Micros, stamp};
use crate::watch::Key;
use admission::Admission;
pub(crate) use hitless_world::{WorkloadObject, object_key};
pub(crate) use images::{NodesImages, by_digest};
pub(crate) use services::ServiceObject;

/// A pod, as agents and as controllers cache it.
#[derive(Clone)]
pub(crate) struct PodObject {
    pub(crate) node_pod: Arc<NodePod>,
    pub(crate) view: Arc<PodView>,
}

/// A NodeTransition, as agents and as controllers cache it.
#[derive(Clone)]
pub(crate) struct TransitionObject {
    pub(crate) object: Arc<NodeTransition>,
    pub(crate) view: Arc<NodeTransitionView>,
}

/// An object of any kind.
#[derive(Clone)]
pub(crate) enum Object {
    Workload(WorkloadObject),
    Pod(PodObject),
    Node(Arc<NodeView>),
    NodeTransition(TransitionObject),
    Ledger(Arc<LedgerView>),
    Rule(Arc<RuleView>),
    Service(Arc<ServiceView>),
    Prefetch(Arc<PrefetchView>),
}

/// The kinds, for deletions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Workload,
    Pod,
    Node,
    NodeTransition,
    Service,
    Prefetch,
}

/// What a watch tells.
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    pub(crate) what: Told,
    /// Of a pod: its node, also when it is deleted.
    pub(crate) node: Option<Key>,
}

/// The new object, or the kind of the one that was deleted.
pub(crate) enum Told {
    Is(Object),
    Deleted(Kind),
}

/// A request of one of ours.
pub(crate) enum Request {
    /// A step of a controller's round, and the time by its clock when it was decided.
    Lead { write: Box<Write>, seen: Option<Arc<Seen>>, decided: Timestamp },
    /// A fresh read of a pod.
    Read(PodRef),
    /// A fresh read of a NodeTransition.
    ReadTransition(Key),
    /// InService, by strategic merge patch.
    InService { pod: PodRef, patch: Value, operation: Option<Operation> },
    /// Images with annotations, by JSON patch.
    Images { pod: PodRef, patch: json_patch::Patch, operation: Operation },
    /// An agent's report.
    Report { node: Key, version: Version, status: Box<NodeTransitionStatus> },
}

/// What the API server says.
#[derive(Clone)]
pub(crate) enum Answer {
    /// The object as it is stored; of a deletion nothing.
    Stored(Option<Object>),
    /// There is none of that name (and uid).
    Absent,
    Refused(Refusal),
}

/// Why a request was not carried out, or perhaps not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Conflict,
    Gone,
    Denied(&'static str),
    Transient,
}

impl From<Refused> for Refusal {
    fn from(why: Refused) -> Self {
        match why {
            Refused::Conflict => Self::Conflict,
            Refused::NotFound => Self::Gone,
        }
    }
}

impl Refusal {
    /// As the real shells have it.
    pub(crate) fn error(self) -> WriteError {
        let message = String::new();
        match self {
            Self::Conflict => WriteError::Conflict { message },
            Self::Gone => WriteError::Gone { message },
            Self::Denied(words) => WriteError::Denied { message: words.to_owned() },
            Self::Transient => WriteError::Transient { message, retry_after: None },
        }
    }
}

/// The stored objects.
#[derive(Default)]
pub(crate) struct Server {
    pub(crate) now: Micros,
    version: u64,
    pub(crate) objects: BTreeMap<Key, WorkloadObject>,
    pub(crate) pods: BTreeMap<Key, PodObject>,
    pub(crate) nodes: BTreeMap<Key, Arc<NodeView>>,
    pub(crate) transitions: BTreeMap<Key, TransitionObject>,
    pub(crate) ledgers: BTreeMap<Key, Arc<LedgerView>>,
    /// By namespace. Controllers see them as they are.
    pub(crate) bindings: BTreeMap<String, Arc<BindingView>>,
    pub(crate) rules: BTreeMap<Key, Arc<RuleView>>,
    pub(crate) services: BTreeMap<Key, ServiceObject>,
    pub(crate) prefetches: BTreeMap<Key, Arc<PrefetchView>>,
    /// Namespaces in which helper pods are refused, with the words.
    refused: BTreeMap<String, &'static str>,
    /// Namespaces in which one was.
    pub(crate) has_refused: BTreeSet<String>,
    /// Images that nodes really have.
    pub(crate) images: NodesImages,
    /// When anything but a prefetch pod was last changed.
    pub(crate) changed_at: Micros,
    /// They stay as they are.
    pub(crate) drain_policies: Vec<Arc<PolicyView>>,
    /// A load balancer outside of the cluster, if there is one.
    pub(crate) balancer: Option<Balancer>,
    admission: Admission,
    /// Not answering until then.
    pub(crate) away_until: Micros,
    /// Changes that nobody was told of yet.
    pub(crate) outbox: Vec<Change>,
    /// uids of owners that were deleted in the foreground: the garbage collector takes all that has them.
    pub(crate) leaving: BTreeSet<String>,
    /// Successful writes of controllers and agents, by kind.
    pub(crate) written: BTreeMap<&'static str, u64>,
}

/// Key of a namespaced object.
pub(crate) fn key(namespace: &str, name: &str) -> Key {
    format!("{namespace}/{name}").into()
}

impl Server {
    pub(crate) fn with_balancer(balancer: Option<Balancer>) -> Self {
        Self { balancer, ..Self::default() }
    }

    pub(crate) fn is_away(&self) -> bool {
        self.now < self.away_until
    }

    pub(crate) fn stamp(&self) -> Timestamp {
        stamp(self.now)
    }

    /// The latest version.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn bump(&mut self) -> u64 {
        self.version += 1;
        self.changed_at = self.now;
        self.version
    }

    fn tell(&mut self, key: Key, version: u64, object: Object) {
        self.outbox.push(Change { version, key, what: Told::Is(object), node: None });
    }

    /// Stores a pod with the next version.
    pub(crate) fn put_pod(&mut self, checks: &mut Checks, mut pod: NodePod) -> PodObject {
        let version = self.bump();
        pod.view.resource_version = version.to_string();
        let key: Key = pod.view.id.uid.as_str().into();
        let node = pod.view.node.as_deref().map(Key::from);
        let object = PodObject { view: Arc::new(pod.view.clone()), node_pod: Arc::new(pod) };
        checks.pod(self.now, &object.view);
        self.pods.insert(key.clone(), object.clone());
        self.outbox.push(Change { version, key, what: Told::Is(Object::Pod(object.clone())), node });
        object
    }

    /// Changes a pod, if it is there.
    pub(crate) fn change_pod(&mut self, checks: &mut Checks, key: &str, change: impl FnOnce(&mut NodePod)) {
        if let Some(known) = self.pods.get(key) {
            let mut pod = NodePod::clone(&known.node_pod);
            change(&mut pod);
            if pod != *known.node_pod {
                self.put_pod(checks, pod);
            }
        }
    }

    pub(crate) fn remove_pod(&mut self, checks: &mut Checks, key: &str) {
        if let Some((key, pod)) = self.pods.remove_entry(key) {
            checks.pod_gone(&pod.view);
            let (version, node) = (self.bump(), pod.view.node.as_deref().map(Key::from));
            self.outbox.push(Change { version, key, what: Told::Deleted(Kind::Pod), node });
        }
    }

    pub(crate) fn put_node(&mut self, node: NodeView) {
        let version = self.bump();
        let (key, object): (Key, _) = (node.name.as_str().into(), Arc::new(node));
        self.nodes.insert(key.clone(), object.clone());
        self.tell(key, version, Object::Node(object));
    }

    /// Deletes a Node and, as the garbage collector does, its NodeTransition.
    pub(crate) fn remove_node(&mut self, key: &Key) {
        self.images.lose(key);
        self.remove_prefetches_of(key);
        if self.nodes.remove(key).is_some() {
            let version = self.bump();
            let what = Told::Deleted(Kind::Node);
            self.outbox.push(Change { version, key: key.clone(), what, node: None });
        }
        if self.transitions.remove(key).is_some() {
            let version = self.bump();
            let what = Told::Deleted(Kind::NodeTransition);
            self.outbox.push(Change { version, key: key.clone(), what, node: None });
        }
    }

    pub(crate) fn put_rule(&mut self, mut rule: RuleView) -> Object {
        let version = self.bump();
        rule.version.resource_version = version.to_string();
        let (key, object) = (key(&rule.namespace, &rule.name), Arc::new(rule));
        self.rules.insert(key.clone(), object.clone());
        self.tell(key, version, Object::Rule(object.clone()));
        Object::Rule(object)
    }

    fn put_ledger(&mut self, key: Key, ledger: LedgerView) -> Object {
        let object = Arc::new(ledger);
        let version = object.version.resource_version.parse().unwrap_or_default();
        self.ledgers.insert(key.clone(), object.clone());
        self.admission.learn(self.now, &object);
        self.tell(key, version, Object::Ledger(object.clone()));
        Object::Ledger(object)
    }

    fn put_transition(&mut self, key: Key, object: NodeTransition, view: NodeTransitionView, version: u64) -> Object {
        let object = TransitionObject { object: Arc::new(object), view: Arc::new(view) };
        self.transitions.insert(key.clone(), object.clone());
        self.tell(key, version, Object::NodeTransition(object.clone()));
        Object::NodeTransition(object)
    }

    /// Carries out a request that has arrived.
    pub(crate) fn serve(&mut self, request: Request, checks: &mut Checks) -> Answer {
        if self.is_away() {
            return Answer::Refused(Refusal::Transient);
        }
        let done = match request {
            Request::Lead { write, seen, decided } => {
                let key = kind_of(&write);
                self.lead(&write, seen.as_deref(), decided, checks).inspect(|_| self.count(key))
            }
            Request::Read(pod) => {
                let found = self.pods.get(pod.uid.as_str());
                return found.map_or(Answer::Absent, |pod| Answer::Stored(Some(Object::Pod(pod.clone()))));
            }
            Request::ReadTransition(node) => {
                let found = self.transitions.get(&node);
                return found.map_or(Answer::Absent, |each| Answer::Stored(Some(Object::NodeTransition(each.clone()))));
            }
            Request::InService { pod, patch, operation } => {
                self.in_service(&pod, &patch, operation.as_ref(), checks).inspect(|_| self.count("pods/status"))
            }
            Request::Images { pod, patch, operation } => {
                self.images(&pod, &patch, &operation, checks).inspect(|_| self.count("pods"))
            }
            Request::Report { node, version, status } => {
                self.report(&node, &version, *status, checks).inspect(|_| self.count("nodetransitions/status"))
            }
        };
        done.map_or_else(Answer::Refused, Answer::Stored)
    }

    /// From now on helper pods are refused in the namespace, in these words, or are not any more.
    pub(crate) fn refuse_helpers(&mut self, namespace: &str, words: Option<&'static str>) {
        match words {
            Some(words) => _ = self.refused.insert(namespace.to_owned(), words),
            None => _ = self.refused.remove(namespace),
        }
    }

    pub(crate) fn refuses_helpers(&self, namespace: &str) -> bool {
        self.refused.contains_key(namespace)
    }

    /// Nobody refuses any more.
    pub(crate) fn accept_helpers(&mut self) {
        self.refused.clear();
    }

    /// A helper pod is to be made.
    fn admit_helper(&mut self, namespace: &str) -> Result<(), Refusal> {
        let Some(words) = self.refused.get(namespace) else { return Ok(()) };
        self.has_refused.insert(namespace.to_owned());
        Err(Refusal::Denied(words))
    }

    fn count(&mut self, kind: &'static str) {
        *self.written.entry(kind).or_default() += 1;
    }

    fn report(
        &mut self,
        node: &Key,
        wanted: &Version,
        status: NodeTransitionStatus,
        checks: &mut Checks,
    ) -> Result<Option<Object>, Refusal> {
        let known = self.transitions.get(node).ok_or(Refusal::Gone)?.clone();
        if !fits(&known.view.version, wanted) {
            return Err(Refusal::Conflict);
        }
        checks.judged(self, &known.view, &status);
        checks.reported(&known.view, &status);
        let version = self.bump();
        let mut view = NodeTransitionView::clone(&known.view);
        view.version.resource_version = version.to_string();
        view.agent.clone_from(&status.agent);
        view.transitions.clone_from(&status.transitions);
        let mut object = NodeTransition::clone(&known.object);
        object.metadata.resource_version = Some(version.to_string());
        object.status = Some(status);
        Ok(Some(self.put_transition(node.clone(), object, view, version)))
    }
}

/// Whether a write that wants `wanted` applies to `known`. As in Kubernetes, an empty resourceVersion asks for nothing.
fn fits(known: &Version, wanted: &Version) -> bool {
    let uid = wanted.uid.is_empty() || known.uid == wanted.uid;
    uid && (wanted.resource_version.is_empty() || known.resource_version == wanted.resource_version)
}

fn kind_of(write: &Write) -> &'static str {
    let is_status = matches!(write.request, hitless_workloads::Request::Status(_));
    match (&*write.on.group_kind.kind, write.verb) {
        ("TransitionLedger", _) => "transitionledgers",
        ("NodeTransition", _) => "nodetransitions",
        ("RoleBinding", _) => "rolebindings",
        ("Service", _) => "services",
        ("PodTransitionRule", _) => "podtransitionrules/status",
        ("TrafficProvider", _) => "trafficproviders/status",
        ("Pod", "prefetch") => "pods that fetch images",
        ("Pod", "companion") => "companion pods",
        ("Pod", _) if is_status => "pods/status",
        ("Pod", _) => "pods of CollaSets",
        ("ResourceContext", _) => "resourcecontexts",
        ("CollaSet", _) if is_status => "collasets/status",
        ("CloneSet", _) if is_status => "clonesets/status",
        ("Deployment", _) if is_status => "deployments/status",
        _ => "workloads",
    }
}

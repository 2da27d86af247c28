//! What a controller watches.

use std::sync::Arc;

use hitless_api::ObjectRef;
use hitless_rollout::mode::ServiceView;
use hitless_rollout::prefetch::PrefetchView;
use hitless_rollout::snapshot::{LedgerView, NodeView, RuleView, Snapshot};

use crate::clock::Micros;
use crate::server::{Change, Kind, Object, PodObject, Server, Told, TransitionObject, WorkloadObject, key};
use crate::watch::{Feed, Key};

#[derive(Default)]
pub(crate) struct Caches {
    objects: Feed<WorkloadObject>,
    pods: Feed<PodObject>,
    nodes: Feed<Arc<NodeView>>,
    transitions: Feed<TransitionObject>,
    ledgers: Feed<Arc<LedgerView>>,
    rules: Feed<Arc<RuleView>>,
    services: Feed<Arc<ServiceView>>,
    prefetches: Feed<Arc<PrefetchView>>,
}

/// Runs an expression for every feed.
macro_rules! each {
    ($self:ident, $feed:ident => $do:expr) => {{
        {
            let $feed = &$self.objects;
            $do
        }
        {
            let $feed = &$self.pods;
            $do
        }
        {
            let $feed = &$self.nodes;
            $do
        }
        {
            let $feed = &$self.transitions;
            $do
        }
        {
            let $feed = &$self.ledgers;
            $do
        }
        {
            let $feed = &$self.rules;
            $do
        }
        {
            let $feed = &$self.services;
            $do
        }
        {
            let $feed = &$self.prefetches;
            $do
        }
    }};
}

impl Caches {
    /// When the next news arrive.
    pub(crate) fn next(&self) -> Micros {
        let mut next = Micros::MAX;
        each!(self, feed => next = next.min(feed.next()));
        next
    }

    /// Whether there was any news since the last decision.
    pub(crate) fn is_changed(&self) -> bool {
        let mut changed = false;
        each!(self, feed => changed |= feed.is_changed());
        changed
    }

    /// Takes what has arrived, and lists again what broke.
    pub(crate) fn deliver(&mut self, now: Micros, server: &Server) {
        fn one<T: Clone>(feed: &mut Feed<T>, now: Micros, away: bool, list: impl FnOnce(&mut Feed<T>)) {
            match feed.wants_list(now) {
                true if away => feed.break_until(now + 200_000),
                true => list(feed),
                false => feed.deliver(now),
            }
        }
        let away = server.is_away();
        one(&mut self.objects, now, away, |feed| {
            let objects = server.objects.iter();
            feed.list(objects.map(|(key, each)| (key.clone(), number(&each.view.resource_version), each.clone())));
        });
        one(&mut self.pods, now, away, |feed| {
            feed.list(
                server.pods.iter().map(|(key, each)| (key.clone(), number(&each.view.resource_version), each.clone())),
            );
        });
        one(&mut self.nodes, now, away, |feed| {
            feed.list(server.nodes.iter().map(|(key, each)| (key.clone(), 0, each.clone())));
        });
        one(&mut self.transitions, now, away, |feed| {
            feed.list(
                server
                    .transitions
                    .iter()
                    .map(|(key, each)| (key.clone(), number(&each.view.version.resource_version), each.clone())),
            );
        });
        one(&mut self.ledgers, now, away, |feed| {
            feed.list(
                server
                    .ledgers
                    .iter()
                    .map(|(key, each)| (key.clone(), number(&each.version.resource_version), each.clone())),
            );
        });
        one(&mut self.rules, now, away, |feed| {
            feed.list(
                server
                    .rules
                    .iter()
                    .map(|(key, each)| (key.clone(), number(&each.version.resource_version), each.clone())),
            );
        });
        one(&mut self.services, now, away, |feed| {
            let views = server.services.iter().map(|(key, each)| (key.clone(), each.view.clone()));
            feed.list(views.map(|(key, view)| (key, number(&view.version.resource_version), view)));
        });
        one(&mut self.prefetches, now, away, |feed| {
            feed.list(server.prefetches.iter().map(|(key, each)| (key.clone(), server.version(), each.clone())));
        });
    }

    /// A new process lists everything.
    pub(crate) fn list(&mut self, server: &Server) {
        for kind in 0..KINDS {
            self.break_until(kind, 0);
        }
        self.deliver(server.now, server);
    }

    /// Breaks the watch of one kind.
    pub(crate) fn break_until(&mut self, kind: usize, until: Micros) {
        match kind {
            0 | 1 => {
                self.objects.break_until(until);
                self.pods.break_until(until);
            }
            2 => self.nodes.break_until(until),
            3 => self.transitions.break_until(until),
            4 => self.ledgers.break_until(until),
            5 => self.rules.break_until(until),
            6 => self.services.break_until(until),
            _ => self.prefetches.break_until(until),
        }
    }

    /// The API server tells of a change. Objects of workloads are never shown newer than pods: that a rollout is finished is
    /// concluded from all of them together, which would go wrong with pods from before.
    pub(crate) fn tell(&mut self, due: Micros, change: &Change) {
        let is_workload = matches!(&change.what, Told::Is(Object::Workload(_)) | Told::Deleted(Kind::Workload));
        let others = self.pods.last().max(self.objects.last());
        let due = if is_workload { due.max(others) } else { due };
        let (version, key) = (change.version, change.key.clone());
        match &change.what {
            Told::Is(Object::Workload(object)) => self.objects.tell(due, version, key, Some(object.clone())),
            Told::Is(Object::Pod(object)) => self.pods.tell(due, version, key, Some(object.clone())),
            Told::Is(Object::Node(object)) => self.nodes.tell(due, version, key, Some(object.clone())),
            Told::Is(Object::NodeTransition(object)) => self.transitions.tell(due, version, key, Some(object.clone())),
            Told::Is(Object::Ledger(object)) => self.ledgers.tell(due, version, key, Some(object.clone())),
            Told::Is(Object::Rule(object)) => self.rules.tell(due, version, key, Some(object.clone())),
            Told::Is(Object::Service(object)) => self.services.tell(due, version, key, Some(object.clone())),
            Told::Is(Object::Prefetch(object)) => self.prefetches.tell(due, version, key, Some(object.clone())),
            Told::Deleted(Kind::Prefetch) => self.prefetches.tell(due, version, key, None),
            Told::Deleted(Kind::Workload) => self.objects.tell(due, version, key, None),
            Told::Deleted(Kind::Pod) => self.pods.tell(due, version, key, None),
            Told::Deleted(Kind::Node) => self.nodes.tell(due, version, key, None),
            Told::Deleted(Kind::NodeTransition) => self.transitions.tell(due, version, key, None),
            Told::Deleted(Kind::Service) => self.services.tell(due, version, key, None),
        }
    }

    /// A fresh read of these workloads and of their namespaces' ledgers.
    pub(crate) fn read_workloads(&mut self, workloads: &[ObjectRef], server: &Server) {
        for workload in workloads {
            let object = server.object(&workload.group_kind.kind, &workload.namespace, &workload.name);
            if let Some(object) = object.cloned() {
                self.put(Object::Workload(object));
            }
            if let Some(ledger) = server.ledgers.get(workload.namespace.as_str()).cloned() {
                self.put(Object::Ledger(ledger));
            }
        }
    }

    /// What the API server has returned.
    pub(crate) fn put(&mut self, object: Object) {
        match object {
            Object::Workload(each) => self.objects.put(&each.key(), number(&each.view.resource_version), each),
            Object::Pod(each) => {
                let key: Key = each.view.id.uid.as_str().into();
                self.pods.put(&key, number(&each.view.resource_version), each);
            }
            // A prefetch pod that was made shows with the watch.
            Object::Node(_) | Object::Prefetch(_) => {}
            Object::NodeTransition(each) => {
                let key: Key = each.view.node.as_str().into();
                self.transitions.put(&key, number(&each.view.version.resource_version), each);
            }
            Object::Ledger(each) => {
                let key: Key = each.namespace.as_str().into();
                self.ledgers.put(&key, number(&each.version.resource_version), each);
            }
            Object::Rule(each) => {
                self.rules.put(&key(&each.namespace, &each.name), number(&each.version.resource_version), each.clone());
            }
            Object::Service(each) => {
                let at = key(&each.namespace, &each.name);
                self.services.put(&at, number(&each.version.resource_version), each.clone());
            }
        }
    }

    /// Brings the snapshot up to what is in the caches.
    pub(crate) fn fill(&mut self, snapshot: &mut Snapshot) {
        if self.objects.take_changed() {
            snapshot.objects = self.objects.values().map(|each| each.view.clone()).collect();
        }
        if self.pods.take_changed() {
            self.fill_pods(snapshot);
        }
        if self.nodes.take_changed() {
            snapshot.nodes = self.nodes.values().map(|node| (node.name.clone(), node.clone())).collect();
        }
        if self.transitions.take_changed() {
            let each = self.transitions.values().map(|each| (each.view.node.clone(), each.view.clone()));
            snapshot.node_transitions = each.collect();
        }
        if self.ledgers.take_changed() {
            snapshot.ledgers = self.ledgers.values().map(|each| (each.namespace.clone(), each.clone())).collect();
        }
        if self.rules.take_changed() {
            snapshot.rules = self.rules.values().cloned().collect();
        }
        if self.services.take_changed() {
            snapshot.services = self.services.values().cloned().collect();
        }
        if self.prefetches.take_changed() {
            snapshot.prefetches = self.prefetches.values().cloned().collect();
        }
    }

    /// All pods again.
    pub(crate) fn fill_pods(&self, snapshot: &mut Snapshot) {
        let pods = self.pods.values().map(|pod| pod.view.clone()).collect();
        *snapshot = std::mem::take(snapshot).with_pods(pods);
    }

    /// Whether a pod, a ledger, a NodeTransition or a Service is not as the API server has it.
    pub(crate) fn are_old(&self, server: &Server) -> bool {
        self.pods.len() != server.pods.len()
            || server.pods.iter().any(|(key, pod)| self.pods.version(key) != Some(number(&pod.view.resource_version)))
            || server
                .ledgers
                .iter()
                .any(|(key, each)| self.ledgers.version(key) != Some(number(&each.version.resource_version)))
            || server
                .transitions
                .iter()
                .any(|(key, each)| self.transitions.version(key) != Some(number(&each.view.version.resource_version)))
            || server
                .services
                .iter()
                .any(|(key, each)| self.services.version(key) != Some(number(&each.view.version.resource_version)))
    }
}

/// How many kinds there are.
pub(crate) const KINDS: usize = 8;

fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

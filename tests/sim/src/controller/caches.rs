//! What a controller watches: a feed for each row of the table of inputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::ObjectRef;
use hitless_rollout::snapshot::Snapshot;
use hitless_store::inputs::rows::Pods;
use hitless_store::inputs::{Holder, Input, Inputs, Make, Visit, each};

use crate::clock::Micros;
use crate::server::{Change, Kind, Object, Server, Told, WorkloadObject, key};
use crate::watch::{Feed, Key};

pub(crate) struct Caches {
    objects: Feed<WorkloadObject>,
    inputs: Inputs<Feeds>,
}

/// Keeps a feed for each row.
struct Feeds;

impl Holder for Feeds {
    type Of<R: Input> = Watched<R::View>;
}

/// The objects of a row, with their versions.
type List<V> = Vec<(Key, u64, Arc<V>)>;

struct Watched<V> {
    feed: Feed<Arc<V>>,
    /// What the API server has; absent where rounds see everything as it is, or there is nothing.
    list: Option<fn(&Server) -> List<V>>,
}

impl<V> Watched<V> {
    fn new(list: fn(&Server) -> List<V>) -> Self {
        Self { feed: Feed::default(), list: Some(list) }
    }
}

/// Watches nothing.
struct Nothing;

impl Make<Feeds> for Nothing {
    fn make<R: Input>(&mut self) -> Watched<R::View> {
        Watched { feed: Feed::default(), list: None }
    }
}

impl Default for Caches {
    fn default() -> Self {
        let inputs = Inputs::<Feeds> {
            pods: Watched::new(|server| list(&server.pods, |pod| (&pod.view, &pod.view.resource_version))),
            nodes: Watched::new(|server| list(&server.nodes, |node| (node, ""))),
            node_transitions: Watched::new(|server| {
                list(&server.transitions, |each| (&each.view, &each.view.version.resource_version))
            }),
            ledgers: Watched::new(|server| list(&server.ledgers, |each| (each, &each.version.resource_version))),
            rules: Watched::new(|server| list(&server.rules, |each| (each, &each.version.resource_version))),
            services: Watched::new(|server| {
                list(&server.services, |each| (&each.view, &each.view.version.resource_version))
            }),
            prefetches: Watched::new(|server| {
                server.prefetches.iter().map(|(key, each)| (key.clone(), server.version(), each.clone())).collect()
            }),
            ..Inputs::new(&mut Nothing)
        };
        Self { objects: Feed::default(), inputs }
    }
}

impl Caches {
    /// When the next news arrive.
    pub(crate) fn next(&self) -> Micros {
        struct Next<'a>(&'a Inputs<Feeds>, Micros);
        impl Visit for Next<'_> {
            fn visit<R: Input>(&mut self) {
                self.1 = self.1.min(R::of(self.0).feed.next());
            }
        }
        let mut next = Next(&self.inputs, self.objects.next());
        each(&mut next);
        next.1
    }

    /// Whether there was any news since the last decision.
    pub(crate) fn is_changed(&self) -> bool {
        struct Changed<'a>(&'a Inputs<Feeds>, bool);
        impl Visit for Changed<'_> {
            fn visit<R: Input>(&mut self) {
                let watched = R::of(self.0);
                self.1 |= watched.list.is_some() && watched.feed.is_changed();
            }
        }
        let mut changed = Changed(&self.inputs, self.objects.is_changed());
        each(&mut changed);
        changed.1
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
        struct Deliver<'a>(&'a mut Inputs<Feeds>, Micros, &'a Server);
        impl Visit for Deliver<'_> {
            fn visit<R: Input>(&mut self) {
                let (watched, server) = (R::of_mut(self.0), self.2);
                if let Some(list) = watched.list {
                    one(&mut watched.feed, self.1, server.is_away(), |feed| feed.list(list(server).into_iter()));
                }
            }
        }
        one(&mut self.objects, now, server.is_away(), |feed| {
            let objects = server.objects.iter();
            feed.list(objects.map(|(key, each)| (key.clone(), number(&each.view.resource_version), each.clone())));
        });
        each(&mut Deliver(&mut self.inputs, now, server));
    }

    /// A new process lists everything.
    pub(crate) fn list(&mut self, server: &Server) {
        for kind in 0..self.kinds() {
            self.break_until(kind, 0);
        }
        self.deliver(server.now, server);
    }

    /// How many kinds there are: workloads, and the rows that are listed.
    pub(crate) fn kinds(&self) -> usize {
        struct Listed<'a>(&'a Inputs<Feeds>, usize);
        impl Visit for Listed<'_> {
            fn visit<R: Input>(&mut self) {
                self.1 += usize::from(R::of(self.0).list.is_some());
            }
        }
        let mut listed = Listed(&self.inputs, 1);
        each(&mut listed);
        listed.1
    }

    /// Breaks the watch of one kind: the first is that of workloads, the others are those of the rows. Those of workloads and pods break
    /// together.
    pub(crate) fn break_until(&mut self, kind: usize, until: Micros) {
        struct Break<'a> {
            inputs: &'a mut Inputs<Feeds>,
            kind: usize,
            at: usize,
            until: Micros,
        }
        impl Visit for Break<'_> {
            fn visit<R: Input>(&mut self) {
                let watched = R::of_mut(self.inputs);
                self.at += usize::from(watched.list.is_some());
                if watched.list.is_some() && self.at == self.kind {
                    watched.feed.break_until(self.until);
                }
            }
        }
        if kind <= 1 {
            self.objects.break_until(until);
        }
        each(&mut Break { inputs: &mut self.inputs, kind: kind.max(1), at: 0, until });
    }

    /// The API server tells of a change. Objects of workloads are never shown newer than pods: that a rollout is finished is
    /// concluded from all of them together, which would go wrong with pods from before.
    pub(crate) fn tell(&mut self, due: Micros, change: &Change) {
        let is_workload = matches!(&change.what, Told::Is(Object::Workload(_)) | Told::Deleted(Kind::Workload));
        let others = self.inputs.pods.feed.last().max(self.objects.last());
        let due = if is_workload { due.max(others) } else { due };
        let (version, key, inputs) = (change.version, change.key.clone(), &mut self.inputs);
        match &change.what {
            Told::Is(Object::Workload(object)) => self.objects.tell(due, version, key, Some(object.clone())),
            Told::Is(Object::Pod(object)) => inputs.pods.feed.tell(due, version, key, Some(object.view.clone())),
            Told::Is(Object::Node(object)) => inputs.nodes.feed.tell(due, version, key, Some(object.clone())),
            Told::Is(Object::NodeTransition(object)) => {
                inputs.node_transitions.feed.tell(due, version, key, Some(object.view.clone()));
            }
            Told::Is(Object::Ledger(object)) => inputs.ledgers.feed.tell(due, version, key, Some(object.clone())),
            Told::Is(Object::Rule(object)) => inputs.rules.feed.tell(due, version, key, Some(object.clone())),
            Told::Is(Object::Service(object)) => inputs.services.feed.tell(due, version, key, Some(object.clone())),
            Told::Is(Object::Prefetch(object)) => inputs.prefetches.feed.tell(due, version, key, Some(object.clone())),
            Told::Deleted(Kind::Prefetch) => inputs.prefetches.feed.tell(due, version, key, None),
            Told::Deleted(Kind::Workload) => self.objects.tell(due, version, key, None),
            Told::Deleted(Kind::Pod) => inputs.pods.feed.tell(due, version, key, None),
            Told::Deleted(Kind::Node) => inputs.nodes.feed.tell(due, version, key, None),
            Told::Deleted(Kind::NodeTransition) => inputs.node_transitions.feed.tell(due, version, key, None),
            Told::Deleted(Kind::Service) => inputs.services.feed.tell(due, version, key, None),
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
                self.inputs.pods.feed.put(&key, number(&each.view.resource_version), each.view);
            }
            // A prefetch pod that was made shows with the watch.
            Object::Node(_) | Object::Prefetch(_) => {}
            Object::NodeTransition(each) => {
                let key: Key = each.view.node.as_str().into();
                self.inputs.node_transitions.feed.put(&key, number(&each.view.version.resource_version), each.view);
            }
            Object::Ledger(each) => {
                let key: Key = each.namespace.as_str().into();
                self.inputs.ledgers.feed.put(&key, number(&each.version.resource_version), each);
            }
            Object::Rule(each) => {
                self.inputs.rules.feed.put(
                    &key(&each.namespace, &each.name),
                    number(&each.version.resource_version),
                    each.clone(),
                );
            }
            Object::Service(each) => {
                let at = key(&each.namespace, &each.name);
                self.inputs.services.feed.put(&at, number(&each.version.resource_version), each.clone());
            }
        }
    }

    /// Brings the snapshot up to what is in the caches.
    pub(crate) fn fill(&mut self, snapshot: &mut Snapshot) {
        struct Fill<'a>(&'a mut Inputs<Feeds>, &'a mut Snapshot);
        impl Visit for Fill<'_> {
            fn visit<R: Input>(&mut self) {
                let watched = R::of_mut(self.0);
                if watched.list.is_some() && watched.feed.take_changed() {
                    R::put(self.1, watched.feed.values().cloned().collect());
                }
            }
        }
        if self.objects.take_changed() {
            snapshot.objects = self.objects.values().map(|each| each.view.clone()).collect();
        }
        each(&mut Fill(&mut self.inputs, snapshot));
    }

    /// All pods again.
    pub(crate) fn fill_pods(&self, snapshot: &mut Snapshot) {
        Pods::put(snapshot, self.inputs.pods.feed.values().cloned().collect());
    }

    /// Whether a pod, a ledger, a NodeTransition or a Service is not as the API server has it.
    pub(crate) fn are_old(&self, server: &Server) -> bool {
        let Inputs { pods, ledgers, node_transitions: transitions, services, .. } = &self.inputs;
        pods.feed.len() != server.pods.len()
            || server.pods.iter().any(|(key, pod)| pods.feed.version(key) != Some(number(&pod.view.resource_version)))
            || server
                .ledgers
                .iter()
                .any(|(key, each)| ledgers.feed.version(key) != Some(number(&each.version.resource_version)))
            || server
                .transitions
                .iter()
                .any(|(key, each)| transitions.feed.version(key) != Some(number(&each.view.version.resource_version)))
            || server
                .services
                .iter()
                .any(|(key, each)| services.feed.version(key) != Some(number(&each.view.version.resource_version)))
    }
}

/// Objects with their versions.
fn list<T, V>(objects: &BTreeMap<Key, T>, view: impl Fn(&T) -> (&Arc<V>, &str)) -> List<V> {
    let each = |(key, object)| {
        let (view, version) = view(object);
        (Key::clone(key), number(version), Arc::clone(view))
    };
    objects.iter().map(each).collect()
}

fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

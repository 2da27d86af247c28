//! The cluster as it changes.

use std::fmt::Debug;
use std::sync::Arc;

use hitless_api::names;
use hitless_api::pod::PodView;
use hitless_rollout::snapshot::Snapshot as Cluster;
use hitless_runtime::readiness::Readiness;
use hitless_runtime::watch::{self, Cache, Listing, Selection};
use hitless_store::Empty;
use hitless_store::inputs::rows::Pods;
use hitless_store::inputs::{Holder, Input, Inputs, Make, Part, Reach, Visit, each, namespaced};
use hitless_workloads::registry;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DynamicObject, ListParams};
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{PAGE, Scope, agents_pods, complete, only_controller, our_events, workloads};
use crate::snapshot::{AGENTS, CONTROLLER, ControllerView, ELSEWHERE, EVENTS, EventView, Snapshot, WorkloadObject};

const LISTING: Listing = Listing::Paged(PAGE);

/// Watches of everything that a first [`super::read`] could read; nodes and policies stay as they were then.
pub(crate) struct Live {
    changed: Arc<Notify>,
    reads_all: bool,
    first: Snapshot,
    objects: Vec<Cache<DynamicObject, WorkloadObject>>,
    inputs: Inputs<Watched>,
    agents: Cache<Pod, PodView>,
    controller: Cache<Deployment, ControllerView>,
    events: Cache<Event, EventView>,
    readiness: Readiness,
    /// Ends the watches when it is dropped.
    tasks: JoinSet<()>,
}

/// Keeps two caches for each row: one of what is in scope, and one of what counts of the system namespace besides.
struct Watched;

impl Holder for Watched {
    type Of<R: Input> = [Cache<R::Object, R::View>; 2];
}

impl Make<Watched> for Empty<'_> {
    fn make<R: Input>(&mut self) -> [Cache<R::Object, R::View>; 2] {
        [self.cache::<R>(), self.cache::<R>()]
    }
}

impl Live {
    /// Watches everything that `first` could read: a watch does not tell of missing rights, it tries again.
    pub(crate) fn new(client: &Client, scope: &Scope, first: Snapshot) -> Self {
        let changed = Arc::new(Notify::new());
        let counts_all = first.counts_cluster_wide() && !first.lacks(Some(ELSEWHERE));
        let counted = if counts_all { Scope::All } else { scope.clone() };
        let metrics = watch::Metrics::default();
        let mut empty = Empty { wake: &changed, metrics: &metrics };
        let mut live = Self {
            reads_all: matches!(counted, Scope::All),
            first,
            objects: registry::resources()
                .map(|(_, resource)| {
                    let view = move |object| WorkloadObject::listed(resource, object);
                    Cache::new(resource.plural, view, changed.clone(), metrics.clone())
                })
                .collect(),
            agents: empty.cache::<Pods>(),
            controller: Cache::new("Deployment", ControllerView::of, changed.clone(), metrics.clone()),
            events: Cache::new("Event", EventView::of, changed.clone(), metrics.clone()),
            inputs: Inputs::new(&mut empty),
            changed: changed.clone(),
            readiness: Readiness::default(),
            tasks: JoinSet::new(),
        };
        for ((_, resource), cache) in registry::resources().zip(live.objects.clone()) {
            if !live.first.unlisted.contains(&resource.plural) {
                live.watch(None, workloads(client, resource, scope), Selection::all(LISTING), cache);
            }
        }
        each(&mut Watching { live: &mut live, client, scope, counted });
        let (system, namespace) = (Some(names::system_namespace()), scope.namespace());
        live.watch(Some(AGENTS), Pods::api(client, system), selected(agents_pods()), live.agents.clone());
        live.watch(Some(CONTROLLER), namespaced(client, system), selected(only_controller()), live.controller.clone());
        let events = namespaced(client, namespace.as_deref());
        live.watch(Some(EVENTS), events, selected(our_events()), live.events.clone());
        live
    }

    fn watch<K, T>(
        &mut self,
        part: Option<Part>,
        api: Api<DeserializeGuard<K>>,
        selection: Selection,
        cache: Cache<K, T>,
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
        K::DynamicType: Clone + Send + Sync,
        T: PartialEq + Send + Sync + 'static,
    {
        if self.first.lacks(part) {
            return;
        }
        let guard = self.readiness.guard(format!("{} {selection:?}", api.resource_url()));
        self.tasks.spawn(async move {
            let Ok(()) = watch::run(api, selection, cache, guard, CancellationToken::new()).await;
        });
    }

    /// Waits for a change; several that come close together may be one.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The present picture, once every kind has been listed.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        if !self.readiness.missing().is_empty() {
            return None;
        }
        let nodes = self.first.cluster.nodes.clone();
        let mut filling = Filling { inputs: &self.inputs, cluster: Cluster { nodes, ..Cluster::default() } };
        each(&mut filling);
        let snapshot = Snapshot {
            cluster: filling.cluster,
            unlisted: self.first.unlisted.clone(),
            namespace: self.first.namespace.clone(),
            events: self.events.values(),
            managers: self.first.managers.clone(),
            guards: self.first.guards.clone(),
            placement: self.first.placement.clone(),
            unread: self.first.unread.clone(),
            ..Snapshot::default()
        };
        let controllers = self.controller.values();
        let can_read = !self.first.lacks(Some(CONTROLLER));
        let snapshot = snapshot.with_controller(can_read.then_some(controllers.as_slice()));
        let mut snapshot = snapshot.with_objects(self.objects.iter().flat_map(Cache::values).collect());
        complete(&mut snapshot, &self.agents.values(), self.reads_all);
        Some(snapshot)
    }
}

fn selected(list: ListParams) -> Selection {
    Selection { labels: list.label_selector, fields: list.field_selector, listing: LISTING }
}

/// Watches each row.
struct Watching<'a> {
    live: &'a mut Live,
    client: &'a Client,
    scope: &'a Scope,
    /// Whose pods and places count, which may be more than those that are looked at.
    counted: Scope,
}

impl Visit for Watching<'_> {
    fn visit<R: Input>(&mut self) {
        let scope = match R::REACH {
            Reach::Shown => self.scope,
            Reach::Counted => &self.counted,
            Reach::Apart => return,
        };
        let [own, besides] = R::of(&self.live.inputs).clone();
        let api = R::api(self.client, scope.namespace().as_deref());
        self.live.watch(R::PART, api, R::SELECT.watch(LISTING), own);
        if let Some(system) = R::SYSTEM.filter(|_| self.scope.besides_system().is_some()) {
            let api = R::api(self.client, Some(names::system_namespace()));
            self.live.watch(Some(system.part), api, system.select.watch(LISTING), besides);
        }
    }
}

/// Puts each row into a snapshot.
struct Filling<'a> {
    inputs: &'a Inputs<Watched>,
    cluster: Cluster,
}

impl Visit for Filling<'_> {
    fn visit<R: Input>(&mut self) {
        if R::REACH == Reach::Apart {
            return;
        }
        let [own, besides] = R::of(self.inputs);
        let mut views = own.values();
        if let Some(system) = R::SYSTEM {
            views.extend(besides.values().into_iter().filter(|view| (system.counts)(view)));
        }
        R::put(&mut self.cluster, views);
    }
}

//! The cluster as it changes.

use std::fmt::Debug;
use std::sync::Arc;

use hitless_api::names::{OTHER_PODS, PREFETCH_PODS};
use hitless_api::pod::PodView;
use hitless_api::{
    DrainPolicy, Lenient, NodeTransition, PodTransitionRule, TrafficProvider, TransitionBudget, TransitionLedger,
};
use hitless_gate::{Budget, DisruptionBudget};
use hitless_rollout::mode::{PolicyView, ServiceView};
use hitless_rollout::pools::ProviderView;
use hitless_rollout::prefetch::PrefetchView;
use hitless_rollout::snapshot::{LedgerView, NodeTransitionView, RuleView, Snapshot as Cluster};
use hitless_runtime::readiness::Readiness;
use hitless_runtime::watch::{self, Cache, Listing, Selection};
use hitless_workloads::registry;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::DynamicObject;
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    Apis, PAGE, Scope, agents_label, by, complete, only_controller, only_default, our_events, pod, prefetch, view,
};
use crate::snapshot::{ControllerView, EventView, Part, Snapshot, WorkloadObject};

/// Watches of everything that a first [`super::read`] could read; nodes and policies stay as they were then.
pub(crate) struct Live {
    changed: Arc<Notify>,
    reads_all: bool,
    first: Snapshot,
    objects: Vec<Cache<DynamicObject, WorkloadObject>>,
    pods: Cache<Pod, PodView>,
    prefetches: Cache<Pod, PrefetchView>,
    transitions: Cache<NodeTransition, NodeTransitionView>,
    ledgers: Cache<TransitionLedger, LedgerView>,
    rules: Cache<Lenient<PodTransitionRule>, RuleView>,
    budgets: Cache<Lenient<TransitionBudget>, Budget>,
    cluster_budgets: Cache<Lenient<TransitionBudget>, Budget>,
    disruption_budgets: Cache<PodDisruptionBudget, DisruptionBudget>,
    services: Cache<Service, ServiceView>,
    drain_policies: Cache<Lenient<DrainPolicy>, PolicyView>,
    providers: Cache<TrafficProvider, ProviderView>,
    default_drain_policy: Cache<Lenient<DrainPolicy>, PolicyView>,
    agents: Cache<Pod, PodView>,
    controller: Cache<Deployment, ControllerView>,
    events: Cache<Event, EventView>,
    readiness: Readiness,
    /// Ends the watches when it is dropped.
    tasks: JoinSet<()>,
}

fn cache<K, T>(
    kind: &'static str,
    view: impl Fn(K) -> Option<T> + Send + Sync + 'static,
    changed: &Arc<Notify>,
) -> Cache<K, T> {
    Cache::new(kind, view, changed.clone(), watch::Metrics::default())
}

impl Live {
    /// Watches everything that `first` could read: a watch does not tell of missing rights, it tries again.
    pub(crate) fn new(client: &Client, scope: &Scope, first: Snapshot) -> Self {
        let changed = Arc::new(Notify::new());
        let reads_all = first.counts_cluster_wide() && !first.unread.contains_key(&Part::Elsewhere);
        let counted = if reads_all { Scope::All } else { scope.clone() };
        let reads_all = matches!(counted, Scope::All);
        let mut live = Self {
            reads_all,
            first,
            objects: registry::resources()
                .map(|(_, resource)| {
                    cache(resource.plural, |object| WorkloadObject::listed(resource, object), &changed)
                })
                .collect(),
            pods: cache("Pod", pod, &changed),
            prefetches: cache("prefetch Pod", prefetch, &changed),
            transitions: cache("NodeTransition", view, &changed),
            ledgers: cache("TransitionLedger", LedgerView::of, &changed),
            rules: cache("PodTransitionRule", view, &changed),
            budgets: cache("TransitionBudget", view, &changed),
            cluster_budgets: cache("TransitionBudget", view, &changed),
            disruption_budgets: cache("PodDisruptionBudget", view, &changed),
            services: cache("Service", |service: Service| Some((&service).into()), &changed),
            drain_policies: cache("DrainPolicy", view, &changed),
            providers: cache("TrafficProvider", view, &changed),
            default_drain_policy: cache("DrainPolicy", view, &changed),
            agents: cache("Pod", pod, &changed),
            controller: cache("Deployment", ControllerView::of, &changed),
            events: cache("Event", EventView::of, &changed),
            changed,
            readiness: Readiness::default(),
            tasks: JoinSet::new(),
        };
        let apis = Apis::new(client, scope, &counted);
        let all = || Selection::all(Listing::Paged(PAGE));
        for ((resource, api), cache) in apis.objects.into_iter().zip(live.objects.clone()) {
            if !live.first.unlisted.contains(&resource.plural) {
                live.watch(None, api, all(), cache);
            }
        }
        let pods = Selection::labels(OTHER_PODS, Listing::Paged(PAGE));
        live.watch(None, apis.pods.clone(), pods, live.pods.clone());
        live.watch(None, apis.pods, Selection::labels(PREFETCH_PODS, Listing::Paged(PAGE)), live.prefetches.clone());
        live.watch(Some(Part::Transitions), apis.transitions, all(), live.transitions.clone());
        live.watch(Some(Part::Ledgers), apis.ledgers, all(), live.ledgers.clone());
        live.watch(Some(Part::Rules), apis.rules, all(), live.rules.clone());
        live.watch(Some(Part::Budgets), apis.budgets, all(), live.budgets.clone());
        if let Some(api) = apis.cluster_budgets {
            live.watch(Some(Part::ClusterBudgets), api, all(), live.cluster_budgets.clone());
        }
        live.watch(Some(Part::DisruptionBudgets), apis.disruption_budgets, all(), live.disruption_budgets.clone());
        live.watch(Some(Part::Services), apis.services, all(), live.services.clone());
        live.watch(Some(Part::DrainPolicies), apis.drain_policies, all(), live.drain_policies.clone());
        live.watch(Some(Part::TrafficProviders), apis.providers, all(), live.providers.clone());
        if let Some(api) = apis.default_drain_policy {
            let default = Selection { fields: only_default().field_selector, ..all() };
            live.watch(Some(Part::DefaultDrainPolicy), api, default, live.default_drain_policy.clone());
        }
        let agents = Selection::labels(agents_label(), Listing::Paged(PAGE));
        live.watch(Some(Part::Agents), apis.agents, agents, live.agents.clone());
        let controller = Selection { fields: only_controller().field_selector, ..all() };
        live.watch(Some(Part::Controller), apis.controller, controller, live.controller.clone());
        let events = Selection { fields: our_events().field_selector, ..all() };
        live.watch(Some(Part::Events), apis.events, events, live.events.clone());
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
        if part.is_some_and(|part| self.first.unread.contains_key(&part)) {
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
        let mut budgets = self.budgets.values();
        budgets.extend(self.cluster_budgets.values().into_iter().filter(|budget| budget.is_cluster_wide()));
        let mut drain_policies = self.drain_policies.values();
        drain_policies.extend(self.default_drain_policy.values());
        let cluster = Cluster {
            pods: self.pods.values(),
            prefetches: self.prefetches.values(),
            node_transitions: by(Some(self.transitions.values()), |each| &each.node),
            ledgers: by(Some(self.ledgers.values()), |each| &each.namespace),
            rules: self.rules.values(),
            budgets,
            disruption_budgets: self.disruption_budgets.values(),
            services: self.services.values(),
            drain_policies,
            providers: self.providers.values(),
            nodes: self.first.cluster.nodes.clone(),
            ..Cluster::default()
        };
        let snapshot = Snapshot {
            cluster,
            unlisted: self.first.unlisted.clone(),
            namespace: self.first.namespace.clone(),
            events: self.events.values(),
            kuperator: self.first.kuperator.clone(),
            guards: self.first.guards.clone(),
            placement: self.first.placement.clone(),
            unread: self.first.unread.clone(),
            ..Snapshot::default()
        };
        let controllers = self.controller.values();
        let can_read = !self.first.unread.contains_key(&Part::Controller);
        let snapshot = snapshot.with_controller(can_read.then_some(controllers.as_slice()));
        let mut snapshot = snapshot.with_objects(self.objects.iter().flat_map(Cache::values).collect());
        complete(&mut snapshot, &self.agents.values(), self.reads_all);
        Some(snapshot)
    }
}

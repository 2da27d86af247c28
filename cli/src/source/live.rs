//! The cluster as it changes.

use std::fmt::Debug;
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_api::{NodeTransition, PodTransitionRule, TransitionBudget, TransitionLedger, TransitionLedgerSpec};
use hitless_gate::{Budget, DisruptionBudget};
use hitless_runtime::readiness::Readiness;
use hitless_runtime::watch::{self, Cache, Listing, Selection};
use hitless_workloads::{DeploymentView, ReplicaSetView};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::DynamicObject;
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Apis, PAGE, Scope, agents_label, divide, our_events};
use crate::snapshot::{EventView, Part, RuleView, Seen, Snapshot};

/// Watches of everything that a first [`super::read`] could read; nodes, settings, Services and DrainPolicies stay as they were then.
pub(crate) struct Live {
    changed: Arc<Notify>,
    scope: Scope,
    first: Snapshot,
    deployments: Cache<DynamicObject, DeploymentView>,
    replica_sets: Cache<DynamicObject, ReplicaSetView>,
    pods: Cache<Pod, PodView>,
    transitions: Cache<NodeTransition, NodeTransition>,
    ledgers: Cache<TransitionLedger, TransitionLedgerSpec>,
    rules: Cache<PodTransitionRule, RuleView>,
    budgets: Cache<TransitionBudget, Budget>,
    cluster_budgets: Cache<TransitionBudget, Budget>,
    disruption_budgets: Cache<PodDisruptionBudget, DisruptionBudget>,
    agents: Cache<Pod, PodView>,
    events: Cache<Event, EventView>,
    readiness: Readiness,
    /// Ends the watches when it is dropped.
    tasks: JoinSet<()>,
}

fn cache<K, T: Seen<Object = K> + PartialEq>(kind: &'static str, changed: &Arc<Notify>) -> Cache<K, T> {
    Cache::new(kind, Seen::seen, changed.clone(), watch::Metrics::default())
}

impl Live {
    /// Watches everything that `first` could read: a watch does not tell of missing rights, it tries again.
    pub(crate) fn new(client: &Client, scope: &Scope, first: Snapshot) -> Self {
        let changed = Arc::new(Notify::new());
        let reads_all = first.counts_cluster_wide() && !first.unread.contains_key(&Part::Elsewhere);
        let counted = if reads_all { Scope::All } else { scope.clone() };
        let mut live = Self {
            scope: scope.clone(),
            first,
            deployments: cache("Deployment", &changed),
            replica_sets: cache("ReplicaSet", &changed),
            pods: cache("Pod", &changed),
            transitions: cache("NodeTransition", &changed),
            ledgers: cache("TransitionLedger", &changed),
            rules: cache("PodTransitionRule", &changed),
            budgets: cache("TransitionBudget", &changed),
            cluster_budgets: cache("TransitionBudget", &changed),
            disruption_budgets: cache("PodDisruptionBudget", &changed),
            agents: cache("Pod", &changed),
            events: cache("Event", &changed),
            changed,
            readiness: Readiness::default(),
            tasks: JoinSet::new(),
        };
        let apis = Apis::new(client, scope, &counted);
        let all = || Selection::all(Listing::Paged(PAGE));
        live.watch(None, apis.deployments, all(), live.deployments.clone());
        live.watch(None, apis.replica_sets, all(), live.replica_sets.clone());
        live.watch(None, apis.pods, all(), live.pods.clone());
        live.watch(Some(Part::Transitions), apis.transitions, all(), live.transitions.clone());
        live.watch(Some(Part::Ledgers), apis.ledgers, all(), live.ledgers.clone());
        live.watch(Some(Part::Rules), apis.rules, all(), live.rules.clone());
        live.watch(Some(Part::Budgets), apis.budgets, all(), live.budgets.clone());
        if let Some(api) = apis.cluster_budgets {
            live.watch(Some(Part::ClusterBudgets), api, all(), live.cluster_budgets.clone());
        }
        live.watch(Some(Part::DisruptionBudgets), apis.disruption_budgets, all(), live.disruption_budgets.clone());
        let agents = Selection::labels(agents_label(), Listing::Paged(PAGE));
        live.watch(Some(Part::Agents), apis.agents, agents, live.agents.clone());
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
        let (pods, elsewhere) = divide(self.pods.values(), &self.scope);
        let mut budgets = self.budgets.values();
        budgets.extend(self.cluster_budgets.values().into_iter().filter(|budget| budget.is_cluster_wide()));
        Some(Snapshot {
            deployments: self.deployments.values(),
            replica_sets: self.replica_sets.values(),
            pods,
            elsewhere,
            transitions: self.transitions.values(),
            ledgers: self.ledgers.values(),
            rules: self.rules.values(),
            budgets,
            disruption_budgets: self.disruption_budgets.values(),
            services: self.first.services.clone(),
            drain_policies: self.first.drain_policies.clone(),
            events: self.events.values(),
            nodes: self.first.nodes.clone(),
            agents: self.first.agents.is_some().then(|| self.agents.values()),
            settings: self.first.settings.clone(),
            unread: self.first.unread.clone(),
        })
    }
}

//! Names what is read: the interfaces of all kinds, and the selections of objects.

use hitless_api::drain_policy::DEFAULT;
use hitless_api::{
    DrainPolicy, Lenient, NodeTransition, PodTransitionRule, TrafficProvider, TransitionBudget, TransitionLedger, names,
};
use hitless_store::api_resource;
use hitless_workloads::{kind, registry};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DynamicObject, ListParams};
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};

use super::Scope;

/// The interfaces of all kinds in scope.
pub(super) struct Apis {
    pub(super) objects: Vec<(&'static kind::Resource, Api<DeserializeGuard<DynamicObject>>)>,
    pub(super) pods: Api<DeserializeGuard<Pod>>,
    pub(super) transitions: Api<DeserializeGuard<NodeTransition>>,
    pub(super) ledgers: Api<DeserializeGuard<TransitionLedger>>,
    pub(super) rules: Api<DeserializeGuard<Lenient<PodTransitionRule>>>,
    pub(super) budgets: Api<DeserializeGuard<Lenient<TransitionBudget>>>,
    pub(super) cluster_budgets: Option<Api<DeserializeGuard<Lenient<TransitionBudget>>>>,
    pub(super) disruption_budgets: Api<DeserializeGuard<PodDisruptionBudget>>,
    pub(super) services: Api<DeserializeGuard<Service>>,
    pub(super) drain_policies: Api<DeserializeGuard<Lenient<DrainPolicy>>>,
    pub(super) default_drain_policy: Option<Api<DeserializeGuard<Lenient<DrainPolicy>>>>,
    pub(super) providers: Api<DeserializeGuard<TrafficProvider>>,
    pub(super) agents: Api<DeserializeGuard<Pod>>,
    pub(super) controller: Api<DeserializeGuard<Deployment>>,
    pub(super) events: Api<DeserializeGuard<Event>>,
}

impl Apis {
    /// `counted`: whose pods and places count, which may be more than those that are looked at.
    pub(super) fn new(client: &Client, scope: &Scope, counted: &Scope) -> Self {
        Self {
            objects: registry::resources().map(|(_, resource)| (resource, untyped(client, resource, scope))).collect(),
            pods: typed(client, counted),
            transitions: Api::all(client.clone()),
            ledgers: typed(client, counted),
            rules: typed(client, scope),
            budgets: typed(client, scope),
            cluster_budgets: scope.besides_system().map(|system| typed(client, &system)),
            disruption_budgets: typed(client, scope),
            services: typed(client, scope),
            drain_policies: typed(client, scope),
            default_drain_policy: scope.besides_system().map(|system| typed(client, &system)),
            providers: Api::all(client.clone()),
            agents: typed(client, &Scope::system()),
            controller: typed(client, &Scope::system()),
            events: typed(client, scope),
        }
    }
}

fn typed<K>(client: &Client, scope: &Scope) -> Api<DeserializeGuard<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match scope {
        Scope::All => Api::all(client.clone()),
        Scope::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
    }
}

fn untyped(client: &Client, resource: &kind::Resource, scope: &Scope) -> Api<DeserializeGuard<DynamicObject>> {
    let kind = api_resource(resource);
    match scope {
        Scope::All => Api::all_with(client.clone(), &kind),
        Scope::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
    }
}

pub(super) fn our_events() -> ListParams {
    ListParams::default().fields(&format!("reportingController={}", names::CONTROLLER))
}

pub(super) fn only_controller() -> ListParams {
    ListParams::default().fields(&format!("metadata.name={}", names::CONTROLLER))
}

/// By name, so that a role that names it is enough.
pub(super) fn only_default() -> ListParams {
    ListParams::default().fields(&format!("metadata.name={DEFAULT}"))
}

pub(super) fn no_prefetches() -> ListParams {
    ListParams::default().labels(names::OTHER_PODS)
}

pub(super) fn agents_label() -> String {
    format!("{}={}", names::APP_LABEL, names::AGENT)
}

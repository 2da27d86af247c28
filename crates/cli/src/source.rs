//! Reads the cluster: once, with an error for everything that can't be read, or live.

use std::fmt::Debug;
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_api::{NodeTransition, PodTransitionRule, TransitionLedger, TransitionLedgerSpec, names};
use hitless_gate::RuleSet;
use hitless_runtime::readiness::Readiness;
use hitless_runtime::watch::{self, Cache, Listing, Selection};
use hitless_runtime::write::WriteError;
use hitless_workloads::{DeploymentView, ReplicaSetView};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::snapshot::{EventView, Seen, Snapshot};

const PAGE: u32 = 500;

/// Which namespaces are looked at.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    All,
    Namespace(String),
}

/// The interfaces of all kinds in scope.
struct Apis {
    deployments: Api<DeserializeGuard<DynamicObject>>,
    replica_sets: Api<DeserializeGuard<DynamicObject>>,
    pods: Api<DeserializeGuard<Pod>>,
    nodes: Api<DeserializeGuard<NodeTransition>>,
    ledgers: Api<DeserializeGuard<TransitionLedger>>,
    rules: Api<DeserializeGuard<PodTransitionRule>>,
    events: Api<DeserializeGuard<Event>>,
}

impl Apis {
    fn new(client: &Client, scope: &Scope) -> Self {
        Self {
            deployments: raw::<Deployment>(client, scope),
            replica_sets: raw::<ReplicaSet>(client, scope),
            pods: typed(client, scope),
            nodes: Api::all(client.clone()),
            ledgers: typed(client, scope),
            rules: typed(client, scope),
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

fn raw<K: Resource<DynamicType = ()>>(client: &Client, scope: &Scope) -> Api<DeserializeGuard<DynamicObject>> {
    let kind = ApiResource::erase::<K>(&());
    match scope {
        Scope::All => Api::all_with(client.clone(), &kind),
        Scope::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
    }
}

fn our_events() -> String {
    format!("reportingController={}", names::CONTROLLER)
}

/// Reads everything once.
pub(crate) async fn read(client: &Client, scope: &Scope) -> Result<Snapshot, Failure> {
    let apis = Apis::new(client, scope);
    let nodes = match list("list NodeTransitions", &apis.nodes, None).await {
        // The only list that is answered like this: the kind is unknown.
        Err(Failure::Api { .. }) => return Err(Failure::NotInstalled),
        other => other?,
    };
    let (deployments, replica_sets, pods, ledgers, rules, events) = futures::try_join!(
        list("list Deployments", &apis.deployments, None),
        list("list ReplicaSets", &apis.replica_sets, None),
        list("list pods", &apis.pods, None),
        list("list TransitionLedgers", &apis.ledgers, None),
        list("list PodTransitionRules", &apis.rules, None),
        list("list Events", &apis.events, Some(our_events())),
    )?;
    Ok(Snapshot { deployments, replica_sets, pods, nodes, ledgers, rules, events })
}

async fn list<K, T>(what: &str, api: &Api<DeserializeGuard<K>>, fields: Option<String>) -> Result<Vec<Arc<T>>, Failure>
where
    K: Resource + Clone + DeserializeOwned + Debug,
    T: Seen<Object = K>,
{
    let mut parameters = ListParams { field_selector: fields, ..ListParams::default().limit(PAGE) };
    let mut all = Vec::new();
    loop {
        let page = api.list(&parameters).await.map_err(|error| Failure::of(what, WriteError::from(error)))?;
        all.extend(page.items.into_iter().filter_map(|object| T::seen(object.0.ok()?)).map(Arc::new));
        parameters.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if parameters.continue_token.is_none() {
            return Ok(all);
        }
    }
}

/// The cluster as it changes.
pub(crate) struct Live {
    changed: Arc<Notify>,
    deployments: Cache<DynamicObject, DeploymentView>,
    replica_sets: Cache<DynamicObject, ReplicaSetView>,
    pods: Cache<Pod, PodView>,
    nodes: Cache<NodeTransition, NodeTransition>,
    ledgers: Cache<TransitionLedger, TransitionLedgerSpec>,
    rules: Cache<PodTransitionRule, RuleSet>,
    events: Cache<Event, EventView>,
    readiness: Readiness,
    /// Ends the watches when it is dropped.
    tasks: JoinSet<()>,
}

impl Live {
    /// Watches everything. [`read`] should have succeeded before: a watch does not tell of missing rights, it tries again.
    pub(crate) fn new(client: &Client, scope: &Scope) -> Self {
        let changed = Arc::new(Notify::new());
        let mut live = Self {
            deployments: Cache::new("Deployment", Seen::seen, changed.clone(), watch::Metrics::default()),
            replica_sets: Cache::new("ReplicaSet", Seen::seen, changed.clone(), watch::Metrics::default()),
            pods: Cache::new("Pod", Seen::seen, changed.clone(), watch::Metrics::default()),
            nodes: Cache::new("NodeTransition", Seen::seen, changed.clone(), watch::Metrics::default()),
            ledgers: Cache::new("TransitionLedger", Seen::seen, changed.clone(), watch::Metrics::default()),
            rules: Cache::new("PodTransitionRule", Seen::seen, changed.clone(), watch::Metrics::default()),
            events: Cache::new("Event", Seen::seen, changed.clone(), watch::Metrics::default()),
            changed,
            readiness: Readiness::default(),
            tasks: JoinSet::new(),
        };
        let apis = Apis::new(client, scope);
        live.watch(apis.deployments, None, live.deployments.clone());
        live.watch(apis.replica_sets, None, live.replica_sets.clone());
        live.watch(apis.pods, None, live.pods.clone());
        live.watch(apis.nodes, None, live.nodes.clone());
        live.watch(apis.ledgers, None, live.ledgers.clone());
        live.watch(apis.rules, None, live.rules.clone());
        live.watch(apis.events, Some(our_events()), live.events.clone());
        live
    }

    fn watch<K, T>(&mut self, api: Api<DeserializeGuard<K>>, fields: Option<String>, cache: Cache<K, T>)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
        K::DynamicType: Clone + Send + Sync,
        T: PartialEq + Send + Sync + 'static,
    {
        let selection = Selection { fields, ..Selection::all(Listing::Paged(PAGE)) };
        let guard = self.readiness.guard(api.resource_url());
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
        self.readiness.missing().is_empty().then(|| Snapshot {
            deployments: self.deployments.values(),
            replica_sets: self.replica_sets.values(),
            pods: self.pods.values(),
            nodes: self.nodes.values(),
            ledgers: self.ledgers.values(),
            rules: self.rules.values(),
            events: self.events.values(),
        })
    }
}

//! Reads the cluster: once, with an error for everything that has to be read and can't be, or live.

mod live;
mod modes;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use hitless_api::{NodeTransition, PodTransitionRule, TransitionBudget, TransitionLedger, names};
use hitless_runtime::write::WriteError;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::snapshot::{NodeView, Part, Seen, Snapshot};
pub(crate) use live::Live;
pub(crate) use modes::read_with_modes;

const PAGE: u32 = 500;

/// Which namespaces are looked at.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    All,
    Namespace(String),
}

impl Scope {
    /// Where the system namespace is not in scope, it is read besides.
    fn besides_system(&self) -> Option<Self> {
        match self {
            Self::Namespace(namespace) if namespace != names::SYSTEM_NAMESPACE => Some(Self::system()),
            Self::All | Self::Namespace(_) => None,
        }
    }

    fn system() -> Self {
        Self::Namespace(names::SYSTEM_NAMESPACE.to_owned())
    }

    fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(own) => own == namespace,
        }
    }
}

/// The interfaces of all kinds in scope.
struct Apis {
    deployments: Api<DeserializeGuard<DynamicObject>>,
    replica_sets: Api<DeserializeGuard<DynamicObject>>,
    pods: Api<DeserializeGuard<Pod>>,
    transitions: Api<DeserializeGuard<NodeTransition>>,
    ledgers: Api<DeserializeGuard<TransitionLedger>>,
    rules: Api<DeserializeGuard<PodTransitionRule>>,
    budgets: Api<DeserializeGuard<TransitionBudget>>,
    cluster_budgets: Option<Api<DeserializeGuard<TransitionBudget>>>,
    disruption_budgets: Api<DeserializeGuard<PodDisruptionBudget>>,
    agents: Api<DeserializeGuard<Pod>>,
    controller: Api<DeserializeGuard<Deployment>>,
    events: Api<DeserializeGuard<Event>>,
}

impl Apis {
    /// `counted`: whose pods and places count, which may be more than those that are looked at.
    fn new(client: &Client, scope: &Scope, counted: &Scope) -> Self {
        Self {
            deployments: raw::<Deployment>(client, scope),
            replica_sets: raw::<ReplicaSet>(client, scope),
            pods: typed(client, counted),
            transitions: Api::all(client.clone()),
            ledgers: typed(client, counted),
            rules: typed(client, scope),
            budgets: typed(client, scope),
            cluster_budgets: scope.besides_system().map(|system| typed(client, &system)),
            disruption_budgets: typed(client, scope),
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

fn raw<K: Resource<DynamicType = ()>>(client: &Client, scope: &Scope) -> Api<DeserializeGuard<DynamicObject>> {
    let kind = ApiResource::erase::<K>(&());
    match scope {
        Scope::All => Api::all_with(client.clone(), &kind),
        Scope::Namespace(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
    }
}

fn our_events() -> ListParams {
    ListParams::default().fields(&format!("reportingController={}", names::CONTROLLER))
}

fn only_controller() -> ListParams {
    ListParams::default().fields(&format!("metadata.name={}", names::CONTROLLER))
}

fn agents_label() -> String {
    format!("{}={}", names::APP_LABEL, names::AGENT)
}

/// Reads everything once. What the user may not read, and can be done without, is noted in [`Snapshot::unread`].
pub(crate) async fn read(client: &Client, scope: &Scope) -> Result<Snapshot, Failure> {
    // All the lists together are large; on the heap they burden no caller.
    Box::pin(read_all(client, scope)).await
}

async fn read_all(client: &Client, scope: &Scope) -> Result<Snapshot, Failure> {
    let apis = Apis::new(client, scope, scope);
    let all = ListParams::default;
    let (deployments, replica_sets, pods) = futures::try_join!(
        list("list Deployments", &apis.deployments, all()),
        list("list ReplicaSets", &apis.replica_sets, all()),
        list("list pods", &apis.pods, all()),
    )?;
    let transitions = match list("list NodeTransitions", &apis.transitions, all()).await {
        // The only list that is answered like this: the kind is unknown.
        Err(Failure::Api { .. }) => return Err(Failure::NotInstalled),
        other => other,
    };
    let (ledgers, rules, budgets, cluster_budgets, disruption_budgets, agents, controller, events, nodes) = futures::join!(
        list("list TransitionLedgers", &apis.ledgers, all()),
        list("list PodTransitionRules", &apis.rules, all()),
        list("list TransitionBudgets", &apis.budgets, all()),
        async {
            match &apis.cluster_budgets {
                Some(api) => list("list TransitionBudgets in hitless-system", api, all()).await,
                None => Ok(Vec::new()),
            }
        },
        list("list PodDisruptionBudgets", &apis.disruption_budgets, all()),
        list("list pods in hitless-system", &apis.agents, all().labels(&agents_label())),
        list("get the controller's Deployment", &apis.controller, only_controller()),
        list("list Events", &apis.events, our_events()),
        nodes(client),
    );
    let mut unread = BTreeMap::new();
    let mut snapshot = Snapshot {
        deployments,
        replica_sets,
        pods,
        transitions: optional(Part::Transitions, transitions, &mut unread)?.unwrap_or_default(),
        ledgers: optional(Part::Ledgers, ledgers, &mut unread)?.unwrap_or_default(),
        rules: optional(Part::Rules, rules, &mut unread)?.unwrap_or_default(),
        budgets: optional(Part::Budgets, budgets, &mut unread)?.unwrap_or_default(),
        disruption_budgets: optional(Part::DisruptionBudgets, disruption_budgets, &mut unread)?.unwrap_or_default(),
        events: optional(Part::Events, events, &mut unread)?.unwrap_or_default(),
        nodes: optional(Part::Nodes, nodes, &mut unread)?,
        agents: optional(Part::Agents, agents, &mut unread)?,
        ..Snapshot::default()
    };
    let controllers = optional(Part::Controller, controller, &mut unread)?.unwrap_or_default();
    snapshot.settings =
        controllers.first().map(|settings: &Arc<hitless_gate::Settings>| (**settings).clone()).unwrap_or_default();
    let cluster = optional(Part::ClusterBudgets, cluster_budgets, &mut unread)?.unwrap_or_default();
    snapshot.budgets.extend(cluster.into_iter().filter(|budget: &Arc<hitless_gate::Budget>| budget.is_cluster_wide()));
    if snapshot.counts_cluster_wide() && scope.besides_system().is_some() {
        let apis = Apis::new(client, scope, &Scope::All);
        let everything = async {
            futures::try_join!(
                list("list pods in all namespaces", &apis.pods, all()),
                list("list TransitionLedgers in all namespaces", &apis.ledgers, all()),
            )
        };
        let counted = optional(Part::Elsewhere, everything.await, &mut unread)?;
        if let Some((pods, ledgers)) = counted {
            snapshot.ledgers = ledgers;
            (snapshot.pods, snapshot.elsewhere) = divide(pods, scope);
        }
    }
    snapshot.unread = unread;
    Ok(snapshot)
}

/// Pods in scope, and others.
fn divide(
    pods: Vec<Arc<hitless_api::pod::PodView>>,
    scope: &Scope,
) -> (Vec<Arc<hitless_api::pod::PodView>>, Vec<Arc<hitless_api::pod::PodView>>) {
    pods.into_iter().partition(|pod| scope.contains(&pod.id.namespace))
}

/// `None` if it may not be read, or its kind is not known to this cluster.
fn optional<T>(
    part: Part,
    result: Result<T, Failure>,
    unread: &mut BTreeMap<Part, String>,
) -> Result<Option<T>, Failure> {
    match result {
        Ok(known) => Ok(Some(known)),
        Err(Failure::Forbidden { message, .. } | Failure::Api { message, .. }) => {
            unread.insert(part, message);
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

async fn list<K, T>(what: &str, api: &Api<DeserializeGuard<K>>, selection: ListParams) -> Result<Vec<Arc<T>>, Failure>
where
    K: Resource + Clone + DeserializeOwned + Debug,
    T: Seen<Object = K>,
{
    let mut parameters = selection.limit(PAGE);
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

/// Only their metadata: a Node's status is long.
async fn nodes(client: &Client) -> Result<Vec<Arc<NodeView>>, Failure> {
    let api: Api<Node> = Api::all(client.clone());
    let mut parameters = ListParams::default().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page =
            api.list_metadata(&parameters).await.map_err(|error| Failure::of("list nodes", WriteError::from(error)))?;
        all.extend(page.items.into_iter().filter_map(NodeView::seen).map(Arc::new));
        parameters.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if parameters.continue_token.is_none() {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_be_read_is_noted_and_what_is_broken_is_not_hidden() {
        let mut unread = BTreeMap::new();
        let forbidden = Failure::Forbidden { what: "list nodes".into(), message: "nodes is forbidden".into() };
        assert!(optional::<()>(Part::Nodes, Err(forbidden), &mut unread).unwrap().is_none());
        let unknown = Failure::Api { what: "list".into(), message: "404 page not found".into() };
        assert!(optional::<()>(Part::Budgets, Err(unknown), &mut unread).unwrap().is_none());
        let away = Failure::Unreachable("connection refused".into());
        assert!(optional::<()>(Part::Agents, Err(away), &mut unread).is_err());
        let notes = Snapshot { unread, ..Snapshot::default() }.notes();
        assert_eq!(notes[1], "nodes not read: nodes is forbidden; zones are not known");
        assert!(notes[0].starts_with("TransitionBudgets not read: 404"), "{notes:?}");
    }

    #[test]
    fn budgets_of_the_system_namespace_are_read_besides_any_other() {
        assert!(Scope::Namespace("team".into()).besides_system().is_some());
        assert!(Scope::system().besides_system().is_none() && Scope::All.besides_system().is_none());
        assert!(!Scope::system().contains("team") && Scope::All.contains("team"));
    }
}

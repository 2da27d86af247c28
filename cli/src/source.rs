//! Reads the cluster: once, with an error for everything that has to be read and can't be, or live.

mod live;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures::future::try_join_all;

use hitless_api::drain_policy::DEFAULT;
use hitless_api::pod::PodView;
use hitless_api::{
    DrainPolicy, GroupKind, Lenient, NodeTransition, PodTransitionRule, TrafficProvider, TransitionBudget,
    TransitionLedger, names,
};
use hitless_rollout::kuperator::{self, Kuperator, LeaseView};
use hitless_rollout::prefetch::{NamePool, PrefetchView};
use hitless_rollout::snapshot::{LedgerView, NodeTransitionView, NodeView, Snapshot as Cluster, Unknown, agents};
use hitless_runtime::list;
use hitless_workloads::kind;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::{DeserializeGuard, GroupVersionKind};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::snapshot::{EventView, Part, Snapshot, WorkloadObject, settings};
pub(crate) use live::Live;

const PAGE: u32 = 500;

/// Which namespaces are looked at.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    All,
    Namespace(String),
}

impl Scope {
    fn namespace(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Namespace(namespace) => Some(namespace.clone()),
        }
    }

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
}

/// Of so many nodes the images are read.
const FEW_NODES: usize = 100;

/// The interfaces of all kinds in scope.
struct Apis {
    objects: Vec<(&'static kind::Resource, Api<DeserializeGuard<DynamicObject>>)>,
    pods: Api<DeserializeGuard<Pod>>,
    transitions: Api<DeserializeGuard<NodeTransition>>,
    ledgers: Api<DeserializeGuard<TransitionLedger>>,
    rules: Api<DeserializeGuard<Lenient<PodTransitionRule>>>,
    budgets: Api<DeserializeGuard<Lenient<TransitionBudget>>>,
    cluster_budgets: Option<Api<DeserializeGuard<Lenient<TransitionBudget>>>>,
    disruption_budgets: Api<DeserializeGuard<PodDisruptionBudget>>,
    services: Api<DeserializeGuard<Service>>,
    drain_policies: Api<DeserializeGuard<Lenient<DrainPolicy>>>,
    default_drain_policy: Option<Api<DeserializeGuard<Lenient<DrainPolicy>>>>,
    providers: Api<DeserializeGuard<TrafficProvider>>,
    agents: Api<DeserializeGuard<Pod>>,
    controller: Api<DeserializeGuard<Deployment>>,
    events: Api<DeserializeGuard<Event>>,
}

impl Apis {
    /// `counted`: whose pods and places count, which may be more than those that are looked at.
    fn new(client: &Client, scope: &Scope, counted: &Scope) -> Self {
        Self {
            objects: kind::resources().map(|(_, resource)| (resource, untyped(client, resource, scope))).collect(),
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
    let GroupKind { group, kind } = &resource.group_kind;
    let kind = GroupVersionKind::gvk(group, resource.version, kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, resource.plural);
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

/// By name, so that a role that names it is enough.
fn only_default() -> ListParams {
    ListParams::default().fields(&format!("metadata.name={DEFAULT}"))
}

fn no_prefetches() -> ListParams {
    ListParams::default().labels(names::OTHER_PODS)
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
    let objects = apis.objects.iter().enumerate().map(|(index, (resource, api))| async move {
        match objects(resource, api).await {
            // Somebody may read Deployments and no other workloads.
            Err(Failure::Forbidden { message, .. }) if index > 0 => {
                Ok((Vec::new(), Some((resource.plural, Some(message)))))
            }
            other => Ok(other?.map_or((Vec::new(), Some((resource.plural, None))), |objects| (objects, None))),
        }
    });
    let (objects, pods, prefetches) = futures::try_join!(
        try_join_all(objects),
        list("list pods", &apis.pods, no_prefetches(), pod),
        list("list pods that fetch images", &apis.pods, all().labels(names::PREFETCH_PODS), prefetch),
    )?;
    let transitions = match list("list NodeTransitions", &apis.transitions, all(), view::<_, NodeTransitionView>).await
    {
        // The only list that is answered like this: the kind is unknown.
        Err(Failure::Api { .. }) => return Err(Failure::NotInstalled),
        other => other,
    };
    let (ledgers, rules, budgets, cluster_budgets, disruption_budgets) = futures::join!(
        list("list TransitionLedgers", &apis.ledgers, all(), LedgerView::of),
        list("list PodTransitionRules", &apis.rules, all(), view),
        list("list TransitionBudgets", &apis.budgets, all(), view),
        besides(
            "list TransitionBudgets in hitless-system",
            apis.cluster_budgets.as_ref(),
            all(),
            view::<_, hitless_gate::Budget>
        ),
        list("list PodDisruptionBudgets", &apis.disruption_budgets, all(), view),
    );
    let (services, policies, default_policy, providers, agents, controller, events, nodes) = futures::join!(
        list("list Services", &apis.services, all(), |service| Some((&service).into())),
        list("list DrainPolicies", &apis.drain_policies, all(), view),
        besides("get DrainPolicy default in hitless-system", apis.default_drain_policy.as_ref(), only_default(), view),
        list("list TrafficProviders", &apis.providers, all(), view),
        list("list pods in hitless-system", &apis.agents, all().labels(&agents_label()), pod),
        list("get the controller's Deployment", &apis.controller, only_controller(), settings),
        list("list Events", &apis.events, our_events(), EventView::of),
        nodes(client),
    );
    let mut unread = BTreeMap::new();
    let (objects, unlisted): (Vec<_>, Vec<_>) = objects.into_iter().unzip();
    let (unlisted, forbidden): (Vec<&str>, Vec<Option<String>>) = unlisted.into_iter().flatten().unzip();
    unread.extend(forbidden.into_iter().flatten().next().map(|message| (Part::Workloads, message)));
    let mut cluster = Cluster {
        pods,
        prefetches,
        node_transitions: by(optional(Part::Transitions, transitions, &mut unread)?, |each| &each.node),
        ledgers: by(optional(Part::Ledgers, ledgers, &mut unread)?, |each| &each.namespace),
        rules: optional(Part::Rules, rules, &mut unread)?.unwrap_or_default(),
        budgets: optional(Part::Budgets, budgets, &mut unread)?.unwrap_or_default(),
        disruption_budgets: optional(Part::DisruptionBudgets, disruption_budgets, &mut unread)?.unwrap_or_default(),
        services: optional(Part::Services, services, &mut unread)?.unwrap_or_default(),
        drain_policies: optional(Part::DrainPolicies, policies, &mut unread)?.unwrap_or_default(),
        providers: optional(Part::TrafficProviders, providers, &mut unread)?.unwrap_or_default(),
        nodes: by(optional(Part::Nodes, nodes, &mut unread)?, |each| &each.name),
        ..Cluster::default()
    };
    cluster.drain_policies.extend(optional(Part::DefaultDrainPolicy, default_policy, &mut unread)?.unwrap_or_default());
    let controllers = optional(Part::Controller, controller, &mut unread)?.unwrap_or_default();
    let (settings, installed) = controllers.first().map(|found| (**found).clone()).unzip();
    let settings = settings.unwrap_or_default();
    let kuperator = kuperator(client).await;
    let cluster_budgets = optional(Part::ClusterBudgets, cluster_budgets, &mut unread)?.unwrap_or_default();
    cluster.budgets.extend(cluster_budgets.into_iter().filter(|budget| budget.is_cluster_wide()));
    let events = optional(Part::Events, events, &mut unread)?.unwrap_or_default();
    let agents = optional(Part::Agents, agents, &mut unread)?.unwrap_or_default();
    let snapshot = Snapshot {
        cluster,
        objects: Vec::new(),
        unlisted,
        namespace: scope.namespace(),
        events,
        settings,
        installed,
        kuperator,
        unread,
    };
    let mut snapshot = snapshot.with_objects(objects.concat());
    let mut reads_all = matches!(scope, Scope::All);
    if snapshot.counts_cluster_wide() && scope.besides_system().is_some() {
        let apis = Apis::new(client, scope, &Scope::All);
        let everything = async {
            futures::try_join!(
                list("list pods in all namespaces", &apis.pods, no_prefetches(), pod),
                list("list TransitionLedgers in all namespaces", &apis.ledgers, all(), LedgerView::of),
            )
        };
        if let Some((pods, ledgers)) = optional(Part::Elsewhere, everything.await, &mut snapshot.unread)? {
            (snapshot.cluster.pods, snapshot.cluster.ledgers) = (pods, by(Some(ledgers), |each| &each.namespace));
            reads_all = true;
        }
    }
    complete(&mut snapshot, &agents, reads_all);
    Ok(snapshot)
}

/// KusionStack's own manager, if it is there and the user may see it: few may read what it is seen by, and it is in few clusters, so
/// that this is not noted as missing. The controller says it on the objects, too.
pub(crate) async fn kuperator(client: &Client) -> Option<Kuperator> {
    let lease: Api<Lease> = Api::namespaced(client.clone(), kuperator::NAMESPACE);
    let [mutating, validating] = kuperator::WEBHOOKS;
    let first: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let second: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let (lease, first, second) = futures::join!(
        lease.get_opt(kuperator::LEASE),
        first.get_metadata_opt(mutating),
        second.get_metadata_opt(validating)
    );
    let lease = lease.ok().flatten().and_then(|lease| LeaseView::of(&lease));
    let names = [first.map(|found| found.map(|_| mutating)), second.map(|found| found.map(|_| validating))];
    let names: Vec<String> = names.into_iter().filter_map(|found| found.ok().flatten()).map(str::to_owned).collect();
    Kuperator::seen(lease.as_ref(), &names, Timestamp::now())
}

/// Adds what follows from what was read: which nodes have an agent, and what is not known.
fn complete(snapshot: &mut Snapshot, pods: &[Arc<PodView>], reads_all: bool) {
    let Snapshot { cluster, namespace, unread, .. } = snapshot;
    let all = std::mem::take(&mut cluster.pods);
    *cluster = std::mem::take(cluster).with_pods(all);
    cluster.unknown = Unknown {
        nodes: unread.contains_key(&Part::Nodes),
        agents: unread.contains_key(&Part::Agents),
        images: unread.contains_key(&Part::Nodes) || cluster.nodes.len() > FEW_NODES,
        modes: false,
        companions: false,
        pools: unread.contains_key(&Part::Services) || unread.contains_key(&Part::TrafficProviders),
        outside: namespace.clone().filter(|_| !reads_all),
    };
    let nodes: Vec<&str> = if cluster.unknown.nodes {
        cluster.pods.iter().filter_map(|pod| pod.node.as_deref()).collect()
    } else {
        cluster.nodes.keys().map(String::as_str).collect()
    };
    cluster.agents = agents(nodes, pods.iter().map(|pod| &**pod), &BTreeMap::new(), Timestamp::now());
}

/// By a name of theirs.
fn by<T>(all: Option<Vec<Arc<T>>>, key: impl Fn(&T) -> &String) -> BTreeMap<String, Arc<T>> {
    all.into_iter().flatten().map(|each| (key(&each).clone(), each)).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all views")]
fn view<K, T: From<K>>(object: K) -> Option<T> {
    Some(T::from(object))
}

#[expect(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "the form of all views")]
fn pod(pod: Pod) -> Option<PodView> {
    Some(PodView::from(&pod))
}

#[expect(clippy::needless_pass_by_value, reason = "the form of all views")]
fn prefetch(pod: Pod) -> Option<PrefetchView> {
    PrefetchView::of(&pod)
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

async fn list<K, T>(
    what: &str,
    api: &Api<DeserializeGuard<K>>,
    selection: ListParams,
    view: impl Fn(K) -> Option<T>,
) -> Result<Vec<Arc<T>>, Failure>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let listed = list::all(api, selection, |object| object.0.ok().and_then(&view).map(Arc::new)).await;
    listed.map_err(|error| Failure::of(what, error))
}

/// The objects of a resource of workloads' kinds; `None`: this cluster has no such resource, and need not have it.
async fn objects(
    resource: &'static kind::Resource,
    api: &Api<DeserializeGuard<DynamicObject>>,
) -> Result<Option<Vec<Arc<WorkloadObject>>>, Failure> {
    let view = |object: DeserializeGuard<DynamicObject>| WorkloadObject::listed(resource, object.0.ok()?).map(Arc::new);
    let listed = if resource.optional {
        list::all_if_served(api, ListParams::default(), view).await
    } else {
        list::all(api, ListParams::default(), view).await.map(Some)
    };
    listed.map_err(|error| Failure::of(format!("list {}", resource.plural), error))
}

/// The same of the system namespace, where that is not in scope.
async fn besides<K, T>(
    what: &str,
    api: Option<&Api<DeserializeGuard<K>>>,
    selection: ListParams,
    view: fn(K) -> Option<T>,
) -> Result<Vec<Arc<T>>, Failure>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    match api {
        Some(api) => list(what, api, selection, view).await,
        None => Ok(Vec::new()),
    }
}

/// With what they have, if they are few: a Node's status is long.
async fn nodes(client: &Client) -> Result<Vec<Arc<NodeView>>, Failure> {
    let api: Api<Node> = Api::all(client.clone());
    let (all, failed) = (ListParams::default, |error| Failure::of("list nodes", error));
    let metadata = list::all_metadata(&api, all(), |node| Some(Arc::new(NodeView::from(&node.metadata)))).await;
    let metadata = metadata.map_err(failed)?;
    if metadata.len() > FEW_NODES {
        return Ok(metadata);
    }
    let names = RefCell::new(NamePool::default());
    let view = |node: Node| Some(Arc::new(NodeView::of(&node, &mut names.borrow_mut())));
    list::all(&api, all(), view).await.map_err(failed)
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
        let mut snapshot = Snapshot { unread, ..Snapshot::default() };
        assert_eq!(
            snapshot.notes(),
            [
                "2 kinds may not be read (TransitionBudgets, nodes): what is not known is whether nodes have an agent, which rules are in \
              the way; ask for ClusterRole hitless-view. The first answer: 404 page not found"
            ]
        );
        assert!(!snapshot.sees_what_is_in_the_way());
        snapshot.unread.remove(&Part::Budgets);
        assert_eq!(snapshot.notes(), ["nodes not read: nodes is forbidden; zones are not known"]);
        snapshot.unread = BTreeMap::from([(Part::Events, "forbidden".to_owned())]);
        assert!(snapshot.sees_what_is_in_the_way(), "nothing that decides is missing");
    }

    #[test]
    fn budgets_of_the_system_namespace_are_read_besides_any_other() {
        assert!(Scope::Namespace("team".into()).besides_system().is_some());
        assert!(Scope::system().besides_system().is_none() && Scope::All.besides_system().is_none());
    }
}

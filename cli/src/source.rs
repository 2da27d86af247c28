//! Reads the cluster: once, with an error for everything that has to be read and can't be, or live.

mod apis;
mod lists;
mod live;
mod namespace;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::try_join_all;

use hitless_api::names;
use hitless_api::pod::PodView;
use hitless_rollout::guard::Guards;
use hitless_rollout::kuperator::{self, Kuperator, LeaseView};
use hitless_rollout::snapshot::{LedgerView, NodeTransitionView, Snapshot as Cluster, Unknown, agents};
use hitless_runtime::admission;
use hitless_workloads::Placement;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};

use crate::failure::Failure;
use crate::snapshot::{ControllerView, EventView, Part, Snapshot, Unread};
use apis::{Apis, agents_label, no_prefetches, only_controller, only_default, our_events};
use lists::{besides, by, list, nodes, objects, optional, pod, prefetch, view};
pub(crate) use live::Live;
pub(crate) use namespace::namespace_exists;

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
        Err(Failure::NotServed { .. }) => return Err(Failure::NotInstalled),
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
        list("get the controller's Deployment", &apis.controller, only_controller(), ControllerView::of),
        list("list Events", &apis.events, our_events(), EventView::of),
        nodes(client),
    );
    let mut unread = BTreeMap::new();
    let (objects, unlisted): (Vec<_>, Vec<_>) = objects.into_iter().unzip();
    let (unlisted, forbidden): (Vec<&str>, Vec<Option<String>>) = unlisted.into_iter().flatten().unzip();
    unread.extend(forbidden.into_iter().flatten().next().map(|message| (Part::Workloads, Unread::Refused(message))));
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
    let controllers = optional(Part::Controller, controller, &mut unread)?;
    let (kuperator, guards, placement) = futures::join!(kuperator(client), guards(client), placement(client));
    let cluster_budgets = optional(Part::ClusterBudgets, cluster_budgets, &mut unread)?.unwrap_or_default();
    cluster.budgets.extend(cluster_budgets.into_iter().filter(|budget| budget.is_cluster_wide()));
    let events = optional(Part::Events, events, &mut unread)?.unwrap_or_default();
    let agents = optional(Part::Agents, agents, &mut unread)?.unwrap_or_default();
    let snapshot = Snapshot {
        cluster,
        unlisted,
        namespace: scope.namespace(),
        events,
        kuperator,
        guards,
        placement,
        unread,
        ..Snapshot::default()
    };
    let mut snapshot = snapshot.with_controller(controllers.as_deref());
    snapshot = snapshot.with_objects(objects.concat());
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

/// Which policies keep native controllers from rolling what has opted in. Few may read them: the controller says it on the objects, too.
async fn guards(client: &Client) -> Option<Guards> {
    let (policies, bindings) = admission::policies(client, None).await.ok()?;
    Some(Guards { policies, bindings })
}

/// On which nodes agents may be. Who may not read their DaemonSet takes every node for one.
pub(crate) async fn placement(client: &Client) -> Placement {
    let sets: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), names::SYSTEM_NAMESPACE, &ApiResource::erase::<DaemonSet>(&()));
    let set = sets.get_opt(names::AGENT).await.ok().flatten();
    set.map(|set| Placement::of(&set.data["spec"]["template"])).unwrap_or_default()
}

/// Adds what follows from what was read: which nodes have an agent, and what is not known.
fn complete(snapshot: &mut Snapshot, pods: &[Arc<PodView>], reads_all: bool) {
    let Snapshot { cluster, namespace, unread, placement, .. } = snapshot;
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
    let excludes = |node: &str| cluster.nodes.get(node).is_some_and(|known| placement.excludes(node, &known.labels));
    let agents_pods = pods.iter().map(|pod| &**pod);
    cluster.agents = agents(nodes, agents_pods, excludes, &BTreeMap::new(), Timestamp::now());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_be_read_is_noted_and_what_is_broken_is_not_hidden() {
        let mut unread = BTreeMap::new();
        let forbidden = Failure::Forbidden { what: "list nodes".into(), message: "nodes is forbidden".into() };
        assert!(optional::<()>(Part::Nodes, Err(forbidden), &mut unread).unwrap().is_none());
        let refused = Failure::Api { what: "list".into(), message: "no".into() };
        assert!(optional::<()>(Part::Budgets, Err(refused), &mut unread).unwrap().is_none());
        let unknown = Failure::NotServed { what: "list".into() };
        assert!(optional::<()>(Part::Rules, Err(unknown), &mut unread).unwrap().is_none());
        assert_eq!(unread.remove(&Part::Rules), Some(Unread::NotInstalled));
        let away = Failure::Unreachable("connection refused".into());
        assert!(optional::<()>(Part::Agents, Err(away), &mut unread).is_err());
        let mut snapshot = Snapshot { unread, ..Snapshot::default() };
        assert_eq!(
            snapshot.notes(),
            [
                "2 kinds may not be read (TransitionBudgets, nodes): what is not known is whether nodes have an agent, which rules are in \
              the way; ask for ClusterRole hitless-view, ClusterRole hitless-view-cluster. The first answer: no"
            ]
        );
        assert!(!snapshot.sees_what_is_in_the_way());
        snapshot.unread.remove(&Part::Budgets);
        assert_eq!(snapshot.notes(), ["nodes not read: nodes is forbidden; zones are not known"]);
        snapshot.unread = BTreeMap::from([(Part::Events, Unread::Refused("forbidden".to_owned()))]);
        assert!(snapshot.sees_what_is_in_the_way(), "nothing that decides is missing");
    }

    #[test]
    fn budgets_of_the_system_namespace_are_read_besides_any_other() {
        assert!(Scope::Namespace("team".into()).besides_system().is_some());
        assert!(Scope::system().besides_system().is_none() && Scope::All.besides_system().is_none());
    }
}

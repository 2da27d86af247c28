//! Reads the cluster: once, with an error for everything that has to be read and can't be, or live.

mod lists;
mod live;
mod namespace;
mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::try_join_all;

use hitless_api::names;
use hitless_api::pod::PodView;
use hitless_rollout::foreign_manager::{LeaseView, PresentManager, PresentManagers};
use hitless_rollout::guard::Guards;
use hitless_rollout::snapshot::{Unknown, agents};
use hitless_runtime::admission;
use hitless_store::api_resource;
use hitless_store::inputs::rows::{Ledgers, Nodes, Pods, Providers, Services};
use hitless_store::inputs::{Input, Select, Turn, namespaced};
use hitless_workloads::{COMPONENTS, ForeignManager, Placement, kind, registry};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::DeserializeGuard;
use kube::{Api, Client};

use crate::failure::Failure;
use crate::snapshot::{AGENTS, CONTROLLER, ControllerView, ELSEWHERE, EVENTS, EventView, Snapshot, Unread, WORKLOADS};
use lists::{list, nodes, objects, optional};
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
            Self::Namespace(namespace) if namespace != names::system_namespace() => Some(Self::system()),
            Self::All | Self::Namespace(_) => None,
        }
    }

    fn system() -> Self {
        Self::Namespace(names::system_namespace().to_owned())
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
    let resources = registry::resources().enumerate().map(|(index, (_, resource))| async move {
        match objects(resource, &workloads(client, resource, scope)).await {
            // Somebody may read Deployments and no other workloads.
            Err(Failure::Forbidden { message, .. }) if index > 0 => {
                Ok::<_, Failure>((Vec::new(), Some((resource.plural, Some(message)))))
            }
            other => Ok(other?.map_or((Vec::new(), Some((resource.plural, None))), |objects| (objects, None))),
        }
    });
    let (namespace, system) = (scope.namespace(), Some(names::system_namespace()));
    let (pods, deployments) = (Pods::api(client, system), namespaced::<Deployment>(client, system));
    let events = namespaced::<Event>(client, namespace.as_deref());
    let mut snapshot = Snapshot { namespace: namespace.clone(), ..Snapshot::default() };
    let (objects, first) = futures::join!(try_join_all(resources), rows::read_all(client, scope, Turn::First));
    let objects = objects?;
    for read in first.into_iter().chain(rows::read_all(client, scope, Turn::Second).await) {
        read(&mut snapshot)?;
    }
    let (rows, agents, controller, events, nodes) = futures::join!(
        rows::read_all(client, scope, Turn::Last),
        list("list hitless's own pods", &pods, agents_pods(), Pods::view()),
        list("get the controller's Deployment", &deployments, only_controller(), ControllerView::of),
        list("list Events", &events, our_events(), EventView::of),
        nodes(client),
    );
    let (objects, unlisted): (Vec<_>, Vec<_>) = objects.into_iter().unzip();
    for read in rows {
        read(&mut snapshot)?;
    }
    let unread = &mut snapshot.unread;
    let (unlisted, forbidden): (Vec<&str>, Vec<Option<String>>) = unlisted.into_iter().flatten().unzip();
    unread.extend(forbidden.into_iter().flatten().next().map(|message| (WORKLOADS, Unread::Refused(message))));
    Nodes::put(&mut snapshot.cluster, optional(Nodes::PART, nodes, unread)?.unwrap_or_default());
    let controllers = optional(Some(CONTROLLER), controller, unread)?;
    snapshot.events = optional(Some(EVENTS), events, unread)?.unwrap_or_default();
    let agents = optional(Some(AGENTS), agents, unread)?.unwrap_or_default();
    snapshot.unlisted = unlisted;
    (snapshot.managers, snapshot.guards, snapshot.placement) =
        futures::join!(present_managers(client), guards(client), placement(client));
    snapshot = snapshot.with_controller(controllers.as_deref()).with_objects(objects.concat());
    let mut reads_all = matches!(scope, Scope::All);
    if snapshot.counts_cluster_wide() && scope.besides_system().is_some() {
        let everything = async {
            let (pods, ledgers) = (Pods::api(client, None), Ledgers::api(client, None));
            futures::try_join!(
                list("list pods in all namespaces", &pods, Pods::SELECT.list(), Pods::view()),
                list("list TransitionLedgers in all namespaces", &ledgers, Ledgers::SELECT.list(), Ledgers::view()),
            )
        };
        if let Some((pods, ledgers)) = optional(Some(ELSEWHERE), everything.await, &mut snapshot.unread)? {
            Pods::put(&mut snapshot.cluster, pods);
            Ledgers::put(&mut snapshot.cluster, ledgers);
            reads_all = true;
        }
    }
    complete(&mut snapshot, &agents, reads_all);
    Ok(snapshot)
}

/// The interface of a resource of workloads' kinds.
fn workloads(client: &Client, resource: &kind::Resource, scope: &Scope) -> Api<DeserializeGuard<DynamicObject>> {
    let kind = api_resource(resource);
    match scope {
        Scope::Namespace(namespace) if resource.is_namespaced => Api::namespaced_with(client.clone(), namespace, &kind),
        // What is in no namespace counts in every one.
        Scope::All | Scope::Namespace(_) => Api::all_with(client.clone(), &kind),
    }
}

fn our_events() -> ListParams {
    ListParams::default().fields(&format!("reportingController={}", names::CONTROLLER))
}

fn only_controller() -> ListParams {
    Select::Named(names::CONTROLLER).list()
}

fn agents_pods() -> ListParams {
    ListParams::default().labels(&format!("{}={}", names::APP_LABEL, names::AGENT))
}

/// The managers that kinds come from, if they are there and the user may see them: few may read what they are seen by, and they are in
/// few clusters, so that this is not noted as missing. The controller says it on the objects, too.
pub(crate) async fn present_managers(client: &Client) -> PresentManagers {
    let seen = COMPONENTS.map(|each| async move { Some((each, present(client, &each.manager).await?)) });
    futures::future::join_all(seen).await.into_iter().flatten().collect()
}

async fn present(client: &Client, manager: &'static ForeignManager) -> Option<PresentManager> {
    let lease: Api<Lease> = Api::namespaced(client.clone(), manager.namespace);
    let first: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let second: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let (lease, first, second) = futures::join!(
        lease.get_opt(manager.lease),
        first.get_metadata_opt(manager.mutating),
        second.get_metadata_opt(manager.validating)
    );
    let lease = lease.ok().flatten().and_then(|lease| LeaseView::of(manager, &lease));
    let names =
        [first.map(|found| found.map(|_| manager.mutating)), second.map(|found| found.map(|_| manager.validating))];
    let names: Vec<String> = names.into_iter().filter_map(|found| found.ok().flatten()).map(str::to_owned).collect();
    PresentManager::seen(manager, lease.as_ref(), &names, Timestamp::now())
}

/// Which policies keep native controllers from rolling what has opted in. Few may read them: the controller says it on the objects, too.
async fn guards(client: &Client) -> Option<Guards> {
    let (policies, bindings) = admission::policies(client, None).await.ok()?;
    Some(Guards { policies, bindings })
}

/// On which nodes agents may be. Who may not read their DaemonSet takes every node for one.
pub(crate) async fn placement(client: &Client) -> Placement {
    let sets: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), names::system_namespace(), &ApiResource::erase::<DaemonSet>(&()));
    let set = sets.get_opt(names::AGENT).await.ok().flatten();
    set.map(|set| Placement::of(&set.data["spec"]["template"])).unwrap_or_default()
}

/// Adds what follows from what was read: which nodes have an agent, and what is not known.
fn complete(snapshot: &mut Snapshot, pods: &[Arc<PodView>], reads_all: bool) {
    snapshot.cluster.unknown = Unknown {
        nodes: snapshot.lacks(Nodes::PART),
        agents: snapshot.lacks(Some(AGENTS)),
        images: snapshot.lacks(Nodes::PART) || snapshot.cluster.nodes.len() > FEW_NODES,
        modes: false,
        companions: false,
        pools: snapshot.lacks(Services::PART) || snapshot.lacks(Providers::PART),
        outside: snapshot.namespace.clone().filter(|_| !reads_all),
    };
    let Snapshot { cluster, placement, .. } = snapshot;
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
    use hitless_store::inputs::rows::{Budgets, Rules};

    #[test]
    fn what_may_not_be_read_is_noted_and_what_is_broken_is_not_hidden() {
        let mut unread = BTreeMap::new();
        let forbidden = Failure::Forbidden { what: "list nodes".into(), message: "nodes is forbidden".into() };
        assert!(optional::<()>(Nodes::PART, Err(forbidden), &mut unread).unwrap().is_none());
        let refused = Failure::Api { what: "list".into(), message: "no".into() };
        assert!(optional::<()>(Budgets::PART, Err(refused), &mut unread).unwrap().is_none());
        let unknown = Failure::NotServed { what: "list".into() };
        assert!(optional::<()>(Rules::PART, Err(unknown), &mut unread).unwrap().is_none());
        assert_eq!(unread.remove(&Rules::PART.unwrap()), Some(Unread::NotInstalled));
        let away = Failure::Unreachable("connection refused".into());
        assert!(optional::<()>(Some(AGENTS), Err(away), &mut unread).is_err());
        let mut snapshot = Snapshot { unread, ..Snapshot::default() };
        assert_eq!(
            snapshot.notes(),
            [
                "2 kinds may not be read (TransitionBudgets, nodes): what is not known is whether nodes have an agent, which rules are in \
              the way; ask for ClusterRole hitless-view, ClusterRole hitless-view-cluster. The first answer: no"
            ]
        );
        assert!(!snapshot.sees_what_is_in_the_way());
        snapshot.unread.remove(&Budgets::PART.unwrap());
        assert_eq!(snapshot.notes(), ["nodes not read: nodes is forbidden; zones are not known"]);
        snapshot.unread = BTreeMap::from([(EVENTS, Unread::Refused("forbidden".to_owned()))]);
        assert!(snapshot.sees_what_is_in_the_way(), "nothing that decides is missing");
    }

    #[test]
    fn budgets_of_the_system_namespace_are_read_besides_any_other() {
        assert!(Scope::Namespace("team".into()).besides_system().is_some());
        assert!(Scope::system().besides_system().is_none() && Scope::All.besides_system().is_none());
    }
}

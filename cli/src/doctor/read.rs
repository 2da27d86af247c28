//! Reads the facts. What may not be read is a fact, too.

use std::collections::BTreeSet;
use std::fmt::Debug;

use hitless_api::{CollaSet, NodeTransition, names};
use hitless_rollout::guard::Guards;
use hitless_runtime::admission;
use hitless_runtime::list;
use hitless_runtime::telemetry;
use hitless_runtime::write::{WriteError, Writes};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::facts::{AgentPod, Facts, Helpers, NodeFacts, Program, Report, Seen};
use super::opt_in;
use crate::failure::Failure;
use crate::source::{placement, present_managers};

pub(crate) async fn facts(client: &Client) -> Result<Facts, Failure> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let (server, definitions, policies, reports, nodes, runtime_classes) = futures::join!(
        server(client),
        list::names(&definitions, ListParams::default()),
        admission::policies(client, None),
        reports(client),
        each(Api::all(client.clone()), |node: Node| Some((
            node_facts(&node),
            node.metadata.labels.unwrap_or_default()
        ))),
        each(Api::all(client.clone()), |class: RuntimeClass| Some((class.name_any(), class.handler.clone()))),
    );
    let (controller, bindings, agent, agents, daemon_sets, deployments, leaving_sets, labelled, managers, placement) = futures::join!(
        controller(client),
        bindings(client),
        agent(client),
        agent_pods(client),
        each(Api::all(client.clone()), |set: DaemonSet| Some((place(&set), images(&set.spec.as_ref()?.template)))),
        each(Api::all(client.clone()), |each: Deployment| Some((place(&each), images(&each.spec.as_ref()?.template)))),
        leaving_sets(client),
        opt_in::read(client),
        present_managers(client),
        placement(client),
    );
    // Of another system than the agents' none is expected anyway, and that is said in other words.
    let seen_as = |(node, labels): (NodeFacts, _)| {
        let is_real = node.os != "linux" || !placement.excludes(&node.name, &labels);
        NodeFacts { is_real, ..node }
    };
    let nodes = nodes.map(|nodes| nodes.into_iter().map(seen_as).collect());
    let programs = match (seen(daemon_sets)?, seen(deployments)?) {
        (Seen::Known(mut sets), Seen::Known(deployments)) => {
            sets.extend(deployments);
            Seen::Known(sets.into_iter().collect())
        }
        (Seen::Unread(why), _) | (_, Seen::Unread(why)) => Seen::Unread(why),
        (Seen::NotServed, _) | (_, Seen::NotServed) => Seen::NotServed,
    };
    Ok(Facts {
        client: telemetry::VERSION.to_owned(),
        server,
        definitions: seen(definitions)?,
        guards: seen(policies.map(|(policies, bindings)| Guards { policies, bindings }))?,
        controller: seen(controller)?,
        bindings: seen(bindings)?,
        agent: seen(agent)?,
        nodes: seen(nodes)?,
        agents: seen(agents)?,
        reports: seen(reports)?.served().map(|reports| reports.into_iter().collect()),
        programs,
        runtime_classes: seen(runtime_classes)?.map(|classes| classes.into_iter().collect()),
        leaving_sets: seen(leaving_sets)?.served(),
        labelled: seen(labelled)?,
        managers,
        helpers: Helpers::default(),
        now: Timestamp::now(),
    })
}

/// What the API server says no to is left out; one that can't be reached is an error.
pub(crate) fn seen<T>(answer: Result<T, WriteError>) -> Result<Seen<T>, Failure> {
    match answer {
        Ok(value) => Ok(Seen::Known(value)),
        Err(WriteError::Transient { message, .. }) => Err(Failure::Unreachable(message)),
        Err(
            WriteError::Denied { message }
            | WriteError::Conflict { message }
            | WriteError::Gone { message }
            | WriteError::Invalid { message },
        ) => Ok(Seen::Unread(message)),
    }
}

pub(crate) async fn server(client: &Client) -> Seen<(u32, u32, String)> {
    match client.apiserver_version().await {
        Ok(info) => {
            // Some providers write `36+`.
            let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or_default();
            Seen::Known((number(&info.major), number(&info.minor), info.git_version))
        }
        Err(error) => Seen::Unread(error.to_string()),
    }
}

async fn each<K, T>(api: Api<K>, view: impl FnMut(K) -> Option<T>) -> Result<Vec<T>, WriteError>
where
    K: Clone + DeserializeOwned + Debug,
{
    list::all(&api, ListParams::default(), view).await
}

fn system<K>(client: &Client) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(client.clone(), names::system_namespace())
}

/// Those of the ClusterRoleBindings that our programs have their rights by.
async fn bindings(client: &Client) -> Result<BTreeSet<String>, WriteError> {
    let api: Api<ClusterRoleBinding> = Api::all(client.clone());
    let mut there = BTreeSet::new();
    for name in [names::CONTROLLER, names::AGENT] {
        // By name: a right to these two is enough.
        if Writes::read(api.get_opt(name)).await?.is_some() {
            there.insert(name.to_owned());
        }
    }
    Ok(there)
}

/// The controller's Deployment; `None`: it is not there.
pub(crate) async fn controller(client: &Client) -> Result<Option<Program>, WriteError> {
    program(system(client), names::CONTROLLER, |deployment: Deployment| {
        let spec = deployment.spec.unwrap_or_default();
        Program {
            image: images(&spec.template).join(", "),
            wanted: spec.replicas.unwrap_or(1),
            ready: deployment.status.unwrap_or_default().ready_replicas.unwrap_or_default(),
        }
    })
    .await
}

/// The agents' DaemonSet; `None`: it is not there.
pub(crate) async fn agent(client: &Client) -> Result<Option<Program>, WriteError> {
    program(system(client), names::AGENT, |set: DaemonSet| {
        let status = set.status.unwrap_or_default();
        let image = images(&set.spec.unwrap_or_default().template).join(", ");
        Program { image, wanted: status.desired_number_scheduled, ready: status.number_ready }
    })
    .await
}

async fn program<K>(api: Api<K>, name: &str, view: impl Fn(K) -> Program) -> Result<Option<Program>, WriteError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    Ok(list::all(&api, named, |object| Some(view(object))).await?.pop())
}

/// What agents say of themselves, by node; `None`: NodeTransitions are not installed.
pub(crate) async fn reports(client: &Client) -> Result<Option<Vec<(String, Report)>>, WriteError> {
    let view = |node: NodeTransition| {
        let name = node.name_any();
        let agent = node.status?.agent?;
        Some((name, Report { version: agent.version, features: agent.features }))
    };
    list::all_if_served(&Api::all(client.clone()), ListParams::default(), view).await
}

pub(crate) async fn agent_pods(client: &Client) -> Result<Vec<AgentPod>, WriteError> {
    let ours = ListParams::default().labels(&format!("{}={}", names::APP_LABEL, names::AGENT));
    list::all(&system(client), ours, |pod| agent_pod(&pod)).await
}

fn agent_pod(pod: &Pod) -> Option<AgentPod> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    Some(AgentPod {
        node: spec.node_name.clone()?,
        ready: ready.is_some_and(|condition| condition.status == "True"),
        since: ready.and_then(|condition| condition.last_transition_time.as_ref()).map(|time| time.0),
        image: spec.containers.iter().filter_map(|container| container.image.as_deref()).collect::<Vec<_>>().join(", "),
    })
}

/// CollaSets that wait for a controller to let them go; `None`: there are none of the kind.
async fn leaving_sets(client: &Client) -> Result<Option<Vec<String>>, WriteError> {
    list::all_if_served(&Api::all(client.clone()), ListParams::default(), |set| leaving(&set)).await
}

fn leaving(set: &CollaSet) -> Option<String> {
    let meta = &set.metadata;
    let waits = meta.finalizers.iter().flatten().any(|finalizer| finalizer == names::COLLA_SET_FINALIZER);
    (meta.deletion_timestamp.is_some() && waits).then(|| place(set))
}

fn node_facts(node: &Node) -> NodeFacts {
    let info = node.status.as_ref().and_then(|status| status.node_info.clone()).unwrap_or_default();
    NodeFacts {
        name: node.name_any(),
        os: info.operating_system,
        is_real: true,
        kernel: info.kernel_version,
        runtime: info.container_runtime_version,
    }
}

fn images(template: &PodTemplateSpec) -> Vec<String> {
    let containers = template.spec.iter().flat_map(|spec| &spec.containers);
    containers.filter_map(|container| container.image.clone()).collect()
}

fn place<K: ResourceExt>(object: &K) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

//! `kubectl hitless restart`: asks for a restart by annotating pods, or by an OperationJob, and waits for it if told to.

mod job;
mod new_pods;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};

use hitless_api::names::annotations;
use hitless_api::pod::{ContainerState, PodView};
use hitless_rollout::round::unfit;
use hitless_runtime::write::{WriteError, Writes};
use hitless_workloads::{Object, Obstacle, OncePerPod, OptIn, image, restart};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::args::{RestartArgs, Target, TargetKind};
use crate::failure::Failure;
use crate::obstacle::InTheWay;
use crate::snapshot::Snapshot;
use crate::source::{self, Live, Scope};
use crate::write::write;
use crate::{say, status};

/// What was asked for: by uid of the pod the containers, and their IDs before.
type Asked = BTreeMap<String, BTreeMap<String, String>>;

pub(crate) async fn run(client: Client, namespace: String, arguments: &RestartArgs) -> Result<(), Failure> {
    let scope = Scope::Namespace(namespace.clone());
    let snapshot = source::read(&client, &scope).await?;
    if arguments.new_pods {
        let decide = |snapshot: &Snapshot| new_pods::decided(snapshot, &arguments.target, Timestamp::now());
        return say(&write(&client, snapshot, &format!("ask for new pods of {}", arguments.target), decide).await?);
    }
    let mut pods = select(&snapshot, &namespace, arguments)?;
    let token = match job::make(&client, &snapshot, &namespace, arguments, &pods).await? {
        Some(token) => token,
        None => annotate(&client, &namespace, arguments, &mut pods).await?,
    };
    let asked: Asked = pods.iter().map(|pod| (pod.id.uid.clone(), ids(pod, &arguments.containers))).collect();
    let workload = snapshot.find(&arguments.target).and_then(|found| found.workload);
    for words in workload.into_iter().flat_map(|object| [to_know(object), not_done(object, &pods)]).flatten() {
        say(&words)?;
    }
    let on = format!("-n {namespace} {}", arguments.target);
    if !arguments.wait {
        return say(&format!("watch it with: kubectl hitless status {on} -w"));
    }
    let live = Live::new(&client, &scope, snapshot.clone());
    let mut last = None;
    let waiting = async {
        loop {
            live.changed().await;
            let Some(snapshot) = live.snapshot() else { continue };
            let left = left(&snapshot, &asked, &token)?;
            let before = last.replace(left.len());
            if before != last && before.is_some() {
                say(&format!("{} of {} pods restarted", asked.len() - left.len(), asked.len()))?;
            }
            if left.is_empty() {
                return Ok(());
            }
        }
    };
    if let Ok(result) = timeout(arguments.timeout, waiting).await {
        return result;
    }
    Err(late(&source::read(&client, &scope).await?, &asked, &token, &on))
}

/// What to know of the workload whose pods are restarted.
fn to_know(object: &Object) -> Option<String> {
    match (object.pause(), object.opt_in()) {
        (Some(pause), _) => Some(format!("it waits: {}", pause.advice(&object.id))),
        (None, OptIn::No) => Some(format!(
            "{} has not opted in: this restart is in place all the same; what changes its template rolls natively, also kubectl rollout restart",
            object.id.target()
        )),
        (None, OptIn::InPlace | OptIn::InPlaceOnly) => None,
    }
}

/// What a restart in place leaves as it is.
fn not_done(object: &Object, pods: &[&PodView]) -> Option<String> {
    let template = object.template()?;
    let left = OncePerPod::of(template).into_iter().chain(OncePerPod::injected(template, pods));
    let left: Vec<String> = left.map(|each| each.to_string()).collect();
    let on = object.id.arguments();
    (!left.is_empty())
        .then(|| format!("in place: {}; for that: kubectl hitless restart --new-pods {on}", left.join(", ")))
}

/// Annotates the pods; those that are gone are taken out. Returns the token.
async fn annotate(
    client: &Client,
    namespace: &str,
    arguments: &RestartArgs,
    pods: &mut Vec<&PodView>,
) -> Result<String, Failure> {
    let token = token(Timestamp::now());
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let writes = Writes::default();
    for pod in std::mem::take(pods) {
        let name = &pod.id.name;
        let patch = Patch::Merge(patch(pod, &token, &arguments.containers));
        match writes.send("pods", api.patch(name, &PatchParams::default(), &patch)).await {
            Ok(_) => {
                say(&format!("pod/{name} restart requested"))?;
                pods.push(pod);
            }
            Err(WriteError::Conflict { .. } | WriteError::Gone { .. }) => {
                say(&format!("pod/{name} has been replaced meanwhile, so it needs no restart"))?;
            }
            Err(error) => return Err(Failure::of(format!("annotate pod {name}"), error)),
        }
    }
    Ok(token)
}

/// The pods that are meant, all of them fit for it.
fn select<'a>(snapshot: &'a Snapshot, namespace: &str, arguments: &RestartArgs) -> Result<Vec<&'a PodView>, Failure> {
    let Target { kind, .. } = &arguments.target;
    let target = &arguments.target;
    let found = snapshot.find(target);
    let pods: Vec<&PodView> = match (kind, found) {
        (_, Some(found)) => found.pods.into_iter().filter(|pod| !pod.terminating || *kind == TargetKind::Pod).collect(),
        (TargetKind::Workload(_), None) => return Err(snapshot.missing(&format!("{target} does not exist"))),
        (TargetKind::Pod, None) => Vec::new(),
    };
    if pods.is_empty() {
        return Err(Failure::NotFound(match kind {
            TargetKind::Workload(_) => format!("{target} has no pods; scale it up, then they start fresh anyway"),
            TargetKind::Pod => format!("{target} does not run in namespace {namespace}; is -n the right one?"),
        }));
    }
    for pod in &pods {
        if let Some(unknown) = arguments.containers.iter().find(|container| pod.container(container).is_none()) {
            let known: Vec<_> = pod.containers.iter().map(|container| container.name.as_str()).collect();
            let message = format!("pod {} has no container {unknown}; it has: {}", pod.id.name, known.join(", "));
            return Err(Failure::Usage(message));
        }
        if let Some(why) = unfit(pod) {
            let why = InTheWay::from(&why);
            return Err(Failure::Failed(format!("pod {} can't be restarted in place: {why}", pod.id.name)));
        }
        let is_meant = |name: &String| arguments.containers.is_empty() || arguments.containers.contains(name);
        let mut meant = pod.containers.iter().filter(|container| is_meant(&container.name));
        if let Some(container) = meant.find(|container| image::has_no_other_name(container)) {
            let why = Obstacle::DigestUnknown { container: container.name.clone() };
            return Err(Failure::Failed(format!("pod {}: {why}", pod.id.name)));
        }
    }
    Ok(pods)
}

/// Names this restart; sorts by time, and two in the same second differ.
fn token(now: Timestamp) -> String {
    let random = RandomState::new().build_hasher().finish() % 0x1_0000;
    format!("{}-{random:04x}", now.strftime("%Y%m%dt%H%M%Sz"))
}

/// With the uid, so that a new pod of the same name is not restarted. `null` removes what an earlier request has left.
fn patch(pod: &PodView, token: &str, containers: &[String]) -> Value {
    let containers = if containers.is_empty() { Value::Null } else { containers.join(",").into() };
    json!({"metadata": {"uid": pod.id.uid, "annotations": {
        annotations::RESTART: token,
        annotations::RESTART_CONTAINERS: containers,
    }}})
}

/// Names of the pods that are still to be restarted; a pod that is gone is not.
fn left(snapshot: &Snapshot, asked: &Asked, token: &str) -> Result<Vec<String>, Failure> {
    let grants = snapshot.cluster.node_transitions.values().flat_map(|node| {
        node.spec.grants.iter().filter_map(|grant| Some((grant, node.transition(grant)?.result.as_ref()?)))
    });
    for (grant, result) in grants {
        let ours =
            grant.annotations.get(annotations::RESTARTED).is_some_and(|change| change.to.as_deref() == Some(token));
        if ours && result.is_lasting() {
            let message = format!("restart of pod {} ended as {:?}: {}", grant.pod.name, result.outcome, result.reason);
            return Err(Failure::Failed(message));
        }
    }
    job::failed(snapshot, token)?;
    let nodes = snapshot.cluster.node_transitions.values();
    let operated: BTreeSet<&str> =
        nodes.flat_map(|node| node.unfinished()).map(|grant| grant.pod.uid.as_str()).collect();
    let is_over = |pod: &PodView, before| has_restarted(pod, before, token) && !operated.contains(pod.id.uid.as_str());
    Ok(snapshot
        .pods()
        .filter(|pod| asked.get(&pod.id.uid).is_some_and(|before| !is_over(pod, before)))
        .map(|pod| pod.id.name.clone())
        .collect())
}

/// A held pod stays Ready, and the annotation comes before the restart: that new containers run is what tells.
fn has_restarted(pod: &PodView, before: &BTreeMap<String, String>, token: &str) -> bool {
    let is_new = |(name, id): (&String, &String)| {
        let status = pod.container(name).and_then(|container| container.status.as_ref());
        status.is_some_and(|now| !now.container_id.is_empty() && now.container_id != *id)
    };
    pod.annotations
        .get(annotations::RESTARTED)
        .is_some_and(|done| done == token || restart::annotated(done) == Some(token))
        && pod.ready()
        && before.iter().all(is_new)
}

/// IDs of these containers, or of all.
fn ids(pod: &PodView, only: &[String]) -> BTreeMap<String, String> {
    let meant = pod.containers.iter().filter(|container| only.is_empty() || only.contains(&container.name));
    let id = |status: &ContainerState| status.container_id.clone();
    meant.map(|each| (each.name.clone(), each.status.as_ref().map(id).unwrap_or_default())).collect()
}

/// Why it takes too long.
fn late(snapshot: &Snapshot, asked: &Asked, token: &str, on: &str) -> Failure {
    let left = match left(snapshot, asked, token) {
        Ok(left) => left,
        Err(failure) => return failure,
    };
    let report = status::observe(snapshot, Timestamp::now());
    let pods = report.workloads.iter().flat_map(|workload| &workload.pods);
    crate::wait::late("the restart", on, pods.filter(|pod| left.contains(&pod.name)))
}

#[cfg(test)]
mod tests;

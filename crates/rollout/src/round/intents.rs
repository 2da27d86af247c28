//! What is wished: by Deployments, and by restart annotations on pods.

use std::collections::{BTreeSet, HashMap};

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{Grant, PodRef};
use hitless_workloads::deployment::{Observed, OptIn, plan};
use hitless_workloads::{DeploymentPlan, DeploymentView, Obstacle, Owners, PodIntent, ReplicaSetView, Stage, restart};

use super::events;
use super::write::{Step, Write};
use crate::snapshot::Snapshot;

/// A Deployment and what is planned for it.
pub(super) struct Workload<'a> {
    pub(super) deployment: &'a DeploymentView,
    pub(super) plan: DeploymentPlan,
}

impl Workload<'_> {
    pub(super) fn step(&self) -> Option<Step> {
        let write = self.plan.next_write.clone()?;
        let done = events::after(self, &write);
        Some(Step { write: Write::Workload { workload: self.name(), write }, needs: Vec::new(), done })
    }

    /// `<namespace>/<name>`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.deployment.namespace, self.deployment.name)
    }
}

/// What one pod needs.
#[derive(Clone)]
pub(super) struct Wish<'a> {
    pub(super) pod: &'a PodView,
    pub(super) intent: Result<PodIntent, Obstacle>,
    /// Index of the workload that it belongs to, if that is driven.
    pub(super) workload: Option<usize>,
}

/// All wishes, and the indices to look things up.
pub(super) struct Wishes<'a> {
    pub(super) workloads: Vec<Workload<'a>>,
    pub(super) by_pod: HashMap<&'a str, Wish<'a>>,
    pub(super) pods: HashMap<&'a str, &'a PodView>,
    pub(super) owners: Owners<'a>,
    by_target: HashMap<(&'a str, String), usize>,
    /// Index of the workload by uid of the Deployment.
    driven: HashMap<&'a str, usize>,
}

impl Wishes<'_> {
    /// `<kind>/<name>` of the pod's top workload, or empty.
    pub(super) fn owner_label(&self, pod: &PodView) -> String {
        self.owners.of(pod).map(|(owner, _)| format!("{}/{}", owner.kind, owner.name)).unwrap_or_default()
    }

    /// The workload in that namespace whose pods are to be brought to that revision.
    pub(super) fn workload_of_target(&self, namespace: &str, revision: &str) -> Option<usize> {
        self.by_target.get(&(namespace, revision.to_owned())).copied()
    }

    /// Index of the workload that the pod belongs to, if we look after that.
    pub(super) fn workload_of(&self, pod: &PodView) -> Option<usize> {
        let (owner, _) = self.owners.of(pod)?;
        self.driven.get(owner.uid.as_str()).copied()
    }

    /// Whether what the grant leads to is still wished.
    pub(super) fn wants(&self, grant: &Grant) -> bool {
        if let Some(revision) = target(grant) {
            return self
                .workload_of_target(&grant.pod.namespace, revision)
                .is_some_and(|index| self.workloads[index].plan.drives());
        }
        let token = grant.annotations.get(annotations::RESTARTED).and_then(|change| change.to.as_ref());
        let pod = self.pods.get(grant.pod.uid.as_str());
        match (token, pod.and_then(|pod| pod.annotations.get(annotations::RESTART))) {
            // A token that changed meanwhile queues one more restart and takes nothing from this one (CONTRACT 2).
            (Some(_), Some(wished)) => !wished.is_empty(),
            _ => false,
        }
    }

    /// Whether the pod needs an operation now that can be done, and it is another one.
    pub(super) fn has_another_wish(&self, grant: &Grant) -> bool {
        let wish = self.by_pod.get(grant.pod.uid.as_str());
        wish.and_then(|wish| wish.intent.as_ref().ok()).is_some_and(|intent| intent.id() != grant.id)
    }

    /// Whether it is the very operation that the pod needs now.
    pub(super) fn is_the_wish(&self, grant: &Grant) -> bool {
        let wish = self.by_pod.get(grant.pod.uid.as_str());
        wish.and_then(|wish| wish.intent.as_ref().ok()).is_some_and(|intent| intent.id() == grant.id)
    }
}

/// Every operation that a pod needs or has; for a pod that has none, the one that [`PodIntent::assumed`] names.
pub(crate) fn operations(snapshot: &Snapshot) -> Vec<(&PodView, String)> {
    let wishes = derive(snapshot);
    let needed = wishes.by_pod.values().filter_map(|wish| Some((wish.pod, wish.intent.as_ref().ok()?.id())));
    let granted = snapshot.node_transitions.values().flat_map(|node| &node.spec.grants);
    let granted = granted.filter_map(|grant| Some((*wishes.pods.get(grant.pod.uid.as_str())?, grant.id.clone())));
    let others = snapshot.pods.iter().filter(|pod| !wishes.by_pod.contains_key(pod.id.uid.as_str()));
    needed.chain(granted).chain(others.map(|pod| (&**pod, PodIntent::assumed(pod).id()))).collect()
}

/// Revision that the grant brings its pod to.
pub(super) fn target(grant: &Grant) -> Option<&str> {
    grant.annotations.get(annotations::REVISION)?.to.as_deref()
}

pub(super) fn derive(snapshot: &Snapshot) -> Wishes<'_> {
    let pods: HashMap<&str, &PodView> = snapshot.pods.iter().map(|pod| (pod.id.uid.as_str(), &**pod)).collect();
    let owners = Owners::new(&snapshot.replica_sets, &snapshot.deployments);
    let mut wishes = Wishes {
        workloads: plans(snapshot),
        by_pod: HashMap::new(),
        pods,
        owners,
        by_target: HashMap::new(),
        driven: HashMap::new(),
    };
    for (index, workload) in wishes.workloads.iter().enumerate() {
        let deployment = workload.deployment;
        wishes.driven.insert(deployment.uid.as_str(), index);
        if deployment.opt_in() != OptIn::No {
            wishes.by_target.insert((deployment.namespace.as_str(), workload.plan.target.clone()), index);
        }
        for wish in &workload.plan.wishes {
            if let Some((uid, pod)) = wishes.pods.get_key_value(wish.pod.uid.as_str()) {
                wishes.by_pod.insert(uid, Wish { pod, intent: wish.intent.clone(), workload: Some(index) });
            }
        }
    }
    for pod in snapshot.pods.iter().filter(|pod| !pod.terminating && !pod.finished) {
        if wishes.by_pod.contains_key(pod.id.uid.as_str()) {
            continue;
        }
        let Some(wish) = restart::wish(pod) else { continue };
        let workload = wishes.workload_of(pod);
        let plan = workload.map(|index| &wishes.workloads[index].plan);
        if let Some(revision) = revision_of_restart(plan, &pod.id) {
            let intent = wish.intent(pod, revision);
            wishes.by_pod.insert(pod.id.uid.as_str(), Wish { pod, intent, workload });
        }
    }
    wishes
}

/// The revision that a restart records on the pod; `None` if it has to wait: the pod is about to be brought to another
/// revision, and the restart goes along, or the pod is about to be replaced.
#[allow(clippy::option_option, reason = "not now, now without a revision, now with this one")]
fn revision_of_restart<'p>(plan: Option<&'p DeploymentPlan>, pod: &PodRef) -> Option<Option<&'p str>> {
    let Some(plan) = plan else { return Some(None) };
    match plan.stage {
        Stage::NotOurs | Stage::Refused(_) => Some(None),
        Stage::Native | Stage::SteppingAside(_) => None,
        Stage::Idle => Some((!plan.behind.contains(&pod.uid)).then_some(plan.target.as_str())),
        Stage::Rolling | Stage::Finishing => (!plan.behind.contains(&pod.uid)).then_some(Some(plan.target.as_str())),
    }
}

/// Plans of all Deployments that have opted in or still carry something of ours.
fn plans(snapshot: &Snapshot) -> Vec<Workload<'_>> {
    let mut sets: HashMap<&str, Vec<&ReplicaSetView>> = HashMap::new();
    for set in &snapshot.replica_sets {
        if let Some(owner) = &set.owner {
            sets.entry(owner.uid.as_str()).or_default().push(set);
        }
    }
    let ours = |set: &&ReplicaSetView| set.is_labelled();
    let concerned: Vec<&DeploymentView> = snapshot
        .deployments
        .iter()
        .map(|each| &**each)
        .filter(|each| {
            each.opt_in() != OptIn::No
                || each.marked()
                || sets.get(each.uid.as_str()).is_some_and(|sets| sets.iter().any(ours))
        })
        .collect();
    let wanted: BTreeSet<&str> =
        concerned.iter().filter_map(|each| sets.get(each.uid.as_str())).flatten().map(|set| set.uid.as_str()).collect();
    let mut pods: HashMap<&str, Vec<&PodView>> = HashMap::new();
    for pod in &snapshot.pods {
        if let Some(uid) = pod.owner.as_ref().map(|owner| owner.uid.as_str())
            && wanted.contains(uid)
        {
            pods.entry(uid).or_default().push(pod);
        }
    }
    let operating = operating(snapshot);
    concerned
        .into_iter()
        .map(|deployment| {
            let sets: &[&ReplicaSetView] = sets.get(deployment.uid.as_str()).map_or(&[], Vec::as_slice);
            let pods: Vec<&PodView> =
                sets.iter().filter_map(|set| pods.get(set.uid.as_str())).flatten().copied().collect();
            let plan = plan(Observed { deployment, replica_sets: sets, pods: &pods, operating: &operating });
            Workload { deployment, plan }
        })
        .collect()
}

/// uids of pods with an operation that is not over: a live grant, or a place in a ledger.
fn operating(snapshot: &Snapshot) -> BTreeSet<String> {
    let nodes = snapshot.node_transitions.values();
    let granted = nodes.flat_map(|node| node.unfinished()).map(|grant| grant.pod.uid.clone());
    let reserved = snapshot.ledgers.values().flat_map(|ledger| ledger.spec.reservations.keys().cloned());
    granted.chain(reserved).collect()
}

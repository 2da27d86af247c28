//! From what is in the cluster to what is said of it. Pure; the same workload logic as the controller's.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hitless_api::pod::PodView;
use hitless_api::{Grant, MicroTime, Outcome, Phase, Reservation, Transition, TransitionResult};
use hitless_workloads::deployment::{Because, Observed, OptIn};
use hitless_workloads::{DeploymentPlan, DeploymentView, ReplicaSetView, Stage, plan, restart};
use jiff::Timestamp;

use super::report::{PodStatus, Report, State, WorkloadStatus};
use super::why::{self, Denials};
use crate::snapshot::Snapshot;

/// Which Deployment a pod belongs to.
pub(super) struct Owners<'a> {
    by_replica_set: HashMap<&'a str, &'a DeploymentView>,
}

impl<'a> Owners<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let deployments: HashMap<&str, &DeploymentView> =
            snapshot.deployments.iter().map(|deployment| (deployment.uid.as_str(), &**deployment)).collect();
        let by_replica_set = snapshot
            .replica_sets
            .iter()
            .filter_map(|set| Some((set.uid.as_str(), *deployments.get(set.owner.as_ref()?.uid.as_str())?)));
        Self { by_replica_set: by_replica_set.collect() }
    }

    pub(super) fn deployment(&self, pod: &PodView) -> Option<&'a DeploymentView> {
        self.by_replica_set.get(pod.owner.as_ref()?.uid.as_str()).copied()
    }
}

/// What is under way for a pod.
#[derive(Clone, Copy)]
struct Operation<'a> {
    grant: &'a Grant,
    transition: Option<&'a Transition>,
}

/// The pods of a Deployment, by name.
pub(crate) fn owned<'a>(snapshot: &'a Snapshot, namespace: &str, deployment: &str) -> Vec<&'a PodView> {
    let owners = Owners::new(snapshot);
    let is_owner = |owner: &DeploymentView| owner.namespace == namespace && owner.name == deployment;
    let mut pods: Vec<_> =
        snapshot.pods.iter().map(|pod| &**pod).filter(|pod| owners.deployment(pod).is_some_and(is_owner)).collect();
    pods.sort_by_key(|pod| &pod.id.name);
    pods
}

/// What is to be said as of `now`.
pub(crate) fn observe(snapshot: &Snapshot, now: Timestamp) -> Report {
    let owners = Owners::new(snapshot);
    let operations: HashMap<&str, Operation<'_>> = snapshot
        .nodes
        .iter()
        .flat_map(|node| {
            node.spec
                .grants
                .iter()
                .map(|grant| (grant.pod.uid.as_str(), Operation { grant, transition: node.transition(grant) }))
        })
        .collect();
    let reservations: HashMap<&str, &Reservation> = snapshot
        .ledgers
        .iter()
        .flat_map(|ledger| ledger.reservations.iter().map(|(uid, reservation)| (uid.as_str(), reservation)))
        .collect();
    let observer = Observer { snapshot, owners: &owners, operations, reservations, now };
    observer.report()
}

struct Observer<'a> {
    snapshot: &'a Snapshot,
    owners: &'a Owners<'a>,
    operations: HashMap<&'a str, Operation<'a>>,
    reservations: HashMap<&'a str, &'a Reservation>,
    now: Timestamp,
}

/// A workload with its pods, before anybody was asked why.
struct Group<'a> {
    deployment: Option<(&'a DeploymentView, DeploymentPlan)>,
    pods: Vec<&'a PodView>,
}

impl<'a> Observer<'a> {
    fn report(&self) -> Report {
        let mut groups: BTreeMap<(String, String), Group<'a>> = BTreeMap::new();
        for deployment in &self.snapshot.deployments {
            let key = (deployment.namespace.clone(), format!("deployment/{}", deployment.name));
            groups.insert(key, Group { deployment: Some((deployment, self.plan(deployment))), pods: Vec::new() });
        }
        for pod in &self.snapshot.pods {
            let name = match (self.owners.deployment(pod), &pod.owner) {
                (Some(deployment), _) => format!("deployment/{}", deployment.name),
                (None, Some(owner)) => format!("{}/{}", owner.kind.to_lowercase(), owner.name),
                (None, None) => format!("pod/{}", pod.id.name),
            };
            let key = (pod.id.namespace.clone(), name);
            groups.entry(key).or_insert_with(|| Group { deployment: None, pods: Vec::new() }).pods.push(pod);
        }
        groups.retain(|_, group| self.is_of_interest(group));
        let waiting = groups.values().flat_map(|group| group.pods.iter().filter(|pod| self.waits(group, pod)));
        let candidates: BTreeSet<String> = waiting.map(|pod| pod.id.uid.clone()).collect();
        let denials = why::denials(self.snapshot, self.owners, &candidates, self.now);
        let workloads =
            groups.into_iter().map(|((namespace, name), group)| self.workload(namespace, name, &group, &denials));
        Report { workloads: workloads.collect() }
    }

    fn plan(&self, deployment: &DeploymentView) -> DeploymentPlan {
        let same = |namespace: &str| namespace == deployment.namespace;
        let sets: Vec<&ReplicaSetView> =
            self.snapshot.replica_sets.iter().map(|set| &**set).filter(|set| same(&set.namespace)).collect();
        let pods: Vec<&PodView> =
            self.snapshot.pods.iter().map(|pod| &**pod).filter(|pod| same(&pod.id.namespace)).collect();
        let unfinished = |operation: &Operation<'_>| operation.transition.is_none_or(|t| t.result.is_none());
        let operating: BTreeSet<String> = self
            .operations
            .iter()
            .filter(|(_, operation)| unfinished(operation))
            .map(|(uid, _)| (*uid).to_owned())
            .collect();
        plan(Observed { deployment, replica_sets: &sets, pods: &pods, operating: &operating })
    }

    fn is_of_interest(&self, group: &Group<'_>) -> bool {
        let opted_in = group.deployment.as_ref().is_some_and(|(deployment, _)| deployment.opt_in() != OptIn::No);
        let touched =
            |pod: &&PodView| self.operations.contains_key(pod.id.uid.as_str()) || restart::wish(pod).is_some();
        opted_in || group.pods.iter().any(touched)
    }

    /// Whether something is wished for the pod that has not begun.
    fn waits(&self, group: &Group<'_>, pod: &PodView) -> bool {
        let uid = pod.id.uid.as_str();
        if self.operations.contains_key(uid) || self.reservations.contains_key(uid) || pod.terminating {
            return false;
        }
        let outdated = group.deployment.as_ref().is_some_and(|(_, plan)| {
            matches!(plan.stage, Stage::Rolling | Stage::Finishing) && plan.behind.contains(uid)
        });
        outdated || restart::wish(pod).is_some()
    }

    fn workload(&self, namespace: String, name: String, group: &Group<'_>, denials: &Denials) -> WorkloadStatus {
        let mut pods: Vec<PodStatus> = group.pods.iter().map(|pod| self.pod(group, pod, denials)).collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        let halted = pods.iter().find(|pod| pod.halts);
        let (stage, why) = group.deployment.as_ref().map_or_else(Default::default, |(_, plan)| stage(plan));
        let why = match halted {
            Some(pod) if why.is_empty() && stage == "Rolling" => {
                format!("halted, because {} ended as {}; set another image, or the old one again", pod.name, pod.state)
            }
            _ => why,
        };
        let deployment = group.deployment.as_ref();
        WorkloadStatus {
            namespace,
            name,
            stage,
            held: deployment.is_some_and(|(deployment, _)| deployment.marked()),
            updated: deployment.map_or(0, |(_, plan)| plan.up_to_date()),
            total: deployment.map_or(pods.len(), |(_, plan)| plan.total),
            replicas: deployment.map(|(deployment, _)| deployment.replicas),
            why,
            pods,
        }
    }

    fn pod(&self, group: &Group<'_>, pod: &PodView, denials: &Denials) -> PodStatus {
        let mut status = PodStatus {
            name: pod.id.name.clone(),
            uid: pod.id.uid.clone(),
            node: pod.node.clone(),
            ready: pod.ready(),
            state: State::UpToDate,
            connections: None,
            elapsed_seconds: None,
            deadline_seconds: None,
            why: String::new(),
            blocked: false,
            halts: false,
        };
        if let Some(operation) = self.operations.get(pod.id.uid.as_str()) {
            self.describe(*operation, &mut status);
        } else if let Some(reservation) = self.reservations.get(pod.id.uid.as_str()) {
            status.state = State::Reserved;
            status.elapsed_seconds = Some(self.seconds_since(&reservation.since));
            "its place in the budget is taken, the grant is being written".clone_into(&mut status.why);
        } else if self.waits(group, pod) {
            status.state = State::Waiting;
            (status.why, status.blocked) = self.why(group, pod, denials);
        } else if pod.terminating {
            "the pod is being deleted".clone_into(&mut status.why);
        } else if !pod.ready() {
            "not ready".clone_into(&mut status.why);
        }
        status
    }

    fn describe(&self, operation: Operation<'_>, status: &mut PodStatus) {
        let Operation { grant, transition } = operation;
        let Some(transition) = transition else {
            status.state = State::Running(Phase::Granted);
            status.elapsed_seconds = Some(self.seconds_since(&grant.granted));
            status.why = format!("the agent on node {}", status.node.as_deref().unwrap_or("?"));
            return;
        };
        status.state = transition.result.as_ref().map_or(State::Running(transition.phase), |r| State::Ended(r.outcome));
        status.elapsed_seconds = Some(self.seconds_since(&transition.since));
        let mut said: Vec<&str> = Vec::new();
        if let Some(result) = &transition.result {
            if result.outcome != Outcome::Done {
                said.push(&result.reason);
                status.halts = halts(result);
            }
        } else {
            status.connections = transition.connections;
            status.deadline_seconds = transition.deadline.as_ref().map(|deadline| -self.seconds_since(deadline));
            said.extend(transition.rollback.as_deref());
            said.extend(grant.cancel.as_ref().map(|cancel| cancel.reason.as_str()));
        }
        said.extend(Some(transition.message.as_str()).filter(|message| !message.is_empty()));
        status.why = said.join(": ");
    }

    /// Why a pod waits, and whether a rule is the reason.
    fn why(&self, group: &Group<'_>, pod: &PodView, denials: &Denials) -> (String, bool) {
        if let Some(unfit) = why::unfit(pod) {
            return (unfit.to_owned(), false);
        }
        let wishes = group.deployment.iter().flat_map(|(_, plan)| &plan.wishes);
        let obstacle = wishes.filter(|wish| wish.pod.uid == pod.id.uid).find_map(|wish| wish.intent.as_ref().err());
        if let Some(obstacle) = obstacle {
            return (format!("{}: {obstacle}", obstacle.reason()), false);
        }
        if let Some(Some(denial)) = denials.get(&pod.id.uid) {
            return (denial.clone(), true);
        }
        // What was said of the pod itself is closer than what was said of its workload.
        let uids =
            [pod.id.uid.as_str()].into_iter().chain(group.deployment.iter().map(|(owner, _)| owner.uid.as_str()));
        let events = || self.snapshot.events.iter().map(|event| &**event);
        let said = uids.into_iter().find_map(|uid| why::last_event(events(), uid));
        (said.unwrap_or_else(|| "the controller; no rule is in the way".to_owned()), false)
    }

    fn seconds_since(&self, time: &MicroTime) -> i64 {
        self.now.duration_since(time.0).as_secs()
    }
}

/// Whether a result stops the rollout: a person has to look. Some refusals are only a matter of time.
pub(crate) fn halts(result: &TransitionResult) -> bool {
    match result.outcome {
        Outcome::Done | Outcome::Cancelled => false,
        Outcome::Refused => !matches!(result.reason.as_str(), "Expired" | "Busy" | "PodAvailable"),
        Outcome::RolledBack | Outcome::Failed => true,
    }
}

fn stage(plan: &DeploymentPlan) -> (&'static str, String) {
    match &plan.stage {
        Stage::NotOurs => ("NotOptedIn", String::new()),
        Stage::Idle => ("Idle", String::new()),
        Stage::Native => ("Native", "the Deployment controller, which rolls it Kubernetes' own way".to_owned()),
        Stage::Rolling => ("Rolling", String::new()),
        Stage::Finishing => ("Finishing", "all pods are updated; ReplicaSet and Deployment follow".to_owned()),
        Stage::SteppingAside(because) => {
            ("SteppingAside", format!("{}; it goes on Kubernetes' own way", reason(because)))
        }
        Stage::Refused(because) => (
            "Refused",
            format!(
                "{}; change it back, or let it roll Kubernetes' own way (hitless.dev/update: in-place)",
                reason(because)
            ),
        ),
    }
}

fn reason(because: &Because) -> String {
    match because {
        Because::Field(field) => format!("{field} can't be changed in a running pod"),
        Because::NativeRollout => "several ReplicaSets have pods".to_owned(),
        Because::NoReplicaSet => "it has no ReplicaSet".to_owned(),
    }
}

#[cfg(test)]
mod tests;

//! From what is in the cluster to what is said of it. Pure; the same workload logic as the controller's.

use std::collections::BTreeMap;

use hitless_api::pod::PodView;
use hitless_api::{Grant, MicroTime, Outcome, Phase};
use hitless_gate::Verdict;
use hitless_workloads::deployment::{Because, OptIn};
use hitless_workloads::{DeploymentPlan, DeploymentView, Owners, Stage, restart};
use jiff::Timestamp;

use super::report::{PodStatus, Report, State, WorkloadStatus};
use crate::judge::{Judge, Operation};
use crate::snapshot::{EventView, Snapshot};

/// The pods of a Deployment, by name.
pub(crate) fn owned<'a>(snapshot: &'a Snapshot, namespace: &str, deployment: &str) -> Vec<&'a PodView> {
    let owners = Owners::new(&snapshot.replica_sets, &snapshot.deployments);
    let is_owner = |owner: &DeploymentView| owner.namespace == namespace && owner.name == deployment;
    let mut pods: Vec<_> =
        snapshot.pods.iter().map(|pod| &**pod).filter(|pod| owners.deployment(pod).is_some_and(is_owner)).collect();
    pods.sort_by_key(|pod| &pod.id.name);
    pods
}

/// What is to be said as of `now`.
pub(crate) fn observe(snapshot: &Snapshot, now: Timestamp) -> Report {
    Observer { judge: &Judge::new(snapshot, now) }.report(|observer, group| observer.is_of_interest(group)).0
}

/// The same of every workload and pod, and what the rules said of those that wait, by uid.
pub(crate) fn observe_all<'a>(judge: &'a Judge<'a>) -> (Report, Verdicts) {
    Observer { judge }.report(|_, _| true)
}

/// The rules' answers by uid of the pod.
pub(crate) type Verdicts = BTreeMap<String, Verdict>;

struct Observer<'a> {
    judge: &'a Judge<'a>,
}

/// A workload with its pods, before anybody was asked why.
struct Group<'a> {
    deployment: Option<(&'a DeploymentView, &'a DeploymentPlan)>,
    pods: Vec<&'a PodView>,
}

impl<'a> Observer<'a> {
    fn report(&self, is_of_interest: impl Fn(&Self, &Group<'a>) -> bool) -> (Report, Verdicts) {
        let judge = self.judge;
        let mut groups: BTreeMap<(String, String), Group<'a>> = BTreeMap::new();
        for deployment in &judge.snapshot.deployments {
            let key = (deployment.namespace.clone(), format!("deployment/{}", deployment.name));
            let plan = judge.plan(deployment).map(|plan| (&**deployment, plan));
            groups.insert(key, Group { deployment: plan, pods: Vec::new() });
        }
        for pod in &judge.snapshot.pods {
            let key = (pod.id.namespace.clone(), judge.owner_label(pod));
            groups.entry(key).or_insert_with(|| Group { deployment: None, pods: Vec::new() }).pods.push(pod);
        }
        // All that wait are asked about, also where only some are shown: they compete for the same room.
        let waiting: Vec<&PodView> =
            judge.snapshot.pods.iter().map(|pod| &**pod).filter(|pod| judge.wish(pod).is_some()).collect();
        let verdicts = judge.ask(&waiting);
        groups.retain(|_, group| is_of_interest(self, group));
        let workloads =
            groups.into_iter().map(|((namespace, name), group)| self.workload(namespace, name, &group, &verdicts));
        (Report { workloads: workloads.collect() }, verdicts)
    }

    fn is_of_interest(&self, group: &Group<'_>) -> bool {
        let opted_in = group.deployment.as_ref().is_some_and(|(deployment, _)| deployment.opt_in() != OptIn::No);
        let touched =
            |pod: &&PodView| self.judge.operations.contains_key(pod.id.uid.as_str()) || restart::wish(pod).is_some();
        opted_in || group.pods.iter().any(touched)
    }

    fn workload(&self, namespace: String, name: String, group: &Group<'_>, verdicts: &Verdicts) -> WorkloadStatus {
        let mut pods: Vec<PodStatus> = group.pods.iter().map(|pod| self.pod(pod, group, verdicts)).collect();
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

    fn pod(&self, pod: &PodView, group: &Group<'_>, verdicts: &Verdicts) -> PodStatus {
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
        if let Some(operation) = self.judge.operations.get(pod.id.uid.as_str()) {
            self.describe(*operation, &mut status);
        } else if let Some(reservation) = self.judge.reservations.get(pod.id.uid.as_str()) {
            status.state = State::Reserved;
            status.elapsed_seconds = Some(self.seconds_since(&reservation.since));
            "its place in the budget is taken, the grant is being written".clone_into(&mut status.why);
        } else if self.judge.wish(pod).is_some() {
            status.state = State::Waiting;
            (status.why, status.blocked) = self.why(group, pod, verdicts);
        } else if pod.terminating {
            "the pod is being deleted".clone_into(&mut status.why);
        } else if !pod.ready() {
            "not ready".clone_into(&mut status.why);
        }
        status
    }

    fn describe(&self, operation: Operation<'_>, status: &mut PodStatus) {
        let Operation { grant, transition } = operation;
        let mode = mode(grant);
        let Some(transition) = transition else {
            status.state = State::Running(Phase::Granted);
            status.elapsed_seconds = Some(self.seconds_since(&grant.granted));
            let agent = format!("the agent on node {}", status.node.as_deref().unwrap_or("?"));
            status.why = [mode, Some(agent)].into_iter().flatten().collect::<Vec<_>>().join(": ");
            return;
        };
        status.state = transition.result.as_ref().map_or(State::Running(transition.phase), |r| State::Ended(r.outcome));
        status.elapsed_seconds = Some(self.seconds_since(&transition.since));
        let mut said: Vec<&str> = Vec::new();
        if let Some(result) = &transition.result {
            if result.outcome != Outcome::Done {
                said.push(&result.reason);
                status.halts = result.is_lasting();
            }
        } else {
            status.connections = transition.connections;
            status.deadline_seconds = transition.deadline.as_ref().map(|deadline| -self.seconds_since(deadline));
            said.extend(mode.as_deref());
            said.extend(transition.rollback.as_deref());
            said.extend(grant.cancel.as_ref().map(|cancel| cancel.reason.as_str()));
        }
        said.extend(Some(transition.message.as_str()).filter(|message| !message.is_empty()));
        status.why = said.join(": ");
    }

    /// Why a pod waits, and whether a rule is the reason.
    fn why(&self, group: &Group<'_>, pod: &PodView, verdicts: &Verdicts) -> (String, bool) {
        if let Some(found) = self.judge.in_the_way(pod).first() {
            return (found.to_string(), false);
        }
        if let Some(verdict) = verdicts.get(&pod.id.uid).filter(|verdict| !verdict.allowed) {
            let denied: Vec<String> = verdict.denied().map(ToString::to_string).collect();
            return (denied.join("; "), true);
        }
        // What was said of the pod itself is closer than what was said of its workload.
        let uids =
            [pod.id.uid.as_str()].into_iter().chain(group.deployment.iter().map(|(owner, _)| owner.uid.as_str()));
        let events = || self.judge.snapshot.events.iter().map(|event| &**event);
        let said = uids.into_iter().find_map(|uid| last_event(events(), uid));
        (said.unwrap_or_else(|| "the controller; no rule is in the way".to_owned()), false)
    }

    fn seconds_since(&self, time: &MicroTime) -> i64 {
        self.judge.now.duration_since(time.0).as_secs()
    }
}

/// Whether the pod leaves or is held, and why.
fn mode(grant: &Grant) -> Option<String> {
    (!grant.mode_reason.is_empty()).then(|| format!("{} ({})", grant.mode.as_str(), grant.mode_reason))
}

/// The last thing that the controller said of an object, if it was of the kind that explains waiting.
fn last_event<'a>(events: impl IntoIterator<Item = &'a EventView>, uid: &str) -> Option<String> {
    let last = events.into_iter().filter(|event| event.regarding == uid).max_by_key(|event| event.time)?;
    let waits = !matches!(last.reason.as_str(), "RolloutHeld" | "RolloutFinished" | "NativeRollout");
    waits.then(|| format!("{}: {}", last.reason, last.note))
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

/// Why a change is not made in place.
pub(crate) fn reason(because: &Because) -> String {
    match because {
        Because::Field(field) => format!("{field} can't be changed in a running pod"),
        Because::NativeRollout => "several ReplicaSets have pods".to_owned(),
        Because::NoReplicaSet => "it has no ReplicaSet".to_owned(),
    }
}

#[cfg(test)]
mod tests;

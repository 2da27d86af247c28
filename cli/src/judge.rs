//! Whether pods may go, asked of a snapshot: the controller's own planner and gate, and what besides rules can be in the way.
//! `status`, `why` and `plan` all ask here.

mod approvals;
mod mode;
mod obstacle;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hitless_api::pod::PodView;
use hitless_api::{
    Grant, GrantOp, NodeTransition, NodeTransitionSpec, Phase, Propagation, Reservation, Transition, TransitionResult,
};
use hitless_gate::{Because, Candidate, Gate, GateInput, Held, OwnerFacts, OwnerKey, PodFacts, RuleSet, Verdict};
use hitless_rollout::mode::{Policies, Traffic};
use hitless_workloads::deployment::Observed;
use hitless_workloads::{DeploymentPlan, DeploymentView, Owners, ReplicaSetView, Stage, plan, restart};
use jiff::Timestamp;

use crate::snapshot::Snapshot;
pub(crate) use mode::Expected;
pub(crate) use obstacle::{InTheWay, of_obstacle, unfit};

/// What is under way for a pod.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub(crate) grant: &'a Grant,
    pub(crate) transition: Option<&'a Transition>,
}

impl<'a> Operation<'a> {
    fn is_unfinished(&self) -> bool {
        self.transition.is_none_or(|transition| transition.result.is_none())
    }

    /// It has ended in a way that a person has to look at.
    fn failed(&self) -> Option<&'a TransitionResult> {
        self.transition?.result.as_ref().filter(|result| result.is_lasting())
    }
}

/// What a pod wishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) op: GrantOp,
    /// Id of the operation; empty before it can be derived.
    pub(crate) operation: String,
    /// Why it can't be derived.
    pub(crate) obstacle: Option<hitless_workloads::Obstacle>,
}

pub(crate) struct Judge<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) owners: Owners<'a>,
    pub(crate) operations: HashMap<&'a str, Operation<'a>>,
    pub(crate) reservations: HashMap<&'a str, &'a Reservation>,
    nodes: HashMap<&'a str, &'a NodeTransition>,
    policies: Policies<'a>,
    traffic: Traffic<'a>,
    plans: HashMap<&'a str, DeploymentPlan>,
    /// Operations that have failed, by uid of the Deployment, with the name of the pod.
    failures: HashMap<&'a str, BTreeMap<&'a str, &'a TransitionResult>>,
    pub(crate) gate: Gate,
    pub(crate) now: Timestamp,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let owners = Owners::new(&snapshot.replica_sets, &snapshot.deployments);
        let of_node = |node: &'a NodeTransition| {
            node.spec
                .grants
                .iter()
                .map(|grant| (grant.pod.uid.as_str(), Operation { grant, transition: node.transition(grant) }))
        };
        let operations: HashMap<&str, Operation<'_>> =
            snapshot.transitions.iter().flat_map(|node| of_node(node)).collect();
        let places = snapshot.ledgers.iter().flat_map(|ledger| &ledger.reservations);
        let reservations = places.map(|(uid, place)| (uid.as_str(), place)).collect();
        let plans = plans(snapshot, &operations);
        let gate = gate(snapshot, &owners, &operations);
        let mut failures: HashMap<&str, BTreeMap<&str, &TransitionResult>> = HashMap::new();
        for pod in &snapshot.pods {
            let failed = operations.get(pod.id.uid.as_str()).and_then(|operation: &Operation<'a>| operation.failed());
            if let (Some(result), Some(deployment)) = (failed, owners.deployment(pod)) {
                failures.entry(deployment.uid.as_str()).or_default().insert(pod.id.name.as_str(), result);
            }
        }
        let named = |node: &'a std::sync::Arc<NodeTransition>| Some((node.metadata.name.as_deref()?, &**node));
        let measured = snapshot.transitions.iter().filter_map(|node| node.spec.propagation.as_ref());
        Self {
            snapshot,
            owners,
            operations,
            reservations,
            nodes: snapshot.transitions.iter().filter_map(named).collect(),
            policies: Policies::of(&snapshot.drain_policies, Propagation::least_seconds(measured)),
            traffic: Traffic::new(&snapshot.services, &snapshot.pods),
            plans,
            failures,
            gate,
            now,
        }
    }

    /// What is to be done for a Deployment.
    pub(crate) fn plan(&self, deployment: &DeploymentView) -> Option<&DeploymentPlan> {
        self.plans.get(deployment.uid.as_str())
    }

    /// What is wished for the pod and has not begun.
    pub(crate) fn wish(&self, pod: &PodView) -> Option<Wish> {
        let uid = pod.id.uid.as_str();
        if self.operations.contains_key(uid) || self.reservations.contains_key(uid) || pod.terminating {
            return None;
        }
        let of = |op: GrantOp, intent: Result<hitless_workloads::PodIntent, hitless_workloads::Obstacle>| match intent {
            Ok(intent) => Wish { op: intent.operation.op.clone(), operation: intent.id(), obstacle: None },
            Err(obstacle) => Wish { op, operation: String::new(), obstacle: Some(obstacle) },
        };
        let plan = self.owners.deployment(pod).and_then(|deployment| self.plan(deployment));
        let behind =
            plan.filter(|plan| matches!(plan.stage, Stage::Rolling | Stage::Finishing) && plan.behind.contains(uid));
        if let Some(plan) = behind {
            let known = plan.wishes.iter().find(|wish| wish.pod.uid == uid);
            return Some(match known {
                Some(wish) => of(GrantOp::Update, wish.intent.clone()),
                // The workload's own objects are written first.
                None => Wish { op: GrantOp::Update, operation: String::new(), obstacle: None },
            });
        }
        let revision = plan.filter(|plan| plan.drives()).map(|plan| plan.target.as_str());
        restart::wish(pod).map(|wish| of(GrantOp::Restart, wish.intent(pod, revision)))
    }

    /// Asks the rules about all of these pods together, as the controller does: pods that something else keeps waiting take
    /// nothing from the others.
    pub(crate) fn ask(&self, pods: &[&PodView]) -> BTreeMap<String, Verdict> {
        let (kept, free): (Vec<&PodView>, Vec<&PodView>) =
            pods.iter().copied().partition(|pod| !self.in_the_way(pod).is_empty());
        let together = self.decide(&free);
        let alone = kept.into_iter().flat_map(|pod| self.decide(&[pod]));
        together.into_iter().chain(alone).map(|verdict| (verdict.pod_uid.clone(), verdict)).collect()
    }

    fn decide(&self, pods: &[&PodView]) -> Vec<Verdict> {
        let candidates: Vec<Candidate> = pods.iter().map(|pod| self.candidate(pod)).collect();
        let approvals = approvals::reported(self.snapshot, pods.iter().copied().zip(&candidates));
        self.gate.decide(&candidates, &approvals, self.now)
    }

    /// What the rules of stage PostCheck say of a pod whose operation has been verified; `None` if it is not that far.
    pub(crate) fn post_check(&self, pod: &PodView) -> Option<Verdict> {
        let operation = self.operations.get(pod.id.uid.as_str())?;
        let checking = operation.transition.is_some_and(|each| each.phase == Phase::Checking && each.result.is_none());
        let candidate = checking.then(|| Candidate::of(pod, operation.grant.id.clone()))?;
        let approvals = approvals::reported(self.snapshot, std::iter::once((pod, &candidate)));
        let mut verdict = self.gate.post_check(&candidate, &approvals, self.now);
        verdict.rules.retain(|rule| !matches!(rule.because, Because::OtherStage { .. }));
        Some(verdict)
    }

    fn candidate(&self, pod: &PodView) -> Candidate {
        Candidate::of(pod, self.wish(pod).map(|wish| wish.operation).unwrap_or_default())
    }

    /// `deployment/NAME`, or for pods without one `replicaset/NAME` and the like, or `pod/NAME`.
    pub(crate) fn owner_label(&self, pod: &PodView) -> String {
        match (self.owners.deployment(pod), &pod.owner) {
            (Some(deployment), _) => format!("deployment/{}", deployment.name),
            (None, Some(owner)) => format!("{}/{}", owner.kind.to_lowercase(), owner.name),
            (None, None) => format!("pod/{}", pod.id.name),
        }
    }

    /// What the gate is told of the pod.
    pub(crate) fn facts(&self, pod: &PodView) -> PodFacts {
        PodFacts::of(pod, self.owners.of(pod).map(|(owner, _)| owner))
    }

    /// Places in ledgers, by uid of the pod.
    pub(crate) fn places(&self) -> BTreeMap<String, Held> {
        places(self.snapshot, &self.operations)
    }

    /// uids of pods whose operation has failed.
    pub(crate) fn failed(&self) -> BTreeSet<String> {
        failed(&self.operations)
    }

    /// What else than rules is in the way of operating the pod.
    pub(crate) fn in_the_way(&self, pod: &PodView) -> Vec<InTheWay> {
        let mut found: Vec<InTheWay> = obstacle::never(pod).into_iter().collect();
        let hindrance = self.prospect(pod).err().filter(|_| found.is_empty());
        found.extend(obstacle::of_wish(self.wish(pod).as_ref()));
        found.extend(hindrance.map(|hindrance| obstacle::of_hindrance(&hindrance, pod)));
        found.extend(self.node_obstacle(pod));
        found.extend(self.halt(pod));
        found
    }

    fn node(&self, name: &str) -> Option<&'a NodeTransition> {
        self.nodes.get(name).copied()
    }

    fn node_obstacle(&self, pod: &PodView) -> Option<InTheWay> {
        let node = pod.node.as_deref()?;
        let snapshot = self.snapshot;
        if snapshot.nodes.as_ref().is_some_and(|nodes| !nodes.iter().any(|known| known.name == node)) {
            return Some(obstacle::node_gone(node));
        }
        let agent = |agents: &Vec<std::sync::Arc<PodView>>| {
            agents.iter().any(|agent| agent.node.as_deref() == Some(node) && agent.available())
        };
        if snapshot.agents.as_ref().is_some_and(|agents| !agent(agents)) {
            return Some(obstacle::no_agent(node));
        }
        let full = self.node(node).is_some_and(|known| known.spec.grants.len() >= NodeTransitionSpec::MAX_GRANTS);
        full.then(|| obstacle::node_full(node))
    }

    /// An operation of the pod, or so many of its workload, have failed that nobody goes any more.
    fn halt(&self, pod: &PodView) -> Option<InTheWay> {
        if let Some(result) = self.operations.get(pod.id.uid.as_str()).and_then(Operation::failed) {
            return Some(obstacle::halted(&pod.id.name, result, 1));
        }
        let failed = self.failures.get(self.owners.deployment(pod)?.uid.as_str())?;
        let tolerated = usize::try_from(self.gate.tolerated_failures(&pod.id.uid)).unwrap_or(usize::MAX);
        let (name, result) = failed.first_key_value()?;
        (failed.len() >= tolerated).then(|| obstacle::halted(name, result, failed.len()))
    }
}

fn plans<'a>(snapshot: &'a Snapshot, operations: &HashMap<&str, Operation<'_>>) -> HashMap<&'a str, DeploymentPlan> {
    let mut sets: HashMap<&str, Vec<&ReplicaSetView>> = HashMap::new();
    for set in &snapshot.replica_sets {
        if let Some(owner) = &set.owner {
            sets.entry(owner.uid.as_str()).or_default().push(set);
        }
    }
    let mut pods: HashMap<&str, Vec<&PodView>> = HashMap::new();
    for pod in &snapshot.pods {
        if let Some(owner) = &pod.owner {
            pods.entry(owner.uid.as_str()).or_default().push(pod);
        }
    }
    let unfinished = operations.iter().filter(|(_, operation)| operation.is_unfinished());
    let operating: BTreeSet<String> = unfinished.map(|(uid, _)| (*uid).to_owned()).collect();
    let plan_of = |deployment: &'a DeploymentView| {
        let replica_sets = sets.get(deployment.uid.as_str()).map_or(&[] as &[_], Vec::as_slice);
        let pods: Vec<&PodView> =
            replica_sets.iter().filter_map(|set| pods.get(set.uid.as_str())).flatten().copied().collect();
        let observed = Observed { deployment, replica_sets, pods: &pods, operating: &operating };
        (deployment.uid.as_str(), plan(observed))
    };
    snapshot.deployments.iter().map(|deployment| plan_of(deployment)).collect()
}

/// A gate that knows everything that is seen from here.
fn gate(snapshot: &Snapshot, owners: &Owners<'_>, operations: &HashMap<&str, Operation<'_>>) -> Gate {
    let mut desired: BTreeMap<OwnerKey, OwnerFacts> = BTreeMap::new();
    let mut facts = Vec::new();
    for pod in snapshot.pods.iter().chain(&snapshot.elsewhere).filter(|pod| !pod.finished) {
        let owner = owners.of(pod);
        if let Some((key, Some(count))) = &owner {
            desired.entry(key.clone()).or_insert(OwnerFacts { desired: *count });
        }
        facts.push(PodFacts::of(pod, owner.map(|(key, _)| key)));
    }
    let rule_sets: Vec<RuleSet> = snapshot.rules.iter().map(|rule| rule.set.clone()).collect();
    let budgets: Vec<_> = snapshot.budgets.iter().map(|budget| (**budget).clone()).collect();
    let disruption_budgets: Vec<_> = snapshot.disruption_budgets.iter().map(|budget| (**budget).clone()).collect();
    let nodes = snapshot.nodes.iter().flatten().map(|node| (node.name.clone(), node.labels.clone()));
    Gate::of(&GateInput {
        pods: &facts,
        owners: &desired,
        nodes: &nodes.collect(),
        rule_sets: &rule_sets,
        budgets: &budgets,
        disruption_budgets: &disruption_budgets,
        reserved: &places(snapshot, operations),
        failed: &failed(operations),
        approvals: &hitless_gate::Approvals::new(),
        settings: &snapshot.settings,
    })
}

/// Places in ledgers, and operations that are under way without one: somebody may have deleted a ledger.
fn places(snapshot: &Snapshot, operations: &HashMap<&str, Operation<'_>>) -> BTreeMap<String, Held> {
    let running = operations.iter().filter(|(_, operation)| operation.is_unfinished());
    let running = running.map(|(uid, operation)| ((*uid).to_owned(), Held { since: operation.grant.granted.0 }));
    let reserved = snapshot.ledgers.iter().flat_map(|ledger| &ledger.reservations);
    running.chain(reserved.map(|(uid, place)| (uid.clone(), Held { since: place.since.0 }))).collect()
}

fn failed(operations: &HashMap<&str, Operation<'_>>) -> BTreeSet<String> {
    let failed = operations.iter().filter(|(_, operation)| operation.failed().is_some());
    failed.map(|(uid, _)| (*uid).to_owned()).collect()
}

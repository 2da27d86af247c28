//! One round of the agent: every grant's next step, and who is to be put in service without one.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::{Grant, GrantOp, NodeTransition, Outcome, PodRef, Transition};
use jiff::Timestamp;

use crate::decide::{OperationView, begun, decide};
use crate::decision::Decision;
use crate::in_service;
use crate::memory::Memory;
use crate::view::{NodeIdentity, NodePod, Observation, PodLookup};

/// All that one round of the agent is decided from.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// This node.
    pub node: &'a NodeIdentity,
    /// The pods of this node by uid.
    pub pods: &'a BTreeMap<String, Arc<NodePod>>,
    /// The node's `NodeTransition`, if there is one.
    pub transition: Option<&'a NodeTransition>,
    /// Both watches have delivered their first state: what is absent does not exist.
    pub synced: bool,
    /// Memory by grant id.
    pub memories: &'a BTreeMap<String, Memory>,
    /// What the kernel shows, by pod uid.
    pub observations: &'a BTreeMap<String, Observation>,
}

impl<'a> NodeView<'a> {
    /// The grants, in the controller's order.
    pub fn grants(&self) -> impl Iterator<Item = &'a Grant> + use<'a> {
        self.transition.into_iter().flat_map(|transition| &transition.spec.grants)
    }

    /// What the agent has reported of a grant.
    #[must_use]
    pub fn reported(&self, grant: &Grant) -> Option<&'a Transition> {
        self.transition?.transition(grant)
    }

    /// Whether a grant for the pod may want it out of service: one that has not ended yet, or that took it out for good. One of a pod
    /// that stays in service never does.
    #[must_use]
    pub fn has_live_grant(&self, pod_uid: &str) -> bool {
        self.grants().filter(|grant| !grant.mode.stays_in_service() && grant.pod.uid == pod_uid).any(|grant| {
            let result = self.reported(grant).and_then(|reported| reported.result.as_ref());
            result.is_none_or(|result| grant.op == GrantOp::Drain && result.outcome == Outcome::Done)
        })
    }

    /// Where the pod of `grant` is.
    fn pod(&self, grant: &Grant, memory: &Memory) -> PodLookup<'a> {
        if let Some(pod) = self.pods.get(&grant.pod.uid) {
            return PodLookup::Found(pod);
        }
        memory.missing.map_or(PodLookup::NotCached, PodLookup::Missing)
    }
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq)]
pub struct Round<'a> {
    /// The next step of each grant, in the controller's order.
    pub steps: Vec<(&'a Grant, Decision)>,
    /// Pods whose InService is to be raised with this reason, without any operation.
    pub raises: Vec<(PodRef, &'static str)>,
}

impl Round<'_> {
    /// When to look again even if nothing changes.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.steps.iter().filter_map(|(_, decision)| decision.wake_at).min()
    }
}

/// Decides one turn. Pure: the same view gives the same round.
#[must_use]
pub fn round<'a>(view: &NodeView<'a>, now: Timestamp) -> Round<'a> {
    let raises = view.pods.values().map(|pod| &pod.view).filter_map(|pod| {
        let live = view.has_live_grant(&pod.id.uid);
        Some((pod.id.clone(), in_service::reason_to_raise(pod, view.synced, live)?))
    });
    // Before both watches have delivered, a pod that is not there may only not have been told of yet.
    let grants = view.grants().filter(|_| view.synced);
    Round { raises: raises.collect(), steps: grants.map(|grant| (grant, step(view, grant, now))).collect() }
}

fn step(view: &NodeView<'_>, grant: &Grant, now: Timestamp) -> Decision {
    let (no_memory, no_observation) = (Memory::default(), Observation::None);
    let memory = view.memories.get(&grant.id).unwrap_or(&no_memory);
    let observation = view.observations.get(&grant.pod.uid).unwrap_or(&no_observation);
    decide(&of_operation(view, grant, memory, observation, goes_later(view, grant)), now)
}

fn of_operation<'a>(
    view: &NodeView<'a>,
    grant: &'a Grant,
    memory: &'a Memory,
    observation: &'a Observation,
    busy: bool,
) -> OperationView<'a> {
    OperationView {
        grant,
        granted_node_uid: view.transition.map_or("", |transition| transition.spec.node_uid.as_str()),
        node: view.node,
        pod: view.pod(grant, memory),
        reported: view.reported(grant),
        memory,
        observation,
        busy,
    }
}

/// Whether another grant of the same pod goes first: the one that was begun, else the one that stands first.
fn goes_later(view: &NodeView<'_>, grant: &Grant) -> bool {
    let rivals = || {
        view.grants().enumerate().filter(|(_, other)| {
            other.pod.uid == grant.pod.uid && view.reported(other).is_none_or(|reported| reported.result.is_none())
        })
    };
    if rivals().nth(1).is_none() {
        return false;
    }
    let no_memory = Memory::default();
    let rank = |(index, other): (usize, &Grant)| {
        let memory = view.memories.get(&other.id).unwrap_or(&no_memory);
        let has_begun = begun(&of_operation(view, other, memory, &Observation::None, false));
        (!has_begun, index, other.id.clone())
    };
    rivals().map(rank).min().is_some_and(|(_, _, first)| first != grant.id)
}

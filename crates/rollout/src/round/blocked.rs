//! Why a pod that wishes something has to wait, as data; nobody is left waiting without a reason.

use crate::mode::Hindrance;
use hitless_api::InvalidDrain;
use hitless_api::names::{annotations, labels};
use hitless_api::pod::PodView;
use hitless_workloads::Obstacle;
use jiff::Timestamp;

use crate::snapshot::{AgentState, Snapshot};

/// What a pod waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It is being operated.
    InProgress,
    /// The ledger still has its place for another operation.
    Clearing,
    /// A pod of its namespace is being operated and not in our cache yet, so budgets can't be counted.
    Unseen,
    /// Rules say no; which, and why, is in [`super::PodVerdict::gate`].
    Rules,
    /// The operation can't be derived.
    Obstacle(Obstacle),
    /// What is wished of its drain, its mode or its hooks makes no sense.
    Drain(InvalidDrain),
    /// It has no readiness gate `hitless.dev/InService`, so it can't leave service, and it has to, for this reason.
    NoReadinessGate(&'static str),
    /// The agent on its node can't carry its hooks out.
    HooksUnsupported {
        /// Name of the node.
        node: String,
        /// The feature that it lacks.
        feature: &'static str,
    },
    /// These Services are being opened for it.
    Opening(String),
    /// This Service sends connections to pods that are not Ready, because another one is held.
    ServiceOpen(String),
    /// While another pod of its Service is being operated or deleted, the Service can't be opened for it.
    ServiceBusy {
        /// Name of the Service.
        service: String,
        /// Name of the other pod.
        pod: String,
    },
    /// It uses its node's network, whose connections are not its own.
    HostNetwork,
    /// The kubelet runs it from a file.
    StaticPod,
    /// It runs to completion.
    Job,
    /// It is being deleted.
    Terminating,
    /// It has no node yet.
    NotScheduled,
    /// Its Node is not there, or is being deleted, or was created again meanwhile.
    NodeGone(String),
    /// No Ready agent is on its node.
    AgentNotReady(String),
    /// Its node has as many grants as fit.
    NodeFull(String),
    /// The namespace's ledger has as many reservations as fit.
    LedgerFull,
    /// An operation of its workload has failed on the way to this target.
    Halted {
        /// Name of the pod that it failed on.
        pod: String,
        /// Reason of its result.
        reason: String,
    },
}

impl Waiting {
    /// A pod on this node can't be operated in any way.
    pub(super) fn hindered(hindrance: Hindrance, node: &str) -> Self {
        match hindrance {
            Hindrance::Drain(invalid) => Self::Drain(invalid),
            Hindrance::HooksUnsupported(feature) => Self::HooksUnsupported { node: node.to_owned(), feature },
            Hindrance::NoReadinessGate(because) => Self::NoReadinessGate(because),
        }
    }

    /// The reason in CamelCase, for machines.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InProgress => "InProgress",
            Self::Clearing => "Clearing",
            Self::Unseen => "Unseen",
            Self::Rules => "Rules",
            Self::Obstacle(obstacle) => obstacle.reason(),
            Self::Drain(_) => "InvalidDrain",
            Self::NoReadinessGate(_) => "NoReadinessGate",
            Self::HooksUnsupported { .. } => "HooksUnsupported",
            Self::Opening(_) => "Opening",
            Self::ServiceOpen(_) => "ServiceOpen",
            Self::ServiceBusy { .. } => "ServiceBusy",
            Self::HostNetwork => "HostNetwork",
            Self::StaticPod => "StaticPod",
            Self::Job => "Job",
            Self::Terminating => "Terminating",
            Self::NotScheduled => "NotScheduled",
            Self::NodeGone(_) => "NodeGone",
            Self::AgentNotReady(_) => "AgentNotReady",
            Self::NodeFull(_) => "NodeFull",
            Self::LedgerFull => "LedgerFull",
            Self::Halted { .. } => "Halted",
        }
    }

    /// What it waits for and what to do, for people.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::InProgress => "it is being operated".to_owned(),
            Self::Clearing => "the ledger still has its place for another operation".to_owned(),
            Self::Unseen => "a pod is being operated that is not known yet".to_owned(),
            Self::Rules => "rules say no".to_owned(),
            Self::Obstacle(obstacle) => obstacle.to_string(),
            Self::Drain(error) => error.to_string(),
            Self::NoReadinessGate(because) => format!(
                "it has no readiness gate hitless.dev/InService and can't leave service, {because}; {}",
                gate_hint()
            ),
            Self::HooksUnsupported { node, feature } => format!(
                "it has hooks, and the agent on its node {node} does not have the feature {feature}; see docs/hooks.md"
            ),
            Self::Opening(services) => {
                format!("its Service {services} is being opened, so that it keeps its only endpoint while it is held")
            }
            Self::ServiceOpen(service) => {
                format!("its Service {service} is open for another pod that is held; it waits until that is done")
            }
            Self::ServiceBusy { service, pod } => {
                format!("Service {service} has no other endpoint and can't be opened before pod {pod} is back or gone")
            }
            Self::HostNetwork => "it uses its node's network; such pods are not operated".to_owned(),
            Self::StaticPod => "it is a static pod of its kubelet; such pods are not operated".to_owned(),
            Self::Job => "it belongs to a Job; such pods are not operated".to_owned(),
            Self::Terminating => "it is being deleted".to_owned(),
            Self::NotScheduled => "it has no node yet".to_owned(),
            Self::NodeGone(node) => format!("its node {node} is gone or was created again"),
            Self::AgentNotReady(node) => {
                format!("no Ready hitless-agent is on its node {node}; look at the DaemonSet in hitless-system")
            }
            Self::NodeFull(node) => format!("node {node} has as many grants as fit; it waits until some end"),
            Self::LedgerFull => "the namespace's ledger is full; it waits until operations end".to_owned(),
            Self::Halted { pod, reason } => format!(
                "the rollout is halted: the operation of pod {pod} ended with {reason}; change the template, or back, to go on"
            ),
        }
    }

    /// Whether it passes by itself in a moment.
    #[must_use]
    pub const fn is_brief(&self) -> bool {
        matches!(self, Self::InProgress | Self::Clearing | Self::Unseen | Self::Terminating)
    }
}

/// What stands in the way of any operation of the pod, whatever the rules say.
pub(super) fn check(pod: &PodView, snapshot: &Snapshot) -> Result<(), Waiting> {
    if pod.is_mirror() {
        return Err(Waiting::StaticPod);
    }
    if pod.host_network {
        return Err(Waiting::HostNetwork);
    }
    if pod.owner.as_ref().is_some_and(|owner| owner.group_kind.is("batch", "Job")) {
        return Err(Waiting::Job);
    }
    if pod.terminating || pod.finished {
        return Err(Waiting::Terminating);
    }
    let Some(node) = &pod.node else { return Err(Waiting::NotScheduled) };
    let known = snapshot.nodes.get(node).filter(|known| !known.deleting);
    let created_again =
        |uid: &str| snapshot.node_transitions.get(node).is_some_and(|transition| transition.spec.node_uid != uid);
    if known.is_none_or(|known| created_again(&known.uid)) {
        return Err(Waiting::NodeGone(node.clone()));
    }
    if snapshot.agents.get(node) != Some(&AgentState::Ready) {
        return Err(Waiting::AgentNotReady(node.clone()));
    }
    Ok(())
}

/// The namespace that asks for the gate by a label of its own.
fn gate_hint() -> String {
    format!("label its namespace {}=enabled and let the pod be created again", labels::GATE)
}

/// When the pod was bound to its node, as far as it tells.
pub(super) fn bound_since(pod: &PodView) -> Option<Timestamp> {
    pod.conditions.get("PodScheduled").filter(|condition| condition.is_true).and_then(|condition| condition.since)
}

/// Whether the pod shows what the grant was to write and other containers than before, so that what is derived from it is up to
/// date: a restart names the digest that runs, and the pod may be seen with the new spec and the old status.
pub(super) fn shows(grant: &hitless_api::Grant, pod: &PodView) -> bool {
    let is_replaced = |(name, before): (&String, &String)| {
        let status = pod.container(name).and_then(|container| container.status.as_ref());
        status.is_some_and(|status| status.container_id != *before)
    };
    grant.before.iter().all(is_replaced)
        && [annotations::REVISION, annotations::RESTARTED]
            .iter()
            .filter_map(|name| Some((name, grant.annotations.get(*name)?)))
            .all(|(name, change)| pod.annotations.get(*name) == change.to.as_ref())
}

//! Why a pod that wishes something has to wait, as data; nobody is left waiting without a reason.

use crate::mode::{AgentStatus, NotOperable, OperationSettings, PodContext, Policies, Traffic, WorkloadFacts};
use hitless_api::pod::PodView;
use hitless_api::{GroupKind, Hook, InvalidDrain, NodeTransitionSpec};
use hitless_workloads::{Obstacle, Pause};

use super::companions::Companion;
use super::pool_wait::PoolWait;
use crate::kuperator::Kuperator;
use crate::snapshot::{AgentState, NodeUnfit, Snapshot};

/// What a pod waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// It is being operated.
    InProgress,
    /// The ledger still has its reservation for another operation.
    ReleasePending,
    /// A pod of its namespace is being operated and not in our cache yet, so budgets can't be counted.
    PodNotCached,
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
    ServicePublishing(String),
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
    /// An image that it is to have is being fetched to its node.
    ImagePulling {
        /// The image.
        image: String,
        /// Name of the node.
        node: String,
    },
    /// An image that it is to have is not on its node.
    ImageNotFetched {
        /// The image.
        image: String,
        /// Name of the node.
        node: String,
        /// Why it is not fetched.
        why: NotFetched,
    },
    /// This pod of its workload is being operated first: it teaches how long the workload is away.
    Learning(String),
    /// A companion pod of its workload tries the next version, or takes over.
    Companion {
        /// Name of the companion.
        pod: String,
        /// How far it is.
        stage: Companion,
    },
    /// It does not leave a pool of a load balancer outside of the cluster.
    Pool {
        /// The pool, or the Service that does not get one.
        name: String,
        /// Why.
        why: PoolWait,
    },
    /// The images are there, and the workload's owner wants no more for now.
    PrefetchOnly,
    /// No operation of its workload's pods begins.
    Paused(Pause),
    /// A ConfigMap or Secret that it uses has changed: it restarts because of that in a moment, with what it wishes now.
    Reload,
    /// The objects of its workload's kind can't be read now.
    OwnerUnreadable(GroupKind),
    /// Its workload is of a kind of KusionStack's, whose own manager is there.
    LeftToKuperator(Kuperator),
    /// The namespace's ledger has as many reservations as fit.
    LedgerFull,
    /// The agent of this node is of an earlier version.
    AgentTooOld {
        /// The node.
        node: String,
        /// What it can't do: "let others operate a pod".
        cannot: &'static str,
    },
    /// It could not be taken out of service for those who are to operate it; with the result of the attempt.
    NotDrained(String),
    /// An operation of its workload has failed on the way to this target.
    Halted {
        /// Name of the pod that it failed on.
        pod: String,
        /// Reason of its result.
        reason: String,
        /// It was the pod's way back to the version at which its workload's partition keeps it.
        way_back: bool,
    },
}

/// Why an image is not fetched to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFetched {
    /// The kubelet could not pull it.
    Failed {
        /// Its reason, e.g. `ErrImagePull`.
        reason: String,
        /// Its words, and with them the registry's.
        message: String,
    },
    /// The API server did not accept the pod that would fetch it: its words.
    Refused(String),
    /// Nothing new is brought to the node.
    Node(NodeUnfit),
    /// The kubelet has not begun: it has made no sandbox for the pod of this name.
    NoSandbox(String),
}

impl WaitReason {
    /// What helps a pod that can't be brought back to the version at which the partition keeps it.
    pub(super) const WAY_BACK: &str =
        "delete the pod to try again, or lower the partition so that it keeps the new version";

    /// A pod on this node can't be operated in any way.
    pub(super) fn not_operable(why: NotOperable, node: &str) -> Self {
        match why {
            NotOperable::Drain(invalid) => Self::Drain(invalid),
            NotOperable::HooksUnsupported(feature) => Self::HooksUnsupported { node: node.to_owned(), feature },
            NotOperable::NoReadinessGate(because) => Self::NoReadinessGate(because),
        }
    }

    /// The reason in CamelCase, for machines.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InProgress => "InProgress",
            Self::ReleasePending => "ReleasePending",
            Self::PodNotCached => "PodNotCached",
            Self::Rules => "Rules",
            Self::Obstacle(obstacle) => obstacle.reason(),
            Self::Drain(_) => "InvalidDrain",
            Self::NoReadinessGate(_) => "NoReadinessGate",
            Self::HooksUnsupported { .. } => "HooksUnsupported",
            Self::ServicePublishing(_) => "ServicePublishing",
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
            Self::ImagePulling { .. } => "ImagePulling",
            Self::ImageNotFetched { .. } => "ImageNotFetched",
            Self::Learning(_) => "Learning",
            Self::Companion { stage: Companion::Failing(_) | Companion::Failed(_), .. } => "CompanionFailed",
            Self::Companion { .. } => "Companion",
            Self::Pool { why, .. } => why.reason(),
            Self::PrefetchOnly => "PrefetchOnly",
            Self::Paused(_) => "Paused",
            Self::Reload => "Reload",
            Self::OwnerUnreadable(_) => "OwnerUnreadable",
            Self::LeftToKuperator(_) => "LeftToKuperator",
            Self::LedgerFull => "LedgerFull",
            Self::AgentTooOld { .. } => "AgentTooOld",
            Self::NotDrained(_) => "NotDrained",
            Self::Halted { .. } => "Halted",
        }
    }

    /// What it waits for and what to do, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let text = self.what();
        self.unblock().map_or_else(|| text.clone(), |unblock| format!("{text}; {unblock}"))
    }

    /// What it waits for, for people.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::InProgress => "it is being operated".to_owned(),
            Self::ReleasePending => "the ledger still has its reservation for another operation".to_owned(),
            Self::PodNotCached => {
                "a pod is being operated that is not known yet, so budgets can't be counted".to_owned()
            }
            Self::Rules => "rules say no".to_owned(),
            Self::Obstacle(obstacle) => obstacle.to_string(),
            Self::Drain(error) => error.to_string(),
            Self::NoReadinessGate(because) => {
                format!("the pod was made without the readiness gate hitless.dev/InService, {because}")
            }
            Self::HooksUnsupported { node, feature } => {
                format!("it has hooks, and the agent on its node {node} does not have the feature {feature}")
            }
            Self::ServicePublishing(services) => {
                format!("its Service {services} is being opened, so that it keeps its only endpoint while it is held")
            }
            Self::ServiceOpen(service) => format!("its Service {service} is open for another pod that is held"),
            Self::ServiceBusy { service, pod } => {
                format!("Service {service} has no other endpoint and can't be opened before pod {pod} is back or gone")
            }
            Self::HostNetwork => "it uses its node's network (hostNetwork); such pods are not operated".to_owned(),
            Self::StaticPod => "it is a static pod of its kubelet; such pods are not operated".to_owned(),
            Self::Job => "it belongs to a Job; such pods are not operated".to_owned(),
            Self::Terminating => "the pod is being deleted".to_owned(),
            Self::NotScheduled => "the pod has no node yet".to_owned(),
            Self::NodeGone(node) => format!("its node {node} is gone or was created again"),
            Self::AgentNotReady(node) => format!("no Ready hitless-agent is on its node {node}"),
            Self::NodeFull(node) => {
                format!("node {node} has as many grants as fit ({})", NodeTransitionSpec::MAX_GRANTS)
            }
            Self::ImagePulling { image, node } => format!("image {image} is being fetched to node {node}"),
            Self::ImageNotFetched { image, node, why } => match why {
                NotFetched::Failed { reason, message } => {
                    format!("image {image} can't be fetched to node {node}: {reason}: {message}")
                }
                NotFetched::Refused(words) => {
                    format!("the pod that would fetch image {image} to node {node} is not accepted: {words}")
                }
                NotFetched::NoSandbox(pod) => {
                    format!(
                        "image {image} is not on node {node}, whose kubelet has made no sandbox for pod {pod} yet, which fetches it"
                    )
                }
                NotFetched::Node(NodeUnfit::Cordoned) => {
                    format!("image {image} is not on node {node}, and nothing is fetched to a cordoned node")
                }
                NotFetched::Node(NodeUnfit::Pressure(condition)) => {
                    format!("image {image} is not on node {node}, and nothing is fetched to a node with {condition}")
                }
            },
            Self::Learning(pod) => {
                format!("how long its workload is away is not known yet; pod {pod} goes first, for at most 30 s alone")
            }
            Self::Companion { pod, stage } => stage.text(pod),
            Self::Pool { name, why } => why.text(name),
            Self::PrefetchOnly => {
                "its images are on its node, and the workload has the annotation hitless.dev/prefetch: only".to_owned()
            }
            Self::Paused(pause) => pause.to_string(),
            Self::Reload => {
                "a ConfigMap or Secret that it uses has changed a moment ago; both changes are made at once".to_owned()
            }
            Self::OwnerUnreadable(kind) => format!("its workload is a {kind}, and the controller can't list those now"),
            Self::LeftToKuperator(kuperator) => format!("{kuperator}, and its workload is left to it"),
            Self::LedgerFull => "the namespace's ledger has as many reservations as fit".to_owned(),
            Self::AgentTooOld { node, cannot } => {
                format!("the agent on its node {node} is of an earlier version, which can't {cannot}")
            }
            Self::NotDrained(reason) => {
                format!("it could not be taken out of service for others to operate it: {reason}")
            }
            Self::Halted { pod, reason, way_back: false } => format!("the operation of pod {pod} ended as {reason}"),
            Self::Halted { pod, reason, way_back: true } => format!(
                "the partition keeps pod {pod} at the version before, and its operation back to that ended as {reason}"
            ),
        }
    }

    /// The smallest change that would unblock, for people.
    #[must_use]
    pub fn unblock(&self) -> Option<&'static str> {
        match self {
            Self::InProgress
            | Self::ReleasePending
            | Self::PodNotCached
            | Self::Rules
            | Self::Obstacle(_)
            | Self::ServicePublishing(_)
            | Self::ServiceBusy { .. }
            | Self::HostNetwork
            | Self::StaticPod
            | Self::Job
            | Self::Terminating
            | Self::Learning(_)
            | Self::ImagePulling { .. }
            | Self::Reload => None,
            Self::ImageNotFetched { why: NotFetched::Failed { .. } | NotFetched::Refused(_), .. } => {
                Some("its pods stay as they are, and it is tried again by itself; correct the cause or the image")
            }
            Self::ImageNotFetched { why: NotFetched::NoSandbox(_), .. } => Some(
                "its pods stay as they are, and it goes on by itself; kubectl describe that pod to see what its node says, often of the network plugin",
            ),
            Self::ImageNotFetched { why: NotFetched::Node(NodeUnfit::Cordoned), .. } => {
                Some("uncordon the node, or let its pods go elsewhere")
            }
            Self::ImageNotFetched { why: NotFetched::Node(NodeUnfit::Pressure(_)), .. } => {
                Some("make room on the node")
            }
            Self::Companion { stage, .. } => stage.unblock(),
            Self::Pool { why, .. } => why.unblock(),
            Self::PrefetchOnly => Some("remove the annotation to go on"),
            Self::Paused(pause) => Some(pause.unblock()),
            Self::Drain(InvalidDrain::Policy { .. }) => Some("correct the DrainPolicy"),
            Self::Drain(InvalidDrain::Unreadable { .. } | InvalidDrain::Mode { .. } | InvalidDrain::Hooks { .. }) => {
                Some("correct it in the pod's template and on the pod")
            }
            Self::NoReadinessGate(_) => {
                Some("label its template or namespace hitless.dev/gate=enabled, and delete the pod once")
            }
            Self::HooksUnsupported { feature, .. } if *feature == Hook::EXEC_FEATURE => {
                Some("use http instead of exec, or let agents run commands (docs/hooks.md)")
            }
            Self::HooksUnsupported { .. } => Some("update the DaemonSet hitless-agent (docs/hooks.md)"),
            Self::ServiceOpen(_) => Some("wait until that operation ends"),
            Self::NotScheduled => Some("see why with: kubectl describe pod"),
            Self::NodeGone(_) => Some("the pod goes with it; delete it if it does not"),
            Self::AgentNotReady(_) => Some(
                "look at the DaemonSet: kubectl -n hitless-system get pods -o wide -l app.kubernetes.io/name=hitless-agent",
            ),
            Self::NodeFull(_) => Some("wait until some of its operations end"),
            Self::OwnerUnreadable(_) => Some("see the controller's log for what the API server says"),
            Self::LeftToKuperator(_) => Some("remove it to go on with hitless (docs/migration.md)"),
            Self::LedgerFull => Some("wait until some operations end"),
            Self::AgentTooOld { .. } => Some("update the DaemonSet hitless-agent"),
            Self::NotDrained(_) => Some(
                "it serves as before; the operator has to take its operation back (label undo-operation-type) and to begin anew; a pod that was to leave for its deletion can be deleted by hand",
            ),
            Self::Halted { way_back: false, .. } => Some("set another image, or the old one again"),
            // The template has nothing to do with it.
            Self::Halted { way_back: true, .. } => Some(Self::WAY_BACK),
        }
    }

    /// Whether it passes by itself in a moment.
    #[must_use]
    pub const fn is_brief(&self) -> bool {
        match self {
            Self::Companion { stage, .. } => stage.is_brief(),
            Self::Pool { why, .. } => why.is_brief(),
            _ => matches!(
                self,
                Self::InProgress
                    | Self::ReleasePending
                    | Self::PodNotCached
                    | Self::Terminating
                    | Self::Learning(_)
                    | Self::ImagePulling { .. }
                    | Self::Reload
            ),
        }
    }
}

/// What is in the way of any operation of the pod, whatever the rules say, the first reason first.
pub(super) fn in_the_way<'s>(pod: &'s PodView, snapshot: &'s Snapshot) -> impl Iterator<Item = WaitReason> + 's {
    let checks: [fn(&PodView, &Snapshot) -> Option<WaitReason>; 3] = [|pod, _| of_pod(pod), node_gone, no_agent];
    checks.into_iter().filter_map(|check| check(pod, snapshot))
}

/// What in the pod itself is in the way.
pub(super) fn of_pod(pod: &PodView) -> Option<WaitReason> {
    if pod.is_mirror() {
        Some(WaitReason::StaticPod)
    } else if pod.host_network {
        Some(WaitReason::HostNetwork)
    } else if pod.owner.as_ref().is_some_and(|owner| owner.group_kind.is("batch", "Job")) {
        Some(WaitReason::Job)
    } else if pod.terminating || pod.finished {
        Some(WaitReason::Terminating)
    } else if pod.node.is_none() {
        Some(WaitReason::NotScheduled)
    } else {
        None
    }
}

fn node_gone(pod: &PodView, snapshot: &Snapshot) -> Option<WaitReason> {
    let node = pod.node.as_ref().filter(|_| !snapshot.unknown.nodes)?;
    let known = snapshot.nodes.get(node).filter(|known| !known.deleting);
    let created_again =
        |uid: &str| snapshot.node_transitions.get(node).is_some_and(|transition| transition.spec.node_uid != uid);
    known.is_none_or(|known| created_again(&known.uid)).then(|| WaitReason::NodeGone(node.clone()))
}

fn no_agent(pod: &PodView, snapshot: &Snapshot) -> Option<WaitReason> {
    let node = pod.node.as_ref().filter(|_| !snapshot.unknown.agents)?;
    (snapshot.agents.get(node) != Some(&AgentState::Ready)).then(|| WaitReason::AgentNotReady(node.clone()))
}

/// Why the pod can't be operated, as far as the pod itself tells: nothing else is known of the cluster.
#[must_use]
pub fn unfit(pod: &PodView) -> Option<WaitReason> {
    of_pod(pod).or_else(|| {
        let context = PodContext {
            pod,
            workload: WorkloadFacts::default(),
            post_check: false,
            agent: AgentStatus::default(),
            operation: None,
            delay_seconds: 0,
        };
        let why = OperationSettings::of(context, &Policies::default(), &Traffic::new(&[], &[])).err()?;
        Some(WaitReason::not_operable(why, pod.node.as_deref().unwrap_or_default()))
    })
}

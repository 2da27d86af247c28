//! Why a pod that wants something has to wait, as data; nobody is left waiting without a reason.

pub(crate) mod companion;
mod in_the_way;
mod texts;

use hitless_api::large::TooLarge;
use hitless_api::{GroupKind, InvalidDrain, ObjectRef, PodRef};
use hitless_workloads::{Cause, Obstacle, Pause};
use jiff::Timestamp;

use crate::foreign_manager::PresentManager;
use crate::mode::NotOperable;
use crate::round::pool_wait::PoolWait;
use crate::round::wait_reason::companion::Companion;
use crate::snapshot::Unread;

pub(crate) use in_the_way::{in_the_way, of_pod};
pub use in_the_way::{no_agent, unfit};

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
    /// What is wanted of its drain, its mode or its hooks makes no sense.
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
    /// While this other pod of its owner is being operated no other one serves, and it would be refused for longer than if it waits.
    SiblingAway(String),
    /// It is too large to look after: hardly anything is known of it.
    TooLarge(TooLarge),
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
    /// It can't pull with the secrets that it was made with, for this reason, and new pods have others.
    PullSecretsChanged(String),
    /// A pod that goes before it does not come by itself.
    Behind {
        /// That pod.
        pod: Box<PodRef>,
        /// Why.
        why: Behind,
    },
    /// No Ready agent is on its node.
    AgentNotReady {
        /// Name of the node.
        node: String,
        /// What is known of the agent there, for people; empty: nothing.
        why: String,
    },
    /// No agent is ever going to be on its node: the agents' own DaemonSet wants none there.
    NoAgentPossible(String),
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
    /// It serves nobody and is to be made anew; so are as many pods of its workload already as may be, or these are not Ready yet.
    MadeAnew,
    /// The images are there, and the workload's owner wants no more for now.
    PrefetchOnly,
    /// No operation of its workload's pods begins.
    Paused {
        /// Who wants that.
        pause: Pause,
        /// The workload.
        workload: Box<ObjectRef>,
    },
    /// While this pod of its workload is being operated, pods of the version before have become not Ready, too: what all of them need is
    /// away.
    Dependency(String),
    /// A ConfigMap or Secret that it uses has changed: it restarts because of that in a moment, with what it wants now.
    Reload,
    /// This is not known of its namespace now.
    NamespaceUnread(Unread),
    /// The objects of its workload's kind can't be read now.
    OwnerUnreadable(GroupKind),
    /// Its workload is of a kind that comes from this manager, which is there.
    LeftToForeignManager(PresentManager),
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
    /// Its application, or a hook that asks it, has said never; with its words. Other pods go on.
    ApplicationRefused(String),
    /// Its workload is about to be rolled by its native controller, whose way costs the pod's clients less, for this reason.
    Natively(String),
    /// The same where its owner allows in-place updates only: nothing is done before a mode is wanted.
    LossExpected(String),
    /// An operation of its workload has failed on the way to this target.
    Halted {
        /// Name of the pod that it failed on.
        pod: String,
        /// Reason of its result.
        reason: String,
        /// It was the pod's way back to the version at which its workload's partition keeps it.
        way_back: bool,
        /// When it is tried again by itself, because the pod's node was at fault.
        again: Option<Timestamp>,
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
        /// Which attempt it was.
        attempt: u32,
    },
    /// The API server did not accept the pod that would fetch it: its words.
    Refused(String),
    /// No image is brought to the node, because of this condition.
    Pressure(&'static str),
    /// The kubelet has not begun: it has made no sandbox for the pod of this name.
    NoSandbox(String),
}

impl NotFetched {
    /// So often a registry has to have said that it does not have an image.
    const MISSING_AFTER: u32 = 3;
    /// Words of registries, and of container runtimes for them.
    const MISSING: [&str; 4] = ["not found", "manifest unknown", "name unknown", "does not exist"];

    /// Whether nobody serves the image, as far as can be told: somebody has to push it, or to name another one.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Failed { reason, message, attempt } => {
                let is_said = Self::MISSING.iter().any(|words| message.contains(words));
                reason == "InvalidImageName" || (is_said && *attempt >= Self::MISSING_AFTER)
            }
            Self::Refused(_) | Self::Pressure(_) | Self::NoSandbox(_) => false,
        }
    }
}

/// Why a pod that goes before others does not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Its node, with this name, does not answer.
    NodeLost(String),
    /// It has the version already and does not run, in the kubelet's words.
    NotRunning(String),
    /// It has the version already, and has not become Ready in the time that its owner allows, which was over then.
    NotReady(Timestamp),
}

impl Behind {
    const fn reason(&self) -> &'static str {
        match self {
            Self::NodeLost(_) => "NodeLost",
            Self::NotRunning(_) => "PodNotRunning",
            Self::NotReady(_) => "PodNotReady",
        }
    }
}

impl WaitReason {
    /// [`Self::reason`] of [`Self::Paused`].
    pub const PAUSED: &'static str = "Paused";

    /// What helps a pod that can't be brought back to the version at which the partition keeps it.
    pub(crate) const WAY_BACK: &str =
        "delete the pod to try again, or lower the partition so that it keeps the new version";

    /// A pod on this node can't be operated in any way.
    pub(crate) fn not_operable(why: NotOperable, node: &str) -> Self {
        match why {
            NotOperable::Drain(invalid) => Self::Drain(invalid),
            NotOperable::HooksUnsupported(feature) => Self::HooksUnsupported { node: node.to_owned(), feature },
            NotOperable::NoReadinessGate(because) => Self::NoReadinessGate(because),
        }
    }

    /// Whether what is waited for is done by the controller, as soon as the operation is wanted.
    pub(crate) const fn is_own_step(&self) -> bool {
        matches!(self, Self::ServicePublishing(_) | Self::Companion { .. })
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
            Self::SiblingAway(_) => "SiblingAway",
            Self::TooLarge(_) => Cause::TooLarge.name(),
            Self::HostNetwork => "HostNetwork",
            Self::StaticPod => "StaticPod",
            Self::Job => "Job",
            Self::Terminating => "Terminating",
            Self::NotScheduled => "NotScheduled",
            Self::NodeGone(_) => "NodeGone",
            Self::PullSecretsChanged(_) => "PullSecretsChanged",
            Self::Behind { why, .. } => why.reason(),
            Self::AgentNotReady { .. } => "AgentNotReady",
            Self::NoAgentPossible(_) => Cause::NoAgentPossible.name(),
            Self::NodeFull(_) => "NodeFull",
            Self::ImagePulling { .. } => "ImagePulling",
            Self::ImageNotFetched { .. } => "ImageNotFetched",
            Self::Learning(_) => "Learning",
            Self::Companion { stage: Companion::Failing(_) | Companion::Failed(_), .. } => "CompanionFailed",
            Self::Companion { .. } => "Companion",
            Self::Pool { why, .. } => why.reason(),
            Self::MadeAnew => "MadeAnew",
            Self::PrefetchOnly => "PrefetchOnly",
            Self::Paused { .. } => Self::PAUSED,
            Self::Dependency(_) => "DependencyAway",
            Self::Reload => "Reload",
            Self::NamespaceUnread(unread) => unread.reason(),
            Self::OwnerUnreadable(_) => "OwnerUnreadable",
            Self::LeftToForeignManager(manager) => manager.left(),
            Self::LedgerFull => "LedgerFull",
            Self::AgentTooOld { .. } => "AgentTooOld",
            Self::NotDrained(_) => "NotDrained",
            Self::ApplicationRefused(_) => "ApplicationRefused",
            Self::Natively(_) => "NativeRollout",
            Self::LossExpected(_) => Cause::LossExpected.name(),
            Self::Halted { .. } => "Halted",
        }
    }

    /// Whether Leave or Hold is chosen only once it is over, or not at all: what would be chosen now is not what happens.
    #[must_use]
    pub const fn leaves_mode_open(&self) -> bool {
        matches!(self, Self::SiblingAway(_) | Self::Natively(_) | Self::LossExpected(_))
    }

    /// Whether it passes by itself in a moment.
    #[must_use]
    pub const fn is_brief(&self) -> bool {
        match self {
            Self::Companion { stage, .. } => stage.is_brief(),
            Self::Pool { why, .. } => why.is_brief(),
            Self::NamespaceUnread(Unread::TooMuch) => false,
            _ => matches!(
                self,
                Self::InProgress
                    | Self::ReleasePending
                    | Self::PodNotCached
                    | Self::NamespaceUnread(_)
                    | Self::Terminating
                    | Self::Learning(_)
                    | Self::Natively(_)
                    | Self::ImagePulling { .. }
                    | Self::Reload
            ),
        }
    }
}

//! What a round wants written.

mod pods;
mod service;

use hitless_api::event::EventNote;
use hitless_api::ledger::CLUSTER;
use hitless_api::pod_transition_rule::PodTransitionRuleStatus;
use hitless_api::traffic_provider::TrafficProviderStatus;
use hitless_api::{NodeTransitionSpec, TransitionLedgerSpec};
use hitless_workloads::Request;
use jiff::Timestamp;

use crate::snapshot::{OwnWrites, Refusal, Version};

pub use pods::{CompanionWrite, InServiceFallback, PrefetchWrite, WithoutAgent};
pub use service::{EndedHold, ServiceWrite};

/// The next content of a namespace's ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerWrite {
    /// Namespace, or [`hitless_api::ledger::CLUSTER`].
    pub namespace: String,
    /// The version that was decided on; `None`: the ledger is created.
    pub version: Option<Version>,
    /// The content.
    pub spec: TransitionLedgerSpec,
}

/// The next content of a NodeTransition.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeTransitionWrite {
    /// Node's name.
    pub node: String,
    /// The version that was decided on; `None`: it is created, owned by the Node.
    pub version: Option<Version>,
    /// The content.
    pub spec: NodeTransitionSpec,
    /// Value of [`super::FENCE`]; `None` leaves it as it is.
    pub fence: Option<String>,
}

/// The RoleBinding by which agents may operate in a namespace. It is owned by the ledger, so that no ledger means no such right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleBindingWrite {
    /// Namespace.
    pub namespace: String,
    /// uid of the ledger; `None`: it is made in the same round.
    pub ledger_uid: Option<String>,
}

/// The next status of a PodTransitionRule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleStatusWrite {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The version that was decided on.
    pub version: Version,
    /// The status.
    pub status: PodTransitionRuleStatus,
}

/// The next status of a TrafficProvider.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderStatusWrite {
    /// Name.
    pub name: String,
    /// The version that was decided on.
    pub version: Version,
    /// The status.
    pub status: TrafficProviderStatus,
}

/// One write, conditional on what was decided on.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// To a ledger.
    Ledger(LedgerWrite),
    /// To a NodeTransition.
    NodeTransition(NodeTransitionWrite),
    /// A namespace's RoleBinding is made, if it is not there.
    RoleBinding(RoleBindingWrite),
    /// To a workload's object.
    Workload(hitless_workloads::Write),
    /// To a Service.
    Service(ServiceWrite),
    /// A prefetch pod.
    Prefetch(PrefetchWrite),
    /// A companion pod.
    Companion(CompanionWrite),
    /// To a pod's status.
    InServiceFallback(InServiceFallback),
    /// To a PodTransitionRule's status.
    RuleStatus(RuleStatusWrite),
    /// To the status of a TrafficProvider.
    ProviderStatus(ProviderStatusWrite),
}

/// A write in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The write.
    pub write: Write,
    /// Indices of earlier steps of the round that must have succeeded; otherwise this one is dropped and the next round
    /// decides anew.
    pub needs: Vec<usize>,
    /// What people should know once it has succeeded.
    pub done: Option<EventNote>,
}

impl Step {
    /// A step that needs no other.
    #[must_use]
    pub const fn alone(write: Write) -> Self {
        Self { write, needs: Vec::new(), done: None }
    }

    /// A write to a workload's object, and what people should know then.
    #[must_use]
    pub fn workload(mut write: hitless_workloads::Write) -> Self {
        let done = write.tells.take();
        Self { done, ..Self::alone(Write::Workload(write)) }
    }
}

impl Write {
    /// It was not answered.
    pub fn unanswered(&self, own: &mut OwnWrites) {
        match self {
            Self::NodeTransition(write) => _ = own.unanswered_nodes.insert(write.node.clone()),
            Self::Ledger(write) => _ = own.unanswered_ledgers.insert(write.namespace.clone()),
            Self::RoleBinding(_)
            | Self::Workload(_)
            | Self::Service(_)
            | Self::Prefetch(_)
            | Self::Companion(_)
            | Self::InServiceFallback(_)
            | Self::RuleStatus(_)
            | Self::ProviderStatus(_) => {}
        }
    }

    /// The API server says no, in these words.
    pub fn refused(&self, words: &str, own: &mut OwnWrites, now: Timestamp) {
        let key = match self {
            Self::Prefetch(PrefetchWrite::Create { pull, .. }) => pull.key(),
            Self::Companion(CompanionWrite::Create { key, .. }) => key.clone(),
            Self::Workload(write) => write.key(),
            _ => return,
        };
        if own.refused.len() >= OwnWrites::MAX_REFUSED {
            own.refused.clear();
        }
        let before = own.refused.get(&key).filter(|known| known.counts(now)).map_or(0, |known| known.tries);
        let words = words.chars().take(OwnWrites::LONGEST_REFUSAL).collect();
        let image = match self {
            Self::Prefetch(PrefetchWrite::Create { pull, .. }) => Some((pull.namespace.clone(), pull.image.clone())),
            _ => None,
        };
        own.refused.insert(key, Refusal { words, tries: before.saturating_add(1), at: now, image });
    }

    /// Whether no watch tells that it has succeeded: a dry run. Whoever gets the answer decides again at once.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        matches!(self, Self::Workload(write) if matches!(write.request, Request::Try(_)))
    }

    /// It has succeeded: an earlier one on the same version of the object can't any more.
    pub fn succeeded(&self, own: &mut OwnWrites) {
        match self {
            Self::NodeTransition(write) => _ = own.unanswered_nodes.remove(&write.node),
            Self::Ledger(write) => _ = own.unanswered_ledgers.remove(&write.namespace),
            Self::Prefetch(PrefetchWrite::Create { pull, .. }) => _ = own.refused.remove(&pull.key()),
            Self::Companion(CompanionWrite::Create { key, .. }) => _ = own.refused.remove(key),
            Self::Workload(write) => {
                let key = write.key();
                own.refused.remove(&key);
                if let (Request::Try(_), Some(accepted)) = (&write.request, &mut own.accepted) {
                    if accepted.len() >= OwnWrites::MAX_REFUSED {
                        accepted.clear();
                    }
                    accepted.insert(key);
                }
            }
            Self::RoleBinding(_)
            | Self::Service(_)
            | Self::Prefetch(PrefetchWrite::Delete(_))
            | Self::Companion(CompanionWrite::Delete { .. })
            | Self::InServiceFallback(_)
            | Self::RuleStatus(_)
            | Self::ProviderStatus(_) => {}
        }
    }

    /// It changes nothing, and is there for the writes that need it.
    #[must_use]
    pub fn is_confirmation(&self) -> bool {
        matches!(self, Self::Workload(write) if write.is_confirmation())
    }

    /// Whether it makes a pod.
    #[must_use]
    pub fn makes_pod(&self) -> bool {
        match self {
            Self::Workload(write) => write.on.group_kind.is("", "Pod") && matches!(write.request, Request::Create(_)),
            Self::Prefetch(PrefetchWrite::Create { .. }) | Self::Companion(CompanionWrite::Create { .. }) => true,
            Self::Ledger(_)
            | Self::NodeTransition(_)
            | Self::RoleBinding(_)
            | Self::Service(_)
            | Self::Prefetch(PrefetchWrite::Delete(_))
            | Self::Companion(CompanionWrite::Delete { .. })
            | Self::InServiceFallback(_)
            | Self::RuleStatus(_)
            | Self::ProviderStatus(_) => false,
        }
    }

    /// The namespace that it is for; `None`: it is for several, or for the whole cluster.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        let namespace = match self {
            Self::Ledger(write) => &write.namespace,
            Self::RoleBinding(write) => &write.namespace,
            Self::Workload(write) => &write.on.namespace,
            Self::Service(write) => &write.namespace,
            Self::Prefetch(PrefetchWrite::Create { pull, .. }) => &pull.namespace,
            Self::Companion(CompanionWrite::Create { namespace, .. }) => namespace,
            Self::Prefetch(PrefetchWrite::Delete(pod)) | Self::Companion(CompanionWrite::Delete { pod, .. }) => {
                &pod.namespace
            }
            Self::InServiceFallback(write) => &write.pod.namespace,
            Self::RuleStatus(write) => &write.namespace,
            Self::NodeTransition(_) | Self::ProviderStatus(_) => return None,
        };
        Some(namespace.as_str()).filter(|namespace| *namespace != CLUSTER)
    }

    /// Names what is written to, the same for each attempt: `ledger/shop`, `node-transition/n1`, …
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Ledger(write) => format!("ledger/{}", write.namespace),
            Self::NodeTransition(write) => format!("node-transition/{}", write.node),
            Self::RoleBinding(write) => format!("role-binding/{}", write.namespace),
            Self::Workload(write) => write.key(),
            Self::Service(write) => format!("service/{}/{}", write.namespace, write.name),
            Self::Prefetch(PrefetchWrite::Create { pull, .. }) => {
                format!("prefetch/{}/{}", pull.namespace, pull.key())
            }
            Self::Prefetch(PrefetchWrite::Delete(pod)) => format!("prefetch/{}/{}", pod.namespace, pod.name),
            Self::Companion(CompanionWrite::Create { namespace, key, .. }) => format!("companion/{namespace}/{key}"),
            Self::Companion(CompanionWrite::Delete { pod, .. }) => format!("companion/{}/{}", pod.namespace, pod.name),
            Self::InServiceFallback(write) => format!("in-service-fallback/{}", write.pod.uid),
            Self::ProviderStatus(write) => format!("provider-status/{}", write.name),
            Self::RuleStatus(write) => format!("rule-status/{}/{}", write.namespace, write.name),
        }
    }
}

//! What a round wants written.

use crate::mode::ServiceView;
use crate::prefetch::Pull;
use hitless_api::JsonPatch;
use hitless_api::event::EventNote;
use hitless_api::names::annotations;
use hitless_api::pod_transition_rule::PodTransitionRuleStatus;
use hitless_api::traffic_provider::TrafficProviderStatus;
use hitless_api::{Grant, NodeTransitionSpec, ObjectRef, PodRef, TransitionLedgerSpec};
use jiff::Timestamp;
use kube::core::params::Patch;
use serde_json::Value;

use crate::snapshot::{OwnWrites, Version};

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

/// Why the controller puts a pod in service, and no agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutAgent {
    /// Its node has none (docs/contract.md 17).
    NoAgent,
    /// It is a companion pod, which agents leave alone (docs/contract.md 33).
    Companion,
}

impl WithoutAgent {
    /// Reason of the condition.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoAgent => "NoAgent",
            Self::Companion => "Companion",
        }
    }

    /// Message of the condition.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::NoAgent => "set by hitless-controller: the node has no Ready agent",
            Self::Companion => "set by hitless-controller: it serves while its workload's own pod is away",
        }
    }
}

/// InService True on a pod on which it is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InServiceFallback {
    /// The pod.
    pub pod: PodRef,
    /// The version in which the condition is absent.
    pub resource_version: String,
    /// Why it is the controller that writes it.
    pub because: WithoutAgent,
}

/// A pod that fetches an image is made, or deleted when nobody needs it any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrefetchWrite {
    /// Made.
    Create {
        /// What it fetches.
        pull: Pull,
        /// Which attempt it is.
        attempt: u32,
        /// Whom it goes with.
        owner: ObjectRef,
    },
    /// Deleted.
    Delete(PodRef),
}

/// A companion pod is made or deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum CompanionWrite {
    /// Made.
    Create {
        /// Namespace.
        namespace: String,
        /// Value of its label `hitless.dev/companion`.
        key: String,
        /// The pod.
        manifest: Value,
    },
    /// Deleted.
    Delete {
        /// The pod.
        pod: PodRef,
        /// The version that was decided on: one that is put in service meanwhile has clients.
        resource_version: String,
        /// Nobody was ever sent to it, so its containers are not asked to end.
        at_once: bool,
    },
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

/// Opens a Service for the time of a Hold, or makes it as its owner wants it (docs/contract.md 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceWrite {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The version that was decided on.
    pub version: Version,
    /// Next value of `publishNotReadyAddresses`.
    pub open: bool,
    /// Next value of the annotation `hitless.dev/held-by`; `None`: it is there and goes.
    pub mark: Option<String>,
    /// Whether it has any annotation.
    pub has_annotations: bool,
    /// The operation it was opened for, and that has ended.
    pub ended: Option<EndedHold>,
}

/// An operation for which a Service stays open no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedHold {
    /// Its id.
    pub id: String,
    /// When it was reserved, if it still is.
    pub reserved_since: Option<Timestamp>,
}

impl EndedHold {
    /// Whether the ledger as it is now says the same. An operation is reserved before a Service is opened for it, so whoever has seen the
    /// Service open finds the reservation in a ledger that is read after that. A leader that was succeeded may see the Service that its
    /// successor has opened, and not yet the reservation.
    #[must_use]
    pub fn is_over(&self, ledger: Option<&TransitionLedgerSpec>) -> bool {
        let reservation =
            Grant::pod_uid_of(&self.id).zip(ledger).and_then(|(uid, ledger)| ledger.reservations.get(uid));
        reservation
            .filter(|reservation| reservation.id == self.id)
            .is_none_or(|reservation| Some(reservation.since.0) == self.reserved_since)
    }
}

impl ServiceWrite {
    /// For the operation with this id.
    #[must_use]
    pub fn open(service: &ServiceView, id: &str) -> Self {
        let before = service.open && service.held_by.is_none();
        Self { open: true, mark: Some(format!("{id},{before}")), ..Self::close(service) }
    }

    /// What was before, unless its owner has said something else meanwhile. Only closed ones are opened, and those that we have opened for another.
    #[must_use]
    pub fn close(service: &ServiceView) -> Self {
        Self {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            version: service.version.clone(),
            open: service.open && service.declared_open,
            mark: None,
            has_annotations: service.has_annotations,
            ended: None,
        }
    }

    /// Only if this operation is over.
    #[must_use]
    pub fn after(self, ended: EndedHold) -> Self {
        Self { ended: Some(ended), ..self }
    }

    /// The patch that carries it out.
    #[must_use]
    pub fn patch(&self) -> Patch<Value> {
        let annotations = ["metadata", "annotations"];
        let mark = ["metadata", "annotations", annotations::HELD_BY];
        let patch = JsonPatch::of(&self.version.uid)
            .test(&["metadata", "resourceVersion"], self.version.resource_version.as_str())
            .add(&["spec", "publishNotReadyAddresses"], self.open);
        let patch = if self.has_annotations { patch } else { patch.new_map(&annotations) };
        match &self.mark {
            Some(text) => patch.add(&mark, text.as_str()),
            None => patch.remove(&mark),
        }
        .build()
    }
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
    pub fn refused(&self, words: &str, own: &mut OwnWrites) {
        let key = match self {
            Self::Prefetch(PrefetchWrite::Create { pull, .. }) => pull.key(),
            Self::Companion(CompanionWrite::Create { key, .. }) => key.clone(),
            Self::Workload(write) => write.key(),
            _ => return,
        };
        if own.refused.len() >= OwnWrites::MAX_REFUSED {
            own.refused.clear();
        }
        own.refused.insert(key, words.chars().take(OwnWrites::LONGEST_REFUSAL).collect());
    }

    /// It has succeeded: an earlier one on the same version of the object can't any more.
    pub fn succeeded(&self, own: &mut OwnWrites) {
        match self {
            Self::NodeTransition(write) => _ = own.unanswered_nodes.remove(&write.node),
            Self::Ledger(write) => _ = own.unanswered_ledgers.remove(&write.namespace),
            Self::Prefetch(PrefetchWrite::Create { pull, .. }) => _ = own.refused.remove(&pull.key()),
            Self::Companion(CompanionWrite::Create { key, .. }) => _ = own.refused.remove(key),
            Self::Workload(write) => _ = own.refused.remove(&write.key()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::{MicroTime, Reservation};
    use serde_json::json;

    fn ledger(id: &str, since: Timestamp) -> TransitionLedgerSpec {
        let reservation: Reservation = serde_json::from_value(json!({
            "id": id, "pod": "web", "node": "n1", "since": MicroTime(since), "images": {}
        }))
        .unwrap();
        TransitionLedgerSpec {
            reservations: [("uid-1".to_owned(), reservation)].into(),
            ..TransitionLedgerSpec::default()
        }
    }

    #[test]
    fn a_service_is_not_closed_for_an_operation_that_has_begun_anew_unseen() {
        let (first, second) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(9).unwrap());
        for (known, now, is_over, why) in [
            (None, None, true, "it has no reservation"),
            (Some(first), None, true, "its reservation is free by now"),
            (Some(first), Some(ledger("uid-1.a", first)), true, "its reservation is the one that is known"),
            (Some(first), Some(ledger("uid-1.a", second)), false, "it has another reservation"),
            (None, Some(ledger("uid-1.a", first)), false, "it has a reservation that was not seen"),
            (None, Some(ledger("uid-1.b", first)), true, "the reservation is another operation's"),
        ] {
            let ended = EndedHold { id: "uid-1.a".to_owned(), reserved_since: known };
            assert_eq!(ended.is_over(now.as_ref()), is_over, "{why}");
        }
    }
}

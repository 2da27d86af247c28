//! What is in the cluster, as far as commands look at it.

use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_api::{NodeTransition, PodTransitionRule, TransitionLedger, TransitionLedgerSpec};
use hitless_gate::RuleSet;
use hitless_workloads::{DeploymentView, ReplicaSetView};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;

/// One picture of the cluster, or of one namespace and all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) deployments: Vec<Arc<DeploymentView>>,
    pub(crate) replica_sets: Vec<Arc<ReplicaSetView>>,
    pub(crate) pods: Vec<Arc<PodView>>,
    pub(crate) nodes: Vec<Arc<NodeTransition>>,
    pub(crate) ledgers: Vec<Arc<TransitionLedgerSpec>>,
    pub(crate) rules: Vec<Arc<RuleSet>>,
    pub(crate) events: Vec<Arc<EventView>>,
}

/// One of the controller's Events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventView {
    /// uid of the object that it is about.
    pub(crate) regarding: String,
    pub(crate) reason: String,
    pub(crate) note: String,
    pub(crate) time: Option<Timestamp>,
}

/// What is kept of an object of the API.
pub(crate) trait Seen: Sized {
    type Object;

    /// `None` where it is of no interest.
    fn seen(object: Self::Object) -> Option<Self>;
}

impl Seen for DeploymentView {
    type Object = DynamicObject;

    fn seen(object: DynamicObject) -> Option<Self> {
        raw(&object)
    }
}

impl Seen for ReplicaSetView {
    type Object = DynamicObject;

    fn seen(object: DynamicObject) -> Option<Self> {
        raw(&object)
    }
}

/// Read as raw JSON, because a revision is a hash over all fields, also those that no type of ours knows.
fn raw<T: DeserializeOwned>(object: &DynamicObject) -> Option<T> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

impl Seen for PodView {
    type Object = Pod;

    fn seen(pod: Pod) -> Option<Self> {
        let view = Self::from(&pod);
        (!view.finished).then_some(view)
    }
}

impl Seen for NodeTransition {
    type Object = Self;

    fn seen(node: Self) -> Option<Self> {
        Some(node)
    }
}

impl Seen for TransitionLedgerSpec {
    type Object = TransitionLedger;

    fn seen(ledger: TransitionLedger) -> Option<Self> {
        Some(ledger.spec)
    }
}

impl Seen for RuleSet {
    type Object = PodTransitionRule;

    fn seen(rule: PodTransitionRule) -> Option<Self> {
        Some(Self { name: rule.metadata.name?, namespace: rule.metadata.namespace?, spec: rule.spec })
    }
}

impl Seen for EventView {
    type Object = Event;

    fn seen(event: Event) -> Option<Self> {
        Some(Self {
            regarding: event.regarding?.uid?,
            reason: event.reason?,
            note: event.note.unwrap_or_default(),
            time: event.event_time.map(|time| time.0),
        })
    }
}

//! How the draining of a pod stands, on the wire.

use hitless_api::pod::PodView;
use hitless_api::{MicroTime, Phase, Transition, TransitionResult};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::progress::{Because, Progress};
use crate::published::Step;
use crate::view::{Count, Held, Observation, Stage};

/// How the draining of a pod stands.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainStatus {
    /// `<namespace>/<name>`.
    pub pod: String,
    /// uid of the pod.
    pub uid: String,
    /// Its node.
    pub node: String,
    /// Condition `hitless.dev/InService`; null where the pod has none.
    pub in_service: Option<bool>,
    /// What the kubelet says.
    pub ready: bool,
    /// The pod is being deleted.
    pub terminating: bool,
    /// Nobody is connected any more and nobody comes, or the pod is gone; in an operation: it has gone on to the containers.
    pub drained: bool,
    /// Why a wait has ended; only in answers to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<Because>,
    /// The pod's operation, if it has one.
    #[serde(flatten)]
    pub operation: Option<Operation>,
    /// Counted while the pod leaves: in an operation, or being deleted while somebody waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// New connections have stopped coming, the kubelet's probes apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<bool>,
    /// In a Hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldState>,
    /// Why the connections can't be counted; never to be taken for drained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count_error: Option<String>,
}

/// A Hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoldState {
    /// How far it is.
    pub stage: HoldStage,
    /// Requests in flight.
    pub busy: u32,
    /// Closed kindly so far.
    pub closed_idle: u32,
    /// Clients that had to wait, once they are let in.
    pub parked: u32,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a Hold is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum HoldStage {
    /// Everything is open; nobody is held yet.
    Prepared,
    /// New clients are held, requests in flight are being answered.
    Settling,
    /// New clients are held, requests in flight have been answered or had their time.
    Settled,
    /// New clients are let in again.
    Released,
    /// It can't be done; nobody is held.
    Failed,
}

/// An operation of a pod.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Id of the grant.
    pub grant: String,
    /// Where it is.
    pub phase: Phase,
    /// Since when.
    pub since: MicroTime,
    /// The same, as milliseconds until now by the node's clock.
    pub elapsed_milliseconds: i64,
    /// When this phase ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<MicroTime>,
    /// What it waits for, for people.
    pub waiting_for: Vec<String>,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Present when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<TransitionResult>,
}

/// Inbound connections that are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connections {
    /// All of them.
    pub inbound: u32,
    /// Those that have, or may have, a request in flight.
    pub busy: u32,
    /// Those that certainly have none.
    pub idle: u32,
    /// Those that are not waited for, because nobody has used them for `idleAfterSeconds`; not among `inbound`.
    pub unused: u32,
    /// Closed kindly so far.
    pub closed_idle: u32,
    /// The most that were there at once since the pod left.
    pub most: u32,
}

/// What an answer is made from.
pub(super) struct DrainInputs<'a> {
    pub node: &'a str,
    /// As it was when it was last seen.
    pub pod: &'a PodView,
    pub step: Option<Step>,
    pub observation: Observation,
    pub progress: Progress,
    pub now: Timestamp,
}

impl DrainStatus {
    pub(super) fn of(known: DrainInputs<'_>) -> Self {
        let (count, held, count_error) = match known.observation {
            Observation::None => (None, None, None),
            Observation::Failed(why) => (None, None, Some(why)),
            Observation::Counted(count) => (Some(count), None, None),
            Observation::Held(held) => (None, Some(held), None),
        };
        let pod = known.pod;
        let on_host = (pod.host_network && pod.terminating)
            .then(|| "the pod is on the host's network, where its connections are not told from the node's".to_owned());
        Self {
            pod: format!("{}/{}", pod.id.namespace, pod.id.name),
            uid: pod.id.uid.clone(),
            node: known.node.to_owned(),
            in_service: pod.in_service().map(|condition| condition.is_true),
            ready: pod.ready(),
            terminating: pod.terminating,
            drained: known.progress.is_drained(),
            because: None,
            operation: known.step.map(|step| Operation::of(step, known.now)),
            connections: count.map(Connections::from),
            quiet: count.map(|count| count.quiet),
            hold: held.map(HoldState::from),
            count_error: count_error.or(on_host),
        }
    }

    /// Whether the operation, if there is one, has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.operation.as_ref().is_some_and(|operation| operation.result.is_some())
    }

    /// The same without what changes with time alone.
    pub(super) fn timeless(&self) -> Self {
        let operation = self.operation.clone().map(|operation| Operation { elapsed_milliseconds: 0, ..operation });
        Self { operation, ..self.clone() }
    }
}

impl Operation {
    fn of(step: Step, now: Timestamp) -> Self {
        let Transition { id, phase, since, deadline, message, result, .. } = step.transition;
        let elapsed_milliseconds = i64::try_from(now.duration_since(since.0).as_millis()).unwrap_or(i64::MAX);
        let waiting_for = step.waiting_for;
        Self { grant: id, phase, since, elapsed_milliseconds, deadline, waiting_for, message, result }
    }
}

impl From<Count> for Connections {
    fn from(count: Count) -> Self {
        let Count { inbound, busy, idle, unused, closed, most, .. } = count;
        Self { inbound, busy, idle, unused, closed_idle: closed, most }
    }
}

impl From<Held> for HoldState {
    fn from(held: Held) -> Self {
        let (stage, busy, error) = match held.stage {
            Stage::Prepared(_) => (HoldStage::Prepared, 0, None),
            Stage::Settling(busy) => (HoldStage::Settling, busy, None),
            Stage::Settled(left) => (HoldStage::Settled, left, None),
            Stage::Released => (HoldStage::Released, 0, None),
            Stage::Failed(why) => (HoldStage::Failed, 0, Some(why)),
        };
        Self { stage, busy, closed_idle: held.numbers.closed, parked: held.numbers.waited, error }
    }
}

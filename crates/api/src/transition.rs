//! How far one granted operation is, as the node's agent reports it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pod::PodView;
use crate::{Grant, HookOutcome, HookReport, MicroTime};

/// Where an operation is. `Granted → Leaving → Draining` or `Granted → Holding → Settling`, then
/// `Operating → Verifying → Returning`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Seen, nothing done yet.
    Granted,
    /// InService is being lowered, the kubelet has not followed yet.
    Leaving,
    /// Out of the endpoints; waiting for connections to end.
    Draining,
    /// New connections are parked.
    Holding,
    /// Parked; requests in flight are finishing.
    Settling,
    /// The image patch is being sent, or was sent and the old container still runs.
    Operating,
    /// The new container runs; waiting for it to be ready.
    Verifying,
    /// Verified; waits for the rules of stage PostCheck.
    Checking,
    /// InService is raised again, or an undone operation is on its way back.
    Returning,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Outcome {
    /// As wanted, and the pod is ready.
    Done,
    /// Operated, judged bad, and undone.
    RolledBack,
    /// Ended before the container was touched, on the controller's request or because the pod is gone.
    Cancelled,
    /// Not begun, for the reason given.
    Refused,
    /// Neither done nor undone: a person should look.
    Failed,
}

/// Result of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TransitionResult {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, in CamelCase, for machines.
    pub reason: String,
    /// Numbers of the operation: connections at the start, ended by themselves, closed when idle, given up, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub report: BTreeMap<String, i64>,
}

/// State of one granted operation. Written by the node's agent only; an entry whose grant is gone is dropped with the next write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    /// Id of the grant.
    pub id: String,
    /// `granted` of the grant. The same operation has the same id whenever it is granted, so only the two together say which grant
    /// is meant, and an entry that was left from an earlier one is never taken for an answer.
    pub granted: MicroTime,
    /// Where it is.
    pub phase: Phase,
    /// Since when it is in this phase.
    pub since: MicroTime,
    /// When this phase ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<MicroTime>,
    /// Inbound connections at the last report; the node's endpoint has the live number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Image patch → LISTEN of the new process, in milliseconds, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_milliseconds: Option<u32>,
    /// Image patch → the new containers are ready, or have answered as their readiness probes ask, in milliseconds, once known. Agents of
    /// before do not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_milliseconds: Option<u32>,
    /// Names of the hooks that have had their answer and are not called again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub hooks_done: Vec<String>,
    /// What the hooks that were called have said, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub hooks: Vec<HookReport>,
    /// Set *before* the way back is begun, so that an agent that restarts does not operate again; the reason in CamelCase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub message: String,
    /// Present when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TransitionResult>,
}

impl TransitionResult {
    /// Reason of a refusal: new connections can't be held on this node, or not for this pod.
    pub const HOLD_FAILED: &str = "HoldFailed";
    /// Reason of a refusal: requests are in flight that take longer than clients can be held, and there may be another way.
    pub const STILL_IN_FLIGHT: &str = "StillInFlight";
    /// Reason of a refusal: a container is another one than was granted, and in a Hold nothing else tells old ones from new ones.
    pub const CONTAINER_CHANGED: &str = "ContainerChanged";

    /// Reason of a refusal: a container that is to be replaced without a drain serves somebody, or may.
    pub const CONTAINER_SERVES: &str = "ContainerServes";

    /// Reason of a refusal: the kubelet has not written the new content of ConfigMaps and Secrets into the pod's volumes.
    pub const CONFIG_NOT_MOUNTED: &str = "ConfigNotMounted";

    /// Reason of a refusal: the application says never, by a hook's answer or by itself.
    pub const TASK_REFUSED: &str = "TaskRefused";

    /// Reason of a failure: the kubelet has not ended or replaced the containers in the time that it may take. That is the node's fault,
    /// and nothing is known of the new version.
    pub const NOT_REPLACED: &str = "NotReplaced";

    /// Reason of a failure: the kubelet has not lowered the pod's Ready in the time that a drain may take. Nothing was operated, and nothing
    /// is known of the new version.
    pub const NOT_LEAVING: &str = "NotLeaving";

    /// Reason of a failure: it was undone, and the containers of before have not become ready again.
    pub const ROLLBACK_NOT_READY: &str = "RollbackNotReady";

    /// Number in the report: milliseconds from the order to leave service to the patch of the containers.
    pub const DRAIN: &str = "drainMilliseconds";
    /// Number in the report: milliseconds from that patch until the new processes listen.
    pub const GAP: &str = "gapMilliseconds";
    /// Number in the report: milliseconds from that patch until the new containers are ready.
    pub const READY: &str = "readyMilliseconds";
    /// Number in the report: milliseconds for which the client waited that waited longest in a Hold.
    pub const LONGEST_PAUSE: &str = "longestPauseMilliseconds";
    /// Number in the report: idle connections that the agent closed.
    pub const CLOSED: &str = "closedIdle";
    /// Number in the report: connections that the agent reset.
    pub const DESTROYED: &str = "destroyed";
    /// Number in the report: connections that were still open when the containers were replaced.
    pub const GIVEN_UP: &str = "givenUp";

    /// Number in the report: connections that were open when the pod became not Ready. With it come the next two.
    pub const OPEN_WHEN_NOT_READY: &str = "openWhenNotReady";
    /// Number in the report: those of them that somebody else reset within the next seconds.
    pub const RESET_WHEN_NOT_READY: &str = "resetWhenNotReady";
    /// Number in the report: those of them on which nobody acknowledged any more what the pod sent.
    pub const UNANSWERED_WHEN_NOT_READY: &str = "unansweredWhenNotReady";

    /// Whether the application has said never, in time: nothing was touched.
    #[must_use]
    pub fn is_by_application(&self) -> bool {
        self.outcome == Outcome::Refused && self.reason == Self::TASK_REFUSED
    }

    /// Whether it says something of its own pod only, and nothing of the version.
    #[must_use]
    pub fn is_of_pod_only(&self) -> bool {
        let of_node = [Self::NOT_REPLACED, Self::NOT_LEAVING];
        let is_of_node = self.outcome == Outcome::Failed && of_node.contains(&self.reason.as_str());
        self.is_by_application() || is_of_node
    }

    /// Whether the same operation would end the same way again: nothing goes on until a person has looked. Some refusals are
    /// only a matter of time.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        match self.outcome {
            Outcome::RolledBack | Outcome::Failed => true,
            Outcome::Refused => {
                let soon = ["Expired", "Busy", "NodeUIDMismatch", "PodAvailable"];
                let soon = soon.iter().chain(&[Self::CONTAINER_CHANGED, Self::CONFIG_NOT_MOUNTED]);
                // After these the pod is not held again, or not without a drain.
                let otherwise = ["UnsupportedMode", Self::HOLD_FAILED, Self::CONTAINER_SERVES, Self::STILL_IN_FLIGHT];
                !soon.chain(&otherwise).any(|reason| *reason == self.reason)
            }
            Outcome::Done | Outcome::Cancelled => false,
        }
    }
}

impl Transition {
    /// Of `grant` in this phase since then, and nothing else is known.
    #[must_use]
    pub fn at(grant: &Grant, phase: Phase, since: MicroTime) -> Self {
        Self {
            id: grant.id.clone(),
            granted: grant.granted.clone(),
            phase,
            since,
            deadline: None,
            connections: None,
            gap_milliseconds: None,
            ready_milliseconds: None,
            hooks_done: Vec::new(),
            hooks: Vec::new(),
            rollback: None,
            message: String::new(),
            result: None,
        }
    }

    /// Whether the application has refused it by itself, and its pod's owner does not allow that any more.
    #[must_use]
    pub fn is_overruled(&self, pod: &PodView) -> bool {
        let by_hook = self.hooks.iter().any(|hook| hook.outcome == HookOutcome::Refused);
        self.result.as_ref().is_some_and(TransitionResult::is_by_application) && !by_hook && !pod.may_refuse()
    }

    /// Whether this is about `grant`, and not about an earlier grant of the same operation.
    #[must_use]
    pub fn is_of(&self, grant: &Grant) -> bool {
        self.id == grant.id && self.granted == grant.granted
    }
}

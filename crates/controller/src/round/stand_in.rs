//! InService where no agent is: a gated pod must become Ready even on a node whose agent is not there (CONTRACT 17).

use hitless_api::pod::PodView;
use jiff::{SignedDuration, Timestamp};

use super::blocked::bound_since;
use super::write::{StandIn, Step, Write};
use crate::snapshot::{AgentState, Snapshot};

/// Seconds without an agent after which the controller stands in.
pub const GRACE_SECONDS: i64 = 30;

pub(super) struct Decision {
    pub(super) steps: Vec<Step>,
    pub(super) wake_at: Option<Timestamp>,
}

/// The condition is only ever added where it is absent, never turned from False to True.
pub(super) fn decide(snapshot: &Snapshot, now: Timestamp) -> Decision {
    let mut decision = Decision { steps: Vec::new(), wake_at: None };
    let waiting = |pod: &&PodView| pod.gated && pod.in_service().is_none() && !pod.terminating && !pod.finished;
    for pod in snapshot.pods.iter().map(|pod| &**pod).filter(waiting) {
        let Some(node) = &pod.node else { continue };
        let missing = match snapshot.agents.get(node) {
            Some(AgentState::Ready) => continue,
            Some(AgentState::MissingSince(since)) => *since,
            None => now,
        };
        let since = bound_since(pod).map_or(missing, |bound| bound.max(missing));
        let due = since.saturating_add(SignedDuration::from_secs(GRACE_SECONDS)).unwrap_or(now);
        if now >= due {
            let write = StandIn { pod: pod.id.clone(), resource_version: pod.resource_version.clone() };
            decision.steps.push(Step::alone(Write::StandIn(write)));
        } else {
            decision.wake_at = Some(decision.wake_at.map_or(due, |other: Timestamp| other.min(due)));
        }
    }
    decision
}

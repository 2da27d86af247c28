//! Nodes without an agent.

use hitless_api::pod::PodView;
use jiff::{SignedDuration, Timestamp};

use crate::snapshot::{AgentState, Snapshot};

/// An agent that is updated or started anew is away for less.
pub(crate) const AGENT_IS_AWAY: SignedDuration = SignedDuration::from_secs(60);

/// When the pod's node will have had no agent for so long; `None`: one is there, or the pod has no node.
pub(crate) fn without_agent_for(
    long: SignedDuration,
    snapshot: &Snapshot,
    pod: &PodView,
    now: Timestamp,
) -> Option<Timestamp> {
    let missing = match snapshot.agents.get(pod.node.as_ref()?) {
        Some(AgentState::Ready) => return None,
        Some(AgentState::MissingSince(since)) => *since,
        // Nobody is going to come; the kubelet says when the pod was bound.
        Some(AgentState::Never) => bound_since(pod).unwrap_or(now),
        None => now,
    };
    let since = bound_since(pod).map_or(missing, |bound| bound.max(missing));
    Some(since.saturating_add(long).unwrap_or(now))
}

/// When the pod was bound to its node, as far as it tells.
fn bound_since(pod: &PodView) -> Option<Timestamp> {
    pod.conditions.get("PodScheduled").filter(|condition| condition.is_true).and_then(|condition| condition.since)
}

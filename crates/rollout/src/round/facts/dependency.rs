//! What all pods of a workload need may be away: a database, an identity provider. Then pods of the version before are not Ready either,
//! and that a new version is not is nobody's fault. Its clock stands, nothing new goes, and it goes on by itself (docs/contract.md#bad-version).
//!
//! All of it is derived from what is observed, but for since when the clock stands: that is in the grant, for its agent and the next leader.

use std::collections::{BTreeMap, HashSet};

use hitless_api::event::{EventNote, Severity};
use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantOp, MicroTime, Outcome, Phase, Transition};
use jiff::{SignedDuration, Timestamp};

use crate::companion;
use crate::round::change::Change;
use crate::round::facts::chance::Chance;
use crate::round::facts::desired::DesiredState;
use crate::round::note::{note, regarding};
use crate::snapshot::{AgentState, Snapshot};

/// Who stands beside a pod that is being operated.
pub(crate) struct Beside<'a> {
    /// uids of pods with a grant: what they are like is our doing.
    granted: HashSet<&'a str>,
    snapshot: &'a Snapshot,
}

impl<'a> Beside<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let grants = snapshot.node_transitions.values().flat_map(|view| &view.spec.grants);
        Self { granted: grants.map(|grant| grant.pod.uid.as_str()).collect(), snapshot }
    }

    /// Whether at least half of the pods of the version before that were Ready when this was granted are not Ready now.
    pub(crate) fn is_away(&self, grant: &Grant, desired: &DesiredState<'a>) -> bool {
        let Some(pod) = desired.pods.get(grant.pod.uid.as_str()) else { return false };
        let Some(plan) = desired.workload_of(pod).map(|index| &desired.plans[index]) else { return false };
        if !matches!(grant.op, GrantOp::Update | GrantOp::Restart) || plan.behind.is_empty() {
            return false;
        }
        let old = desired.pods_of(plan).filter(|other| plan.behind.contains(&other.id.uid) && self.counts(other));
        let (mut ready, mut down) = (0, 0);
        for other in old {
            if other.ready() {
                ready += 1;
            } else if fell_since(other, grant.granted.0) {
                down += 1;
            }
        }
        down > 0 && down >= ready
    }

    /// Nobody operates it or has taken it out of service, and its node is there.
    fn counts(&self, pod: &PodView) -> bool {
        let is_out = pod.in_service().is_some_and(|condition| !condition.is_true);
        let agent = pod.node.as_ref().and_then(|node| self.snapshot.agents.get(node));
        let is_lost = matches!(agent, Some(AgentState::MissingSince(_) | AgentState::Never));
        let is_taken = self.granted.contains(pod.id.uid.as_str());
        !is_out && !is_lost && !is_taken && !pod.terminating && !pod.finished && !companion::is_companion(pod)
    }
}

/// It was Ready then, and is not any more. Times of conditions are whole seconds. A pod that has not been Ready yet has its conditions since
/// its kubelet's first status, which may be later than the pod by any time.
fn fell_since(pod: &PodView, then: Timestamp) -> bool {
    let fell = pod.conditions.get("Ready").filter(|ready| !ready.is_true).and_then(|ready| ready.since);
    let begun = pod.conditions.get("Initialized").and_then(|initialized| initialized.since);
    let was_ready = |fell: Timestamp| begun.or(pod.created).is_none_or(|begun| begun < then && begun < fell);
    fell.is_some_and(|fell| fell.as_second() >= then.as_second() && was_ready(fell))
}

/// Its containers are replaced, or being replaced: from then on its version is judged.
fn is_judged(transition: &Transition) -> bool {
    transition.phase >= Phase::Operating
}

/// Whether a result says that the version is bad, or may be.
fn is_bad(transition: &Transition) -> bool {
    let result = transition.result.as_ref().filter(|result| !result.is_of_pod_only());
    result.is_some_and(|result| matches!(result.outcome, Outcome::RolledBack | Outcome::Failed))
}

/// Workloads of which something is away, and what follows.
#[derive(Default)]
pub(crate) struct Dependencies<'a> {
    pub(crate) changes: Vec<Change<'a>>,
    pub(crate) notes: Vec<EventNote>,
    /// Names of the pods that are being operated meanwhile, by index of the plan.
    pub(crate) away: BTreeMap<usize, String>,
}

impl<'a> Dependencies<'a> {
    /// Clocks that stop or go on, and what is to be said.
    pub(crate) fn of(desired: &DesiredState<'a>, beside: &Beside<'a>, snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let mut all = Self::default();
        for (node, view) in &snapshot.node_transitions {
            for grant in &view.spec.grants {
                let Some(transition) = view.transition(grant).filter(|transition| is_judged(transition)) else {
                    continue;
                };
                let is_over = transition.result.is_some();
                if is_over && !is_bad(transition) {
                    continue;
                }
                let is_away = beside.is_away(grant, desired);
                let pod = desired.pods.get(grant.pod.uid.as_str());
                let index = pod.and_then(|pod| desired.workload_of(pod));
                if let Some(index) = index.filter(|_| is_away && !is_over) {
                    all.away.entry(index).or_insert_with(|| grant.pod.name.clone());
                }
                let chance = Chance::of(desired.workload_of_target(grant), grant, desired);
                all.notes.extend(index.and_then(|index| words(desired, index, grant, (is_away, is_over), chance)));
                match (&grant.stands, is_away) {
                    (None, true) => {
                        let (stands, verify) = (Some(MicroTime(now)), grant.verify);
                        all.changes.push(Change::Clock { node, grant, stands, verify });
                    }
                    (Some(since), false) if !is_over => {
                        let stood = now.duration_since(since.0).max(SignedDuration::ZERO).as_secs();
                        let mut verify = grant.verify;
                        let more = u32::try_from(stood).unwrap_or(u32::MAX).saturating_add(1);
                        verify.progress_seconds = verify.progress_seconds.saturating_add(more);
                        all.changes.push(Change::Clock { node, grant, stands: None, verify });
                    }
                    // One that is over is granted anew, see [`super::endings`].
                    (Some(_), _) | (None, false) => {}
                }
            }
        }
        all
    }
}

pub(crate) fn words(
    desired: &DesiredState<'_>,
    index: usize,
    grant: &Grant,
    (is_away, is_over): (bool, bool),
    chance: Chance,
) -> Option<EventNote> {
    let since = grant.stands.as_ref()?;
    let pod = &grant.pod.name;
    let (severity, reason, text) = match (is_away, is_over) {
        (_, true) if chance == Chance::Had => {
            let text = format!(
                "pod {pod} was undone while pods of the version before were not Ready either, for the second time; it is not tried again by \
                 itself, use: kubectl hitless retry {}",
                desired.plans[index].workload.arguments()
            );
            (Severity::Warning, "NotTriedAgain", text)
        }
        (true, _) => {
            let text = format!(
                "pods of the version before are not Ready either since {}: what all of them need is away, so pod {pod} is not judged, and no \
                 other one goes; it goes on by itself when at least half of them are Ready again",
                since.0
            );
            (Severity::Warning, "DependencyAway", text)
        }
        (false, true) => {
            let text = format!(
                "pod {pod} was undone while pods of the version before were not Ready either; they are again, so it is tried once more, and not a third time"
            );
            (Severity::Normal, "TriedAgain", text)
        }
        (false, false) => return None,
    };
    Some(note(regarding(&desired.plans[index]), severity, reason, text))
}

//! Companion pods as they are, and what is known of the versions that they try.

use std::collections::HashMap;

use hitless_api::names::labels;
use hitless_api::pod::PodView;
use hitless_workloads::{Plan, Stage};
use jiff::{SignedDuration, Timestamp};

use crate::companion::{self, Outcome, State, Tried};
use crate::mode::{Gaps, start_seconds};
use crate::snapshot::Snapshot;

/// A companion for which there is no room is given up after so long: the version then comes without one.
pub(crate) const ROOM_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// One that is not ready after so long is worth a word.
pub(crate) const SLOW_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// Companion pods by their key.
pub(crate) struct Companions<'a> {
    pub(crate) by_key: HashMap<&'a str, &'a PodView>,
    pub(crate) now: Timestamp,
}

impl<'a> Companions<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let key = |pod: &'a PodView| Some((key_of(pod)?, pod));
        Self { by_key: snapshot.companions.iter().filter_map(|pod| key(pod)).collect(), now }
    }

    /// That of the revision that a workload's pods are brought to.
    pub(crate) fn of(&self, plan: &Plan) -> Option<&'a PodView> {
        if self.by_key.is_empty() {
            return None;
        }
        self.by_key.get(target_key(plan).as_str()).copied()
    }

    /// How long its containers need from start to ready, as far as its companion has shown.
    pub(crate) fn start_milliseconds(&self, plan: &Plan) -> Option<u32> {
        let now = match self.of(plan).map(|pod| State::of(pod, self.now)) {
            Some(State::Ready { start_milliseconds }) => Some(start_milliseconds),
            _ => None,
        };
        now.or_else(|| tried(plan)?.start_milliseconds)
    }
}

pub(crate) fn tried(plan: &Plan) -> Option<Tried> {
    Tried::parse(plan.tried.as_deref(), &plan.target)
}

/// Key of the companion of the revision that a workload's pods are brought to.
pub(crate) fn target_key(plan: &Plan) -> String {
    companion::key(&plan.workload, &plan.target)
}

/// Whether pods of the companion's workload are still to be brought to its version.
pub(crate) fn is_of_target(pod: &PodView, plan: &Plan) -> bool {
    is_moving(plan) && key_of(pod) == Some(target_key(plan).as_str())
}

/// Whether there is nothing to try any more: a companion has told, or one of the pods has.
pub(crate) fn is_known(plan: &Plan) -> bool {
    tried(plan).is_some() || Gaps::parse(plan.gaps.as_deref()).knows(&plan.target)
}

/// Whether the version has run in the workload's companion: it is Ready there, or was and that is known.
pub(crate) fn has_run(plan: &Plan, snapshot: &Snapshot, now: Timestamp) -> bool {
    let has_told = tried(plan).is_some_and(|tried| tried.outcome == Outcome::Good);
    let companion = Companions::new(snapshot, now).of(plan).map(|pod| State::of(pod, now));
    has_told || matches!(companion, Some(State::Ready { .. }))
}

/// No node had room for it.
pub(crate) fn is_skipped(plan: &Plan) -> bool {
    tried(plan).is_some_and(|tried| tried.outcome == Outcome::Skipped)
}

/// How long a version may take to get ready, as the workload's owner says.
pub(crate) fn deadline(plan: &Plan, companion: &PodView) -> SignedDuration {
    SignedDuration::from_secs(start_seconds(companion, plan.progress_deadline_seconds).into())
}

/// The label of a companion pod.
fn key_of(pod: &PodView) -> Option<&str> {
    pod.labels.get(labels::COMPANION).map(String::as_str)
}

/// Pods of the workload are being brought to another revision.
pub(crate) fn is_moving(plan: &Plan) -> bool {
    matches!(plan.stage, Stage::Rolling | Stage::Finishing) && !plan.behind.is_empty()
}

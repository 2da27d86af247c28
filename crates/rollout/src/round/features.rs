//! What a round adds once it is known which pods are operated: features, each a function of the same facts, in one list.

pub(crate) mod chance;
pub(crate) mod companions;
pub(crate) mod endpoints;
pub(crate) mod events;
pub(crate) mod halts;
pub(crate) mod in_service_fallback;
pub(crate) mod inoperable;
pub(crate) mod learned;
pub(crate) mod lifecycle;
pub(crate) mod lost;
pub(crate) mod plans;
pub(crate) mod policy_notes;
pub(crate) mod pools;
pub(crate) mod prefetch;
pub(crate) mod refusals;
pub(crate) mod reload;
pub(crate) mod requests;
pub(crate) mod rule_status;
pub(crate) mod service_publishing;
pub(crate) mod start_up;
pub(crate) mod unfit;

use std::collections::BTreeSet;

use hitless_api::event::EventNote;
use jiff::Timestamp;

use crate::round::change::{self, Change};
use crate::round::facts::Facts;
use crate::round::pod_verdict::PodVerdict;
use crate::round::write_plan::WritePlan;

/// What features read.
pub(crate) struct FeatureContext<'r, 'a, 'g> {
    pub(crate) facts: &'r Facts<'a, 'g>,
    /// Every pod that wants something, and whether it may.
    pub(crate) verdicts: &'r [PodVerdict],
    /// With the grants of this round, and with the changes of the features before.
    pub(crate) writes: &'r WritePlan<'a>,
    /// uids of the objects that the features before write: a second write to one of them would be conditional on the same version.
    pub(crate) written: &'r BTreeSet<String>,
    pub(crate) now: Timestamp,
}

/// What a feature returns.
#[derive(Default)]
pub(crate) struct Effects<'a> {
    pub(crate) changes: Vec<Change<'a>>,
    /// What people should know.
    pub(crate) notes: Vec<EventNote>,
    /// When to decide again even if nothing changes.
    pub(crate) wake_at: Option<Timestamp>,
}

impl<'a> Effects<'a> {
    pub(crate) fn of(changes: impl IntoIterator<Item = Change<'a>>) -> Self {
        Self { changes: changes.into_iter().collect(), ..Self::default() }
    }

    pub(crate) fn telling(mut self, notes: impl IntoIterator<Item = EventNote>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// Decides again at the first of these times.
    pub(crate) fn waking(mut self, times: impl IntoIterator<Item = Timestamp>) -> Self {
        self.wake_at = self.wake_at.into_iter().chain(times).min();
        self
    }

    pub(crate) fn wake(&mut self, at: Timestamp) {
        self.wake_at = self.wake_at.into_iter().chain([at]).min();
    }
}

type Feature = for<'a> fn(&FeatureContext<'_, 'a, '_>) -> Effects<'a>;

/// In the order in which they write. Where two want to write the same object the first one does, and the other one in a later round.
const FEATURES: [Feature; 21] = [
    service_publishing::follow,
    plans::follow,
    lifecycle::follow,
    requests::follow,
    unfit::follow,
    halts::follow,
    learned::follow,
    reload::follow,
    chance::follow,
    refusals::follow,
    in_service_fallback::follow,
    rule_status::follow,
    pools::follow,
    prefetch::follow,
    companions::follow,
    events::follow,
    lost::follow,
    start_up::follow,
    policy_notes::follow,
    inoperable::follow,
    endpoints::follow,
];

/// What they have led to.
pub(crate) struct Followed<'a> {
    pub(crate) writes: WritePlan<'a>,
    pub(crate) notes: Vec<EventNote>,
    pub(crate) wake_at: Option<Timestamp>,
}

/// All of them, one after the other. What would be said of a namespace that is not known need not be true.
pub(crate) fn follow<'a>(facts: &Facts<'a, '_>, writes: WritePlan<'a>, verdicts: &[PodVerdict]) -> Followed<'a> {
    let (mut written, now) = (BTreeSet::new(), writes.now);
    let mut all = Followed { writes, notes: Vec::new(), wake_at: None };
    for feature in FEATURES {
        let facts = FeatureContext { facts, verdicts, writes: &all.writes, written: &written, now };
        let Effects { changes, notes, wake_at } = feature(&facts);
        written.extend(change::written(&changes));
        all.writes = all.writes.with(changes);
        all.notes.extend(notes);
        all.wake_at = all.wake_at.into_iter().chain(wake_at).min();
    }
    let is_known = |namespace: &String| !facts.snapshot.leaves_out(namespace);
    all.notes.retain(|note| note.regarding.namespace.as_ref().is_none_or(is_known));
    all.notes.extend(events::left_out(facts.snapshot, now));
    all
}

//! What one term knows of its own writes.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::names::{annotations, labels};
use hitless_workloads::{Request, Write};
use jiff::{SignedDuration, Timestamp};

use crate::round::write::{is_of_node, ledger_of};

/// What became of the writes of this term, as far as objects do not show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnWrites {
    /// Nodes whose NodeTransition was written without an answer: the write may still arrive, until a later one to it has succeeded.
    pub unanswered_nodes: BTreeSet<String>,
    /// Namespaces whose ledger was written without an answer.
    pub unanswered_ledgers: BTreeSet<String>,
    /// Writes that the API server did not accept: of prefetch pods by [`crate::prefetch::Pull::key`], of companion pods by
    /// [`crate::companion::key`], all others by [`Write::key`].
    pub refused: BTreeMap<String, Refusal>,
    /// Dry runs that it has accepted; `None`: nobody makes any, and all is taken to be accepted.
    pub accepted: Option<BTreeSet<String>>,
}

/// What the API server does not accept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// Its words of the last attempt.
    pub words: String,
    /// How often in a row it has said no.
    pub tries: u32,
    /// When it did so last.
    pub at: Timestamp,
    /// Of a prefetch pod: its namespace, and the image that it was to fetch.
    pub image: Option<(String, String)>,
}

impl Refusal {
    /// After so long it is worth another try: quotas, policies and the objects themselves change.
    pub(crate) const COUNTS_FOR: SignedDuration = SignedDuration::from_mins(5);
    /// Words of the API server's admission plugins ResourceQuota and LimitRanger (`plugin/pkg/admission`).
    const ABOUT_ROOM: [&str; 4] = ["exceeded quota", "failed quota", "per Container", "per Pod"];

    /// Whether it still counts.
    #[must_use]
    pub fn counts(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) < Self::COUNTS_FOR
    }

    /// Whether it speaks of room, and so neither of the image nor of the form of the pod.
    #[must_use]
    pub fn is_about_room(&self) -> bool {
        Self::ABOUT_ROOM.iter().any(|about| self.words.contains(about))
    }

    /// Whether some webhook can't be asked without being told of a real pod (`sideEffects`): it may accept that.
    fn is_about_dry_runs(&self) -> bool {
        self.words.contains("does not support dry run")
    }
}

impl OwnWrites {
    /// Of a leader that has just begun.
    #[must_use]
    pub fn of_new_term() -> Self {
        Self { accepted: Some(BTreeSet::new()), ..Self::default() }
    }

    /// A write was not answered.
    pub fn unanswered(&mut self, write: &Write) {
        if is_of_node(write) {
            self.unanswered_nodes.insert(write.on.name.clone());
        } else if let Some(namespace) = ledger_of(write) {
            self.unanswered_ledgers.insert(namespace.to_owned());
        }
    }

    /// The API server says no to a write, in these words.
    pub fn refuse(&mut self, write: &Write, words: &str, now: Timestamp) {
        if self.refused.len() >= Self::MAX_REFUSED {
            self.refused.clear();
        }
        let (key, image) = subject(write);
        let before = self.refused.get(&key).filter(|known| known.counts(now)).map_or(0, |known| known.tries);
        let words = words.chars().take(Self::LONGEST_REFUSAL).collect();
        self.refused.insert(key, Refusal { words, tries: before.saturating_add(1), at: now, image });
    }

    /// A write has succeeded: an earlier one on the same version of the object can't any more.
    pub fn succeeded(&mut self, write: &Write) {
        if is_of_node(write) {
            self.unanswered_nodes.remove(&write.on.name);
        } else if let Some(namespace) = ledger_of(write) {
            self.unanswered_ledgers.remove(namespace);
        }
        let (key, _) = subject(write);
        self.refused.remove(&key);
        if let Some(accepted) = self.accepted.as_mut().filter(|_| write.is_dry_run()) {
            if accepted.len() >= Self::MAX_REFUSED {
                accepted.clear();
            }
            accepted.insert(key);
        }
    }

    /// Dry runs that say nothing against the pod: it would be accepted, as far as they tell.
    pub(crate) fn accepted(&self) -> Option<BTreeSet<String>> {
        let unsaid = self.refused.iter().filter(|(_, refusal)| refusal.is_about_room() || refusal.is_about_dry_runs());
        Some(self.accepted.as_ref()?.iter().chain(unsaid.map(|(key, _)| key)).cloned().collect())
    }

    /// So many refusals are remembered.
    const MAX_REFUSED: usize = 1000;
    /// So many characters of each.
    const LONGEST_REFUSAL: usize = 400;
}

/// By what a refusal of the write is remembered, and of a prefetch pod that is made its namespace and image.
fn subject(write: &Write) -> (String, Option<(String, String)>) {
    let of_helper = || {
        let Request::Create(object) = &write.request else { return None };
        let text = |map: &str, name: &str| object["metadata"][map][name].as_str().map(str::to_owned);
        let image = || Some((write.on.namespace.clone(), text("annotations", annotations::IMAGE)?));
        let prefetch = text("labels", labels::PREFETCH).map(|key| (key, image()));
        prefetch.or_else(|| Some((text("labels", labels::COMPANION)?, None)))
    };
    of_helper().filter(|_| write.makes_pod()).unwrap_or_else(|| (write.key(), None))
}

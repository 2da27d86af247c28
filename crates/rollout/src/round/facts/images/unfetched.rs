//! A pod that goes although its next image was not fetched to its node before (docs/contract.md#images-first).

use std::borrow::Cow;

use hitless_workloads::{Operation, PodIntent};

use crate::prefetch::{PrefetchState, Pull};
use crate::round::facts::images::{Images, gives_up_at};

/// So many prefetch pods have to be turned away by a node before its pod goes without.
const TRIES: u32 = 2;

impl<'a> Images<'a> {
    /// Why nothing is fetched any more before the pod goes, in the words of who turned the prefetch pods away: it is not the image that they
    /// speak of. The operation itself needs none of what they had no room for, and the kubelet pulls for the pod's own container; what comes
    /// of that is verified, and taken back, as ever. Where the pod is made anew the next one may well find a place, and the quota of the one
    /// that has gone.
    pub(crate) fn given_up(&self, intent: &PodIntent, pull: &Pull) -> Option<Cow<'_, str>> {
        let Operation { containers, fetch, .. } = &*intent.operation;
        let is_own = containers.values().chain(fetch.values()).any(|change| change.to == pull.image);
        if !is_own {
            return None;
        }
        // A digest of its own, which every operation asks for in every round.
        let key = pull.key();
        self.under_pressure(pull)
            .or_else(|| self.rejected(&key))
            .or_else(|| self.no_room(pull, &key))
            .or_else(|| self.no_sandbox(&key))
    }

    /// Nobody can fetch it there now, for whatever reason: that says nothing of the image.
    pub(crate) fn can_not_fetch(&self, pull: &Pull) -> bool {
        let key = pull.key();
        let is_turned_away = || self.rejected(&key).is_some() || self.no_sandbox(&key).is_some();
        self.pressure(pull).is_some() || self.refusal(pull, &key).is_some() || is_turned_away()
    }

    /// Its node is short of something, and has been for a while.
    fn under_pressure(&self, pull: &Pull) -> Option<Cow<'a, str>> {
        let pressure = self.pressure(pull)?;
        let is_lasting = pressure.lasts_from().is_some_and(|at| at <= self.now);
        is_lasting.then(|| format!("node {} has {}", pull.node, pressure.condition).into())
    }

    /// Its kubelet has let no pod in: it is full, or shuts down.
    fn rejected(&self, key: &str) -> Option<Cow<'a, str>> {
        let mut words = None;
        for attempt in self.attempts(key) {
            match &attempt.state {
                PrefetchState::Rejected { reason, message } => {
                    words = words.or_else(|| (attempt.attempt >= TRIES).then(|| format!("{reason}: {message}").into()));
                }
                PrefetchState::NotBegun | PrefetchState::Pulling => {}
                // Of the image somebody has said something.
                PrefetchState::Fetched { .. } | PrefetchState::Failed { .. } => return None,
            }
        }
        words
    }

    /// The API server has no room for it: a quota or a LimitRange.
    fn no_room(&self, pull: &Pull, key: &str) -> Option<Cow<'_, str>> {
        let refusal = self.refusal(pull, key).filter(|refusal| refusal.is_about_room());
        refusal.map(|refusal| refusal.words.as_str().into())
    }

    /// Its kubelet makes no sandbox: there may be no address left.
    fn no_sandbox(&self, key: &str) -> Option<Cow<'a, str>> {
        let latest = self.attempts(key).first().filter(|latest| latest.state == PrefetchState::NotBegun)?;
        let is_stuck = gives_up_at(latest).is_some_and(|at| at <= self.now);
        is_stuck.then(|| format!("node {} makes no sandbox for pod {}", latest.node, latest.pod.name).into())
    }
}

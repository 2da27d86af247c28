//! A pod that goes although its next image was not fetched to its node before (docs/contract.md#images-first).

use std::borrow::Cow;
use std::collections::BTreeMap;

use hitless_workloads::{Operation, PodIntent};

use super::{Images, UNFETCHED_AFTER, gives_up_at};
use crate::prefetch::{PrefetchState, PrefetchView, Pull};

/// So many prefetch pods have to be turned away by a node before its pod goes without.
const TRIES: u32 = 2;

/// Words of registries for who may not pull.
const UNAUTHORIZED: [&str; 4] = ["unauthorized", "authentication required", "denied", "forbidden"];

impl<'a> Images<'a> {
    /// Images that registries have refused in several attempts to the pull secrets that were used, by namespace and image, in their words.
    pub(in crate::round) fn unauthorized(&self) -> BTreeMap<(String, String), String> {
        let refused = |attempts: &Vec<&PrefetchView>| {
            let latest = attempts.first().filter(|latest| latest.attempt >= UNFETCHED_AFTER)?;
            let words = attempts.iter().find_map(|each| match &each.state {
                PrefetchState::Failed { message, .. } if UNAUTHORIZED.iter().any(|word| message.contains(word)) => {
                    Some(message.clone())
                }
                _ => None,
            });
            let words = words.filter(|_| !attempts.iter().any(|each| each.is_fetched()))?;
            Some(((latest.pod.namespace.clone(), latest.image.clone()), words))
        };
        self.attempts.values().filter_map(refused).collect()
    }

    /// Why nothing is fetched any more before the pod goes, in the words of who turned the prefetch pods away: it is not the image that they
    /// speak of. The operation itself needs none of what they had no room for, and the kubelet pulls for the pod's own container; what comes
    /// of that is verified, and taken back, as ever. Where the pod is made anew the next one may well find a place, and the quota of the one
    /// that has gone.
    pub(in crate::round) fn given_up(&self, intent: &PodIntent, pull: &Pull) -> Option<Cow<'_, str>> {
        let Operation { containers, fetch, .. } = &*intent.operation;
        let is_own = containers.values().chain(fetch.values()).any(|change| change.to == pull.image);
        if !is_own {
            return None;
        }
        // A digest of its own, which every wish asks for in every round.
        let key = pull.key();
        self.under_pressure(pull)
            .or_else(|| self.rejected(&key))
            .or_else(|| self.no_room(pull, &key))
            .or_else(|| self.no_sandbox(&key))
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

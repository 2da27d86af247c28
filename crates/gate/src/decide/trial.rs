//! Whether one more pod that is not available may be operated, where an available one might not.
//!
//! All pods may be unavailable for a reason that passes, and then operating them costs nothing now: yet a version that nobody has
//! verified must not get onto more of them than may be unavailable. What counts here are the pods *in trial*: those that are being
//! operated, and those that have the new version and are not available. That others are unavailable, too, is no reason to wait: what
//! is broken in its old version has to be mended.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::live::{Live, domain};
use crate::index::{Gate, Group, Symbol};
use crate::order::KnownCandidate;
use crate::policy::{Bound, Limits};
use crate::{Absence, Allows, Denies};

/// `None`: the pod is available, so it is no question of a trial.
type Trial = Option<Result<Allows, Denies>>;

fn answer(most: u64, in_trial: u64) -> Result<Allows, Denies> {
    let most = most.max(1);
    if in_trial < most {
        Ok(Allows::FewUnverified { most, unverified: in_trial })
    } else {
        Err(Denies::MaxUnverified { most, unverified: in_trial })
    }
}

/// Only operations that are under way count: the candidate keeps its version.
fn under_way_only(each: &KnownCandidate<'_>) -> bool {
    match each.candidate.absence {
        Absence::SameVersion => true,
        Absence::NewVersion | Absence::CostsNothing => false,
    }
}

impl Live {
    /// As an available pod, or, if it is none, as one more in trial.
    pub(super) fn availability_of(
        &self,
        each: &KnownCandidate<'_>,
        limits: Limits,
        own: u64,
    ) -> Result<Allows, Denies> {
        let answered = self.availability(limits, each.pod.is_down_unreserved(), own);
        if each.pod.is_available() {
            return answered;
        }
        answered.or_else(|_| {
            let total = self.total(own);
            let max = limits.max_unavailable.map(|limit| limit.of(total));
            let min = limits.min_available.map(|limit| total.saturating_sub(limit.of(total)));
            let most = [max, min].into_iter().flatten().min().unwrap_or(total);
            let unverified = self.counts.unverified - u64::from(each.pod.is_unverified());
            answer(most, self.counts.reserved + own + if under_way_only(each) { 0 } else { unverified })
        })
    }

    /// The same by nodes: one that has a pod in trial may have more.
    pub(super) fn trial_on_nodes(
        &mut self,
        in_group: (&Gate, &Group),
        each: &KnownCandidate<'_>,
        bound: Bound,
    ) -> Trial {
        if each.pod.is_available() {
            return None;
        }
        let total = in_group.1.nodes.len() as u64;
        let tries_on = self.tries_on(in_group, each);
        let others = tries_on.keys().flatten().filter(|node| Some(**node) != each.pod.node).count() as u64;
        let begun = tries_on.contains_key(&each.pod.node);
        Some(answer(bound.of(total), if begun { 0 } else { others }))
    }

    /// The same by domains.
    pub(super) fn trial_on_domains(
        &mut self,
        in_group: (&Gate, &Group),
        each: &KnownCandidate<'_>,
        (key, most): (&str, u64),
        why: Denies,
    ) -> Result<Allows, Denies> {
        if each.pod.is_available() || matches!(why, Denies::NoNodeHasLabel { .. }) {
            return Err(why);
        }
        let gate = in_group.0;
        let domains: BTreeSet<String> =
            self.tries_on(in_group, each).keys().map(|node| domain(gate, *node, key)).collect();
        let begun = domains.contains(&domain(gate, each.pod.node, key));
        answer(most, if begun { 0 } else { domains.len() as u64 })
    }

    /// The same on the pod's own node, of which so many pods have to stay.
    pub(super) fn trial_on_node(&mut self, in_group: (&Gate, &Group), each: &KnownCandidate<'_>, fewest: u64) -> Trial {
        if each.pod.is_available() {
            return None;
        }
        let listed = each.pod.node.and_then(|node| in_group.1.nodes.get(&node));
        let total = listed.map_or(1, |count| count.available + count.unavailable);
        let in_trial = self.tries_on(in_group, each).get(&each.pod.node).copied().unwrap_or_default();
        Some(answer(total.saturating_sub(fewest), in_trial))
    }

    /// Pods in trial by node, without the candidate itself.
    fn tries_on(&mut self, (gate, group): (&Gate, &Group), each: &KnownCandidate<'_>) -> HashMap<Option<Symbol>, u64> {
        let only = under_way_only(each);
        let taken = &self.taken;
        let tries_on = self.tries_on.entry(only).or_insert_with(|| {
            let mut tries_on: HashMap<Option<Symbol>, u64> = HashMap::new();
            let down = group.down.iter().filter(|id| !taken.contains(*id)).chain(taken);
            for (id, pod) in down.filter_map(|id| Some((id, gate.pods.get(*id as usize)?))) {
                if pod.is_reserved() || taken.contains(id) || (!only && pod.is_unverified()) {
                    *tries_on.entry(pod.node).or_default() += 1;
                }
            }
            tries_on
        });
        let mut others = tries_on.clone();
        if !only
            && each.pod.is_unverified()
            && let Some(count) = others.get_mut(&each.pod.node)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                others.remove(&each.pod.node);
            }
        }
        others
    }
}

//! How many pods of a group are there and available, per uid and never twice.

use std::collections::BTreeMap;

use crate::limit::Limits;
use crate::{Because, OwnerFacts, OwnerKey, PodFacts};

/// Counts of a group of pods that share a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    /// Base of percentages.
    total: u64,
    /// Wanted by an owner and not there.
    missing: u64,
    /// Missing, not available, or reserved.
    unavailable: u64,
    /// Available and not reserved.
    available: u64,
}

impl Room {
    /// Counts `members`; `live` has the number of listed pods of each owner, and `free` says whether a pod is available and
    /// not reserved.
    ///
    /// An owner counts with the pods it desires (CONTRACT 7), and those of them that are not there are unavailable: else a
    /// scale-up would let all old pods go at once before the first new one is there. An owner of which only some pods are
    /// members (say, one zone) counts with these alone, since nobody can tell how many of them it desires.
    pub(crate) fn count<'a>(
        members: impl Iterator<Item = (&'a PodFacts, bool)>,
        live: &BTreeMap<&OwnerKey, u64>,
        owners: &BTreeMap<OwnerKey, OwnerFacts>,
    ) -> Self {
        let mut room = Self::default();
        let mut by_owner: BTreeMap<&OwnerKey, u64> = BTreeMap::new();
        for (pod, free) in members {
            if free {
                room.available += 1;
            } else {
                room.unavailable += 1;
            }
            match &pod.owner {
                Some(owner) => *by_owner.entry(owner).or_default() += 1,
                None => room.total += 1,
            }
        }
        for (owner, members) in by_owner {
            let desired = owners.get(owner).map(|facts| u64::from(facts.desired));
            let base = desired.filter(|_| live.get(owner) == Some(&members)).unwrap_or(members);
            room.total += base;
            room.missing += base.saturating_sub(members);
        }
        room.unavailable += room.missing;
        room
    }

    /// Whether one more available pod may go under these limits; the maximum is asked first, as upstream.
    pub(crate) fn admits(&self, limits: Limits) -> Result<Because, Because> {
        let Self { total, missing, unavailable, available } = *self;
        let max_unavailable = limits.max_unavailable.map(|limit| limit.rounded_up(total));
        let min_available = limits.min_available.map(|limit| limit.rounded_down(total));
        if let Some(quota) = max_unavailable.filter(|quota| unavailable >= *quota) {
            return Err(Because::MaxUnavailable { quota, unavailable, missing, total });
        }
        if let Some(quota) = min_available.filter(|quota| available <= *quota) {
            return Err(Because::MinAvailable { quota, available, total });
        }
        Ok(Because::WithinBudget { total, unavailable, max_unavailable, available, min_available })
    }

    /// Limits of the implicit budget for this group: a share that rounds down, but at least one.
    pub(crate) fn implicit_limits(&self, percent: u32) -> Limits {
        let quota = (self.total.saturating_mul(u64::from(percent)) / 100).max(1);
        Limits { max_unavailable: Some(crate::limit::Limit::Count(quota)), min_available: None }
    }

    /// One available pod of the group is reserved.
    pub(crate) fn take_one(&mut self) {
        self.available = self.available.saturating_sub(1);
        self.unavailable += 1;
    }
}

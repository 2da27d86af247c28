//! How many pods a CloneSet is to make, to remove and to update: upstream's calculation, number by number.
//!
//! Pods are counted on two sides, those of the update revision (new) and the others (old). Kruise's names for the results are in the
//! comments of [`Difference`].

/// What the owner wants, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) replicas: usize,
    pub(super) partition: usize,
    pub(super) max_surge: usize,
    pub(super) max_unavailable: usize,
    /// While so many pods are unavailable, none is made; `None`: no limit.
    pub(super) scale_max_unavailable: Option<usize>,
    /// Pods that wait for a hook before they are deleted do not count as there.
    pub(super) excludes_preparing_delete: bool,
    /// A larger partition takes updated pods back (upstream's gate `CloneSetPartitionRollback`, off by default), and there is another revision
    /// to take them back to.
    pub(super) goes_back: bool,
}

/// A pod, as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a question to the pod, and upstream counts by all combinations"
)]
pub(super) struct Counted {
    /// Its revision is the update revision.
    pub(super) is_new: bool,
    pub(super) is_available: bool,
    /// Its owner has named it: `podsToDelete`, or the label `specified-delete`.
    pub(super) is_to_delete: bool,
    /// It waits for a hook before it is deleted.
    pub(super) is_preparing_delete: bool,
}

/// What is missing, and what is too much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Pods to make (`scaleUpNum`).
    pub(super) to_make: usize,
    /// So many of them of the current revision (`scaleUpNumOldRevision`); may be more than all.
    pub(super) to_make_old: usize,
    /// So many of them now (`scaleUpLimit`).
    pub(super) to_make_now: usize,
    /// Pods to remove beside those that the owner has named (`scaleDownNum`).
    pub(super) to_remove: usize,
    /// So many of them old ones (`scaleDownNumOldRevision`); may be more than all.
    pub(super) to_remove_old: usize,
    /// So many available pods may be removed now (`deleteReadyLimit`).
    pub(super) removable_available: usize,
    /// Pods beyond the wanted ones (`useSurge`).
    pub(super) surge: usize,
    /// So many of them old ones (`useSurgeOldRevision`).
    pub(super) surge_old: usize,
    /// Pods to update; less than 0: to take back (`updateNum`).
    pub(super) to_update: i64,
    /// Most pods that may be unavailable for it (`updateMaxUnavailable`); less than 0 where pods are missing.
    pub(super) most_unavailable: i64,
}

#[derive(Clone, Copy, Default)]
struct Side {
    total: i64,
    preparing_delete: i64,
    active: i64,
    to_delete: i64,
    unavailable: i64,
}

impl Side {
    fn of<'p>(pods: impl Iterator<Item = &'p Counted>) -> Self {
        let mut side = Self::default();
        for pod in pods {
            side.total += 1;
            if pod.is_preparing_delete {
                side.preparing_delete += 1;
                continue;
            }
            side.active += 1;
            if pod.is_to_delete {
                side.to_delete += 1;
            } else if !pod.is_available {
                side.unavailable += 1;
            }
        }
        side
    }
}

/// What is to be done for these pods.
pub(super) fn difference(wanted: &Wanted, pods: &[Counted]) -> Difference {
    let new = Side::of(pods.iter().filter(|pod| pod.is_new));
    let old = Side::of(pods.iter().filter(|pod| !pod.is_new));
    let [replicas, partition, most] = [wanted.replicas, wanted.partition, wanted.max_unavailable].map(number);
    let unavailable = new.preparing_delete + old.preparing_delete + new.unavailable + old.unavailable;
    let (mut too_old, mut too_new) = (old.active - partition, new.active - (replicas - partition));
    if !wanted.goes_back {
        (too_old, too_new) = (too_old.max(0), too_new.min(0));
    }
    let (surge, surge_old) = surge(wanted, [new, old], unavailable, [too_new, too_old]);
    let (mut there, mut there_old) = (new.total + old.total, old.total);
    if wanted.excludes_preparing_delete {
        there -= new.preparing_delete + old.preparing_delete;
        there_old -= old.preparing_delete;
    }
    let (total, total_old) = (replicas + surge, partition + surge_old);
    let to_delete = new.to_delete + old.to_delete;
    let mut found = Difference { surge: count(surge), surge_old: count(surge_old), ..Difference::default() };
    let to_make = count(total - there);
    if to_make > 0 {
        let limit = wanted.scale_max_unavailable.map_or(usize::MAX, |most| count(number(most) - unavailable));
        found =
            Difference { to_make, to_make_old: count(total_old - there_old), to_make_now: to_make.min(limit), ..found };
    }
    let to_remove = count(there - to_delete - total);
    if to_remove > 0 {
        found = Difference { to_remove, to_remove_old: count(there_old - old.to_delete - total_old), ..found };
    }
    let beyond = number(pods.len()) - replicas;
    if to_delete > 0 || to_remove > 0 {
        found.removable_available = count(most + beyond - unavailable);
    }
    found.to_update = if too_old.abs() <= too_new.abs() { too_old } else { -too_new };
    if found.to_update != 0 {
        found.most_unavailable = most + beyond;
    }
    found
}

/// How many pods beyond the wanted ones there are to be, and how many of them old ones.
fn surge(wanted: &Wanted, [new, old]: [Side; 2], unavailable: i64, [too_new, too_old]: [i64; 2]) -> (i64, i64) {
    let most = number(wanted.max_surge);
    if most == 0 {
        return (0, 0);
    }
    let to_delete = new.to_delete + old.to_delete;
    let for_deletions = match to_delete {
        0 => 0,
        _ => (unavailable + to_delete - number(wanted.max_unavailable)).max(0).min(to_delete),
    };
    let (mut for_update, mut for_update_old) = (0, 0);
    if too_old * too_new < 0 {
        for_update = too_old.abs().min(too_new.abs());
        let asks_for_old = if too_old.abs() <= too_new.abs() { too_old < 0 } else { too_new > 0 };
        for_update_old = if asks_for_old { for_update } else { 0 };
    }
    let (surge, surge_old) = if for_update > for_deletions {
        (for_update, for_update_old)
    } else {
        (for_deletions, (for_deletions - new.to_delete).max(0))
    };
    let surge = surge.min(most);
    (surge, surge_old.min(surge))
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count(number: i64) -> usize {
    usize::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests;

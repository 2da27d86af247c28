//! How many of the pods that are to be updated may begin now: upstream's walk along their order.

/// What the walk is bounded by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most pods to update at all.
    pub(super) number: usize,
    /// Most pods that may be unavailable.
    pub(super) most: i64,
    /// Pods of the update revision that are unavailable.
    pub(super) unavailable_in_target: usize,
    /// Pods of any revision that are unavailable.
    pub(super) unavailable: usize,
}

/// How many of the pods, of which each is available or not, in the order in which they are to be updated. A pod that is unavailable already
/// costs nothing but its place among those of the update revision. The first available pod that may not go ends the walk, also for the ones
/// after it.
pub(super) fn chosen(bounds: Bounds, in_order: impl Iterator<Item = bool>) -> usize {
    let below = |count: usize| i64::try_from(count).is_ok_and(|count| count < bounds.most);
    let (mut chosen, mut unavailable) = (0, bounds.unavailable);
    for is_available in in_order.take(bounds.number) {
        if !below(bounds.unavailable_in_target + chosen) || (is_available && !below(unavailable)) {
            break;
        }
        unavailable += usize::from(is_available);
        chosen += 1;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::clone_set::difference::{Counted, Wanted, difference};
    use crate::kinds::clone_set::rounding;

    /// Replicas, partition, maxUnavailable, maxSurge, pods (`r` available, `u` not), how many of them are old, how many are chosen.
    type Case = (usize, usize, Option<usize>, usize, &'static str, &'static [usize], usize);

    /// facts/openkruise.md §3.7.
    const CASES: &[Case] = &[
        (3, 0, None, 0, "rrr", &[0, 1, 2], 1),
        (3, 0, None, 0, "urr", &[0, 1, 2], 1),
        (3, 2, Some(3), 0, "urr", &[0, 1], 0),
        (5, 0, Some(2), 0, "uuuuu", &[0, 1, 2, 3, 4], 2),
        (5, 0, Some(2), 0, "uuuru", &[0, 1, 2], 1),
        (5, 0, Some(2), 1, "uuuuru", &[0, 1, 2, 3], 2),
        (5, 0, Some(2), 1, "uuuuuu", &[0, 1, 2], 0),
        (4, 0, Some(2), 1, "rrrrr", &[0, 1], 1),
    ];

    #[test]
    fn as_many_are_chosen_as_upstreams_tests_say() {
        for (replicas, partition, most, max_surge, text, old, wanted) in CASES {
            let is_available: Vec<bool> = text.bytes().map(|pod| pod == b'r').collect();
            let counted = is_available.iter().enumerate().map(|(index, is_available)| Counted {
                is_new: !old.contains(&index),
                is_available: *is_available,
                is_to_delete: false,
                is_preparing_delete: false,
            });
            let pods: Vec<Counted> = counted.collect();
            let wants = Wanted {
                replicas: *replicas,
                partition: *partition,
                max_surge: *max_surge,
                max_unavailable: most
                    .unwrap_or_else(|| rounding::max_unavailable(*replicas, None, *max_surge).unwrap()),
                scale_max_unavailable: None,
                excludes_preparing_delete: false,
                goes_back: true,
            };
            let found = difference(&wants, &pods);
            let unavailable = |is_meant: &dyn Fn(&Counted) -> bool| {
                pods.iter().filter(|pod| !pod.is_available && is_meant(pod)).count()
            };
            let bounds = Bounds {
                number: usize::try_from(found.to_update).unwrap(),
                most: found.most_unavailable,
                unavailable_in_target: unavailable(&|pod| pod.is_new),
                unavailable: unavailable(&|_| true),
            };
            let in_order = old.iter().map(|index| is_available[*index]);
            assert_eq!(chosen(bounds, in_order), *wanted, "{replicas} {partition} {most:?} {max_surge} {text}");
        }
    }
}

//! How long clients and load balancers of a cluster take to notice that a pod has left service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Times from a pod's leaving to its last new connection, of operations on one node. Kept in [`crate::NodeTransitionSpec`] by
/// the controller, together with the removal of the grant that a time comes from, so that each counts once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Propagation {
    /// Operations that were measured. Beyond a thousand, half of what is known is forgotten.
    pub samples: u32,
    /// The longest times in milliseconds, the longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub longest: Vec<u32>,
}

impl Propagation {
    /// Name of the number in an operation's report.
    pub const REPORTED: &str = "propagationMilliseconds";
    /// Of so many samples the longest are kept: more than a thousandth.
    const KEPT: usize = 10;
    const MOST: u32 = 1000;
    /// No more is learned than this, in seconds: whoever comes later does not follow the endpoints at all.
    pub const LONGEST_SECONDS: u32 = 10;
    /// Fewer samples than this don't say how slow a cluster can be ...
    const FEW: usize = 100;
    /// ... so that pods stay out for this long at least: kube-proxy writes its rules once a second at most (`minSyncPeriod`), and
    /// takes a while to do so.
    pub const UNKNOWN_SECONDS: u32 = 2;

    /// One more time.
    pub fn add(&mut self, milliseconds: u32) {
        let place = self.longest.partition_point(|known| *known >= milliseconds);
        self.longest.insert(place, milliseconds);
        self.longest.truncate(Self::KEPT);
        self.samples = self.samples.saturating_add(1);
        if self.samples >= Self::MOST {
            // The longest goes first, or a bad day would count for ever.
            self.longest = self.longest.iter().copied().skip(1).step_by(2).collect();
            self.samples /= 2;
        }
    }

    /// How long a pod is to stay out of service at least, in seconds: the 99.9th percentile over several nodes (nearest rank),
    /// rounded up, at most [`Self::LONGEST_SECONDS`]; and as long as little is known, at least [`Self::UNKNOWN_SECONDS`].
    pub fn least_seconds<'a>(nodes: impl IntoIterator<Item = &'a Self>) -> u32 {
        let (mut samples, mut longest) = (0_usize, Vec::<u32>::new());
        for node in nodes {
            samples = samples.saturating_add(usize::try_from(node.samples).unwrap_or(usize::MAX));
            longest.extend(&node.longest);
        }
        longest.sort_unstable_by(|one, other| other.cmp(one));
        let rank = samples.div_ceil(1000).clamp(1, longest.len().max(1));
        let measured = longest.get(rank - 1).map_or(0, |milliseconds| milliseconds.div_ceil(1000));
        let least = if samples < Self::FEW { Self::UNKNOWN_SECONDS } else { 0 };
        measured.clamp(least, Self::LONGEST_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = u32>) -> Propagation {
        let mut propagation = Propagation::default();
        times.into_iter().for_each(|milliseconds| propagation.add(milliseconds));
        propagation
    }

    #[test]
    fn of_few_the_longest_counts_and_of_many_all_but_a_thousandth() {
        assert_eq!(Propagation::least_seconds([&of([300, 2200, 700])]), 3);
        assert_eq!(Propagation::least_seconds([&of([1200; 100])]), 2);
        let nodes: Vec<_> =
            (0..10).map(|node| of((0..400).map(|n| if n == 0 { 1000 * (node + 1) } else { 50 }))).collect();
        assert_eq!(Propagation::least_seconds(&nodes), 7, "of 4,000 the fourth longest");
        assert_eq!(Propagation::least_seconds([&of([60_000])]), Propagation::LONGEST_SECONDS);
    }

    #[test]
    fn a_cluster_of_which_little_is_known_is_not_taken_for_a_quick_one() {
        assert_eq!(Propagation::least_seconds([]), Propagation::UNKNOWN_SECONDS);
        assert_eq!(Propagation::least_seconds([&Propagation::default()]), Propagation::UNKNOWN_SECONDS);
        assert_eq!(Propagation::least_seconds([&of([50; 49]), &of([50; 50])]), Propagation::UNKNOWN_SECONDS);
        assert_eq!(Propagation::least_seconds([&of([50; 50]), &of([50; 50])]), 1);
    }

    #[test]
    fn what_was_long_once_is_forgotten() {
        let mut propagation = of([9000]);
        for _ in 0..2000 {
            propagation.add(100);
        }
        assert!(propagation.samples < 1000 && propagation.longest.len() <= Propagation::KEPT, "{propagation:?}");
        assert_eq!(Propagation::least_seconds([&propagation]), 1);
    }

    #[test]
    fn the_longest_are_kept_in_their_order() {
        let propagation = of((1..=50).map(|n| n * 7 % 50));
        assert_eq!((propagation.samples, propagation.longest.len()), (50, 10));
        assert!(propagation.longest.is_sorted_by(|one, other| one >= other), "{propagation:?}");
        assert_eq!(propagation.longest[0], 49);
    }
}

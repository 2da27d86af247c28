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

    /// With fewer others nobody can tell which one is wrong.
    const WITNESSES: usize = 2;

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
    ///
    /// What one node alone says is not believed where two others have measured [`Self::FEW`] times or more: its times count as no
    /// longer than the longest of all others. One agent that lies would slow down everybody.
    pub fn least_seconds<'a>(nodes: impl IntoIterator<Item = &'a Self>) -> u32 {
        let nodes: Vec<&Self> = nodes.into_iter().filter(|node| node.samples > 0).collect();
        let believed = Self::believed(&nodes);
        let samples = nodes.iter().map(|node| usize::try_from(node.samples).unwrap_or(usize::MAX));
        let samples = samples.fold(0_usize, usize::saturating_add);
        let mut longest: Vec<u32> =
            nodes.iter().flat_map(|node| &node.longest).map(|known| *known.min(&believed)).collect();
        longest.sort_unstable_by(|one, other| other.cmp(one));
        let rank = samples.div_ceil(1000).clamp(1, longest.len().max(1));
        let measured = longest.get(rank - 1).map_or(0, |milliseconds| milliseconds.div_ceil(1000));
        let least = if samples < Self::FEW { Self::UNKNOWN_SECONDS } else { 0 };
        measured.clamp(least, Self::LONGEST_SECONDS)
    }

    /// Times are believed up to this, in milliseconds.
    fn believed(nodes: &[&Self]) -> u32 {
        let top = |node: &&Self| (node.longest.iter().copied().max().unwrap_or_default(), node.samples);
        let mut tops: Vec<(u32, u32)> = nodes.iter().map(top).collect();
        tops.sort_unstable_by(|one, other| other.cmp(one));
        let [(highest, _), others @ ..] = tops.as_slice() else { return u32::MAX };
        // Nodes with few clients see few late ones: they say nothing against one that does.
        let has_seen_enough = |samples: u32| usize::try_from(samples).is_ok_and(|samples| samples >= Self::FEW);
        let witnesses = others.iter().filter(|(top, samples)| top < highest && has_seen_enough(*samples)).count();
        match others.first() {
            Some((second, _)) if second < highest && witnesses >= Self::WITNESSES => *second,
            Some(_) | None => u32::MAX,
        }
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
    fn what_one_node_alone_says_is_not_believed_if_two_others_have_seen_enough() {
        let (honest, liar) = (of([300; 100]), of([10_000; 500]));
        let least = |nodes: &[&Propagation]| Propagation::least_seconds(nodes.iter().copied());
        assert_eq!(least(&[&honest, &liar]), 10, "which of two lies can't be told");
        assert_eq!(least(&[&honest, &honest, &liar]), 1);
        assert_eq!(least(&[&honest, &honest, &of([4000; 5]), &liar]), 4, "another one has seen something, too");
        assert_eq!(least(&[&honest, &honest, &liar, &liar]), 10, "two say so");
        let few = of([300]);
        assert_eq!(least(&[&of([4000; 500]), &few, &few]), 4, "the others have hardly had clients");
        assert_eq!(least(&[&honest, &Propagation::default(), &liar]), 10, "one that knows nothing is none");
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

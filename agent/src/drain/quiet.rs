//! Have clients stopped opening connections? Told from the kernel's count of accepted connections.

use std::collections::VecDeque;
use std::time::Duration;

/// Decides whether a pod is quiet: over the last [`Quiet::WINDOW`] it accepted no more connections than the kubelet's probes
/// account for. Whether an endpoint has really gone shows here first, wherever the load balancer is.
#[derive(Clone, Debug)]
pub struct Quiet {
    /// Seconds between two probes, for each probe that opens a connection.
    probe_periods: Vec<u32>,
    /// Time and count of each look, the oldest first; at most one of them is older than the window.
    looks: VecDeque<(Duration, u64)>,
    has_come: bool,
}

impl Quiet {
    /// How long nobody must come.
    pub const WINDOW: Duration = Duration::from_secs(1);

    /// `probe_periods`: seconds between two probes, for each probe that opens a connection.
    #[must_use]
    pub fn new(probe_periods: &[u32]) -> Self {
        Self { probe_periods: probe_periods.to_vec(), looks: VecDeque::new(), has_come: false }
    }

    /// Notes that by `time` (from any fixed start) `accepted` connections had been accepted in all.
    pub fn look(&mut self, time: Duration, accepted: u64) {
        self.looks.push_back((time, accepted));
        let begin = time.saturating_sub(Self::WINDOW);
        while self.looks.get(1).is_some_and(|(second, _)| *second <= begin) {
            self.looks.pop_front();
        }
        self.has_come |= self.seen().is_some_and(|(time, grown)| grown > self.expected_within(time));
    }

    /// Whether more have come than the probes account for, at any time.
    #[must_use]
    pub const fn has_come(&self) -> bool {
        self.has_come
    }

    /// The time that is looked at, about the window, and how many were accepted in it. A count that has gone down is one of
    /// another namespace: nothing is known.
    fn seen(&self) -> Option<(Duration, u64)> {
        let ((begin, before), (end, after)) = (self.looks.front()?, self.looks.back()?);
        Some((end.saturating_sub(*begin), after.checked_sub(*before)?))
    }

    /// Most probes that can fall into that time, and one for a probe that came late; none if nothing probes.
    fn expected_within(&self, time: Duration) -> u64 {
        let within = |period: &u32| time.as_nanos().div_ceil(Duration::from_secs((*period).max(1).into()).as_nanos());
        let probes: u128 = self.probe_periods.iter().map(within).sum();
        u64::try_from(probes).unwrap_or(u64::MAX).saturating_add(u64::from(!self.probe_periods.is_empty()))
    }

    /// Whether it is quiet as of the last look.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.seen().is_some_and(|(time, grown)| time >= Self::WINDOW && grown <= self.expected_within(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after_looks(periods: &[u32], looks: &[(u64, u64)]) -> bool {
        let mut quiet = Quiet::new(periods);
        for &(milliseconds, accepted) in looks {
            quiet.look(Duration::from_millis(milliseconds), accepted);
        }
        quiet.is_quiet()
    }

    #[test]
    fn quiet_is_a_whole_window_without_more_than_the_probes() {
        for (periods, looks, expected, why) in [
            (&[][..], &[][..], false, "nobody looked"),
            (&[], &[(0, 5)], false, "one look"),
            (&[], &[(0, 5), (999, 5)], false, "less than a window"),
            (&[], &[(0, 5), (1000, 5)], true, "nobody came"),
            (&[], &[(0, 5), (1000, 6)], false, "one came, and nothing probes"),
            (&[1], &[(0, 5), (1000, 7)], true, "a probe and a late one"),
            (&[1], &[(0, 5), (1000, 8)], false, "more than the probes"),
            (&[10, 10], &[(0, 5), (1000, 8)], true, "two probes and a late one"),
            (&[], &[(0, 0), (500, 9), (1500, 9)], true, "they came before the window"),
            (&[], &[(0, 0), (501, 9), (1500, 9)], false, "the window begins at a look that is old enough"),
            (&[], &[(0, 9), (1000, 3)], false, "the count went down: another namespace"),
            (&[1, 1], &[(0, 5), (1250, 10)], true, "looks far apart: two probes twice and a late one"),
            (&[1, 1], &[(0, 5), (1250, 11)], false, "one more"),
        ] {
            assert_eq!(after_looks(periods, looks), expected, "{why}");
        }
    }

    #[test]
    fn that_somebody_has_come_is_remembered() {
        let mut quiet = Quiet::new(&[1]);
        for (milliseconds, accepted, has_come) in [(0, 5, false), (900, 7, false), (1800, 10, true), (9000, 10, true)] {
            quiet.look(Duration::from_millis(milliseconds), accepted);
            assert_eq!(quiet.has_come(), has_come, "{milliseconds} ms");
        }
    }

    proptest! {
        /// However the looks fall, traffic above the probes' rate is never called quiet, and none at all always is.
        #[test]
        fn steady_traffic_is_told_from_none(steps in prop::collection::vec(1..60_u64, 60..200), probes in 0..3_usize) {
            let periods = vec![1; probes];
            let mut none = Quiet::new(&periods);
            let mut steady = Quiet::new(&periods);
            let mut time = 0;
            for step in steps {
                time += step;
                none.look(Duration::from_millis(time), 7);
                // Eight a second are more than three probes and a late one can be, in any window.
                steady.look(Duration::from_millis(time), time / 125);
                prop_assert!(!steady.is_quiet());
            }
            prop_assert_eq!(none.is_quiet(), true);
        }

        #[test]
        fn it_remembers_little(steps in prop::collection::vec(1..2000_u64, 0..300)) {
            let mut quiet = Quiet::new(&[]);
            let mut time = 0;
            for step in steps {
                time += step;
                quiet.look(Duration::from_millis(time), 0);
                let old = quiet.looks.iter().filter(|(at, _)| *at + Quiet::WINDOW <= Duration::from_millis(time)).count();
                prop_assert!(old <= 1);
            }
        }
    }
}

//! How long operations are assumed to take.

use hitless_api::pod::PodView;
use hitless_api::{DrainSpec, GrantMode, Propagation, StragglerPolicy};

/// How long operations take.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// Seconds of one that nothing is special about.
    pub(super) usual: u32,
    /// Connections stay as long as the drain lets them.
    pub(super) has_stragglers: bool,
}

impl Pace {
    /// Seconds of an operation of this drain. A pod that is held is not waited for: neither `minSeconds` nor the straggler policy
    /// is for it.
    pub(super) fn seconds(self, drain: &DrainSpec, mode: Option<&GrantMode>) -> u32 {
        if mode.is_some_and(GrantMode::stays_in_service) {
            return self.usual;
        }
        // The usual one has the least time of a cluster of which nothing is known.
        let longer = drain.min_seconds.saturating_sub(Propagation::UNKNOWN_SECONDS);
        let stragglers = if self.has_stragglers { stragglers(drain) } else { 0 };
        self.usual.saturating_add(longer).saturating_add(stragglers)
    }

    /// Of an operation that has begun, or of which nothing is known but the pod.
    pub(super) fn seconds_of(self, pod: &PodView) -> u32 {
        self.seconds(&DrainSpec::of(pod).unwrap_or_default(), None)
    }
}

/// Seconds that connections may hold the pod up.
fn stragglers(drain: &DrainSpec) -> u32 {
    match drain.stragglers {
        StragglerPolicy::Close | StragglerPolicy::Destroy => drain.straggler_after_seconds.min(drain.deadline_seconds),
        StragglerPolicy::Wait | StragglerPolicy::Abort => drain.deadline_seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pod_that_leaves_waits_for_its_connections() {
        let drain =
            DrainSpec { min_seconds: 4, straggler_after_seconds: 20, deadline_seconds: 50, ..DrainSpec::default() };
        let seconds = |has_stragglers, mode| Pace { usual: 10, has_stragglers }.seconds(&drain, mode);
        for mode in [None, Some(&GrantMode::Leave)] {
            assert_eq!((seconds(false, mode), seconds(true, mode)), (12, 32), "{mode:?}");
        }
        assert_eq!((seconds(false, Some(&GrantMode::Hold)), seconds(true, Some(&GrantMode::Hold))), (10, 10));
    }
}

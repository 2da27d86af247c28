//! The controller, as far as an agent notices: it answers a pod that waits for the rules of stage `PostCheck`.

use hitless_api::{Phase, PostCheck};
use jiff::{SignedDuration, Timestamp};

use super::World;

/// What the rules of stage `PostCheck` do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// They pass so many milliseconds after the agent has reported that it waits for them.
    Pass(i64),
    NeverPass,
}

impl World {
    /// The grant says that rules of stage `PostCheck` concern the pod.
    pub(crate) fn check(&mut self, rules: Rules) {
        self.rules = rules;
        self.transition.spec.grants[0].post_check = Some(PostCheck::Pending);
    }

    pub(super) fn is_pending(&self) -> bool {
        self.grant().post_check == Some(PostCheck::Pending)
    }

    pub(super) fn next_pass(&self) -> Option<Timestamp> {
        let Rules::Pass(milliseconds) = self.rules else { return None };
        let reported = self.transition.transition(self.grant())?;
        (self.is_pending() && reported.phase == Phase::Checking)
            .then(|| reported.since.0.checked_add(SignedDuration::from_millis(milliseconds)).unwrap())
    }

    pub(super) fn pass(&mut self) {
        if self.next_pass().is_some_and(|at| at <= self.now) {
            self.transition.spec.grants[0].post_check = Some(PostCheck::Passed);
        }
    }
}

//! Where the rules let no pod go because too few would be left, a companion pod that serves makes room.

use hitless_api::pod::PodView;
use hitless_gate::{Denies, RuleVerdict, Verdict};

use crate::mode::Forecast;
use crate::round::companions::waiting;
use crate::round::facts::Facts;
use crate::round::operable::Operable;
use crate::round::wait_reason::WaitReason;
use crate::round::write_plan::WritePlan;

impl Facts<'_, '_> {
    /// What the pod waits for that the rules deny, if they would let it go with one pod more in service, and a companion may be
    /// that pod.
    pub(crate) fn makes_room(&self, operable: &Operable<'_>, answer: &Verdict) -> Option<WaitReason> {
        if !operable.pod.gated || !answer.rules.iter().all(lets_go_with_one_more) {
            return None;
        }
        let plan = self.may_try(operable)?;
        Some(waiting(plan, self.stage(plan, true)?))
    }

    /// Whether a companion may run beside the pod, and helps it: a rule wants all pods to stay, or nobody serves while the pod is
    /// operated.
    pub(crate) fn helps_beside(
        &self,
        operable: &Operable<'_>,
        answer: &Verdict,
        outcome: &Result<Forecast, WaitReason>,
    ) -> bool {
        let is_alone = outcome.as_ref().is_ok_and(|expected| expected.is_alone);
        operable.pod.gated && (is_alone || answer.denied().any(wants_all)) && self.may_have(operable).is_some()
    }

    /// Where nobody can read companion pods: whether one is taken to serve already. One that is made stands in for one pod at a time.
    pub(crate) fn assumes_room(&self, operable: &Operable<'_>, answer: &Verdict, writes: &WritePlan<'_>) -> bool {
        let is_asked = self.snapshot.unknown.companions && operable.pod.gated;
        if !is_asked || !answer.rules.iter().all(lets_go_with_one_more) {
            return false;
        }
        let is_taken = |pod: &PodView| writes.reservation(&pod.id.namespace, &pod.id.uid).is_some();
        self.may_have(operable).is_some_and(|plan| !self.desired.pods_of(plan).any(is_taken))
    }
}

/// Whether the rule lets none of all pods go, and would let one go beside one that stands in for it.
#[must_use]
pub fn wants_all(rule: &RuleVerdict) -> bool {
    match rule.denies() {
        Some(Denies::MinAvailable { quota, total, .. }) => quota == total,
        Some(Denies::MaxUnavailable { quota: 0, .. }) => rule.is_disruption_budget(),
        None | Some(_) => false,
    }
}

/// Not where pods only have to wait for others that are away.
fn lets_go_with_one_more(rule: &RuleVerdict) -> bool {
    match rule.denies() {
        None => true,
        Some(Denies::MinAvailable { quota, available, total }) => available >= quota && available >= total,
        // Only for a PodDisruptionBudget a pod more than its owner desires makes up for one that goes.
        Some(Denies::MaxUnavailable { unavailable, .. }) => rule.is_disruption_budget() && *unavailable == 0,
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(rule: &str, because: Denies) -> RuleVerdict {
        RuleVerdict { rule: rule.into(), because: because.into(), since: None, holders: std::sync::Arc::default() }
    }

    #[test]
    fn one_pod_more_helps_where_all_are_there_and_none_may_go() {
        let min = |quota, available| says("rule/min", Denies::MinAvailable { quota, available, total: 3 });
        assert!(lets_go_with_one_more(&min(3, 3)));
        assert!(!lets_go_with_one_more(&min(2, 2)), "another one is away, and comes back");
        assert!(!lets_go_with_one_more(&min(5, 3)), "one more is not enough");
        let max = |rule, unavailable| {
            says(rule, Denies::MaxUnavailable { quota: unavailable, unavailable, missing: 0, total: 3 })
        };
        assert!(lets_go_with_one_more(&max("pdb:web", 0)));
        assert!(!lets_go_with_one_more(&max("pdb:web", 1)), "another one is away, and comes back");
        assert!(!lets_go_with_one_more(&max("rule/max", 0)), "a rule's maximum counts pods that are away");
        assert!(!lets_go_with_one_more(&says("rule/window", Denies::OutsideWindow { opens: None })));
    }
}

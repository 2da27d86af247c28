//! Who serves while a pod is away, where the mode alone does not ask for that (docs/contract.md#leave-or-hold).

use hitless_api::pod::PodView;
use hitless_api::{GrantMode, GrantOp};

use crate::mode::{Mode, Serving, StandIn};
use crate::round::facts::Facts;
use crate::round::operable::Operable;
use crate::round::wait_reason::WaitReason;
use crate::round::write_plan::WritePlan;

impl Facts<'_, '_> {
    /// It would leave service whoever else serves, and nobody would before another pod is back that is being operated: one goes after the
    /// other, also where a budget lets both go. Asked only before a place is taken: of two that have one, each would wait for the other.
    pub(crate) fn leaves_nobody(
        &self,
        operable: &Operable<'_>,
        mode: &Mode,
        writes: &WritePlan<'_>,
    ) -> Option<WaitReason> {
        let is_changed = match operable.intent.operation.op {
            GrantOp::Update | GrantOp::Restart => operable.pod.ready(),
            GrantOp::Relabel | GrantOp::Drain | GrantOp::Foreign | GrantOp::Unknown(_) => false,
        };
        if !is_changed || mode.mode != GrantMode::Leave || Mode::REST_ON_OTHERS.contains(&Mode::word(&mode.reason)) {
            return None;
        }
        let awaited = self.traffic.awaited(operable.pod, &|pod: &PodView| self.serving(pod, writes))?;
        Some(WaitReason::SiblingAway(awaited.id.name.clone()))
    }

    /// Whether a pod that requests in flight keep from being held could leave service for that, because another pod serves or a companion
    /// may. Else it would only be held a second time, and its clients would wait twice.
    pub(crate) fn may_leave_instead(&self, operable: &Operable<'_>, serving: &impl Fn(&PodView) -> Serving) -> bool {
        let has_companion =
            || self.may_have(operable).is_some_and(|plan| plan.total == 1) && self.has_clients(operable);
        self.traffic.stand_in_while_unready(operable.pod, serving) == StandIn::Serves || has_companion()
    }
}

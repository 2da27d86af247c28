//! How often the containers of a new version may end before its operation is judged (docs/contract.md#bad-version).

use hitless_api::{GrantOp, VerifySpec};
use hitless_workloads::{Object, OncePerPod, OptIn, Plan, registry};

use crate::round::facts::Facts;
use crate::round::operable::Operable;
use crate::round::write_plan::WritePlan;

/// About two and a half minutes: the kubelet waits for 10, 20, 40 and 80 s between them.
const CRASHES: u32 = 5;

impl<'a> Facts<'a, '_> {
    /// How the operation of the pod is judged.
    pub(crate) fn verify(&self, operable: &Operable<'a>, writes: &WritePlan<'_>) -> VerifySpec {
        let alone = self.is_alone(operable.pod, writes);
        VerifySpec { alone, crashes: self.crashes(operable, alone), ..operable.settings.verify }
    }

    /// After how many crashes the kubelet's next attempt is not waited for; `None`: an only pod is judged at the second one, and others
    /// when their time is over.
    fn crashes(&self, operable: &Operable<'a>, alone: bool) -> Option<u32> {
        let starts = match operable.intent.operation.op {
            GrantOp::Update | GrantOp::Restart => true,
            GrantOp::Relabel | GrantOp::Drain | GrantOp::Foreign | GrantOp::Unknown(_) => false,
        };
        let plan = &self.desired.plans[self.workload_of_operation(operable).filter(|_| starts)?];
        let root = self.desired.world.object(&plan.workload.uid)?;
        let is_due = if alone { is_alone_natively(plan, root) } else { kept_in_place(plan, root).is_some() };
        is_due.then_some(CRASHES)
    }
}

/// Natively no second pod runs beside an only one either, so the kubelet repeats its crashes with nobody serving: a lease or a lock of the
/// process before is gone after some of them.
fn is_alone_natively(plan: &Plan, root: &Object) -> bool {
    registry::of_workload(&plan.workload.group_kind).is_some_and(|kind| kind.surge(root).is_err())
}

/// What a container finds again after a crash that a new pod would not have, where its owner lets new pods be made.
pub(crate) fn kept_in_place(plan: &Plan, root: &Object) -> Option<OncePerPod> {
    let may_roll = plan.opt_in == OptIn::InPlace && !plan.permanent;
    kept(root).filter(|_| may_roll)
}

/// The same, whatever its owner lets be made.
pub(crate) fn kept(root: &Object) -> Option<OncePerPod> {
    let template = root.template().filter(|template| template.too_large().is_none())?;
    OncePerPod::all(template, &[]).into_iter().next()
}

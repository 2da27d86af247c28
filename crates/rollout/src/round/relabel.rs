//! A change of labels takes no pod away (docs/contract.md#template-labels): rules that count who is away do not stop it where it is the only operation
//! of its workload. Where it is not, they do, and so the pods of a workload go a few at a time.

use hitless_api::GrantOp;
use hitless_gate::{Denies, Verdict};

use crate::round::facts::Facts;
use crate::round::operable::Operable;
use crate::round::write_plan::WritePlan;

impl<'a> Facts<'a, '_> {
    /// The answer to a pod that is about to go.
    pub(crate) fn unless_labels_only(
        &self,
        operable: &Operable<'a>,
        answer: Verdict,
        writes: &WritePlan<'a>,
    ) -> Verdict {
        let is_relabel = operable.intent.operation.op == GrantOp::Relabel;
        if answer.allowed
            || !is_relabel
            || !answer.denied().all(|rule| rule.denies().is_some_and(Denies::counts_who_is_away))
        {
            return answer;
        }
        let Some(workload) = self.desired.workload_of(operable.pod) else { return answer };
        let mut others = self.desired.pods_of(&self.desired.plans[workload]);
        let allowed = !others.any(|other| {
            let id = &other.id;
            writes.reservation(&id.namespace, &id.uid).is_some() || self.ended.is_taken(&id.uid)
        });
        Verdict { allowed, ..answer }
    }
}

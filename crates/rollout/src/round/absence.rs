//! What operating a pod may cost.

use hitless_api::GrantOp;
use hitless_api::pod::PodView;
use hitless_gate::Absence;
use hitless_workloads::Plan;

use crate::companion;
use crate::round::facts::Facts;

impl<'a> Facts<'a, '_> {
    /// What operating the pod may cost if it is not available. `op`: what is to be done, if that is known.
    pub(crate) fn absence(&self, pod: &'a PodView, op: Option<&GrantOp>) -> Absence {
        let index = self.desired.workload_of(pod);
        let behind = |plan: &&Plan| plan.behind.contains(&pod.id.uid);
        let plan = index.map(|index| &self.desired.plans[index]).filter(behind);
        match op {
            // It leaves for good, and nobody is made anew of a version that is not verified.
            Some(GrantOp::Drain) if plan.is_none() => return Absence::CostsNothing,
            // Nothing of it is replaced.
            Some(GrantOp::Relabel) => return Absence::CostsNothing,
            // Nobody knows what they make of it.
            Some(GrantOp::Foreign) => return Absence::SameVersion,
            Some(GrantOp::Drain | GrantOp::Update | GrantOp::Restart | GrantOp::Unknown(_)) | None => {}
        }
        let is_between = self.ended.transfers.contains_key(pod.id.uid.as_str());
        let own_fault = pod.containers.iter().any(|container| companion::failure(container).is_some());
        let is_verified = index.is_some_and(|index| self.trials.verified.contains(&index));
        match plan {
            _ if is_between => Absence::CostsNothing,
            None if own_fault => Absence::CostsNothing,
            None => Absence::SameVersion,
            Some(plan) if plan.leaves_bad(pod) || (own_fault && is_verified) => Absence::CostsNothing,
            Some(_) => Absence::NewVersion,
        }
    }
}

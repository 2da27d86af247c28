//! The third answer beside Leave and Hold: a Deployment's own surge, where its only pod would be refused for longer in place, or one that
//! can't be kept free of clients; and a DaemonSet's, where a node's clients have nobody else (docs/contract.md#leave-or-hold).

use hitless_workloads::{CompanionPolicy, OptIn, registry};

use crate::mode::{Mode, StandIn};
use crate::round::change::Change;
use crate::round::decided::Decided;
use crate::round::facts::Facts;
use crate::round::facts::companions::is_moving;
use crate::round::operable::Operable;
use crate::round::wait_reason::WaitReason;
use crate::round::write_plan::WritePlan;

impl<'a> Facts<'a, '_> {
    /// Whether that is so for a pod of whom nobody has asked the rules yet. Its new pod fetches its images itself.
    pub(crate) fn goes_natively(&self, operable: &Operable<'a>, writes: &WritePlan<'a>) -> bool {
        let begin = self.begin(operable, writes);
        begin.is_ok_and(|begin| self.natively(operable, &begin.mode, writes).is_some())
    }

    /// What is done instead of operating the pod in this mode, where its clients would be refused and the native controller would first
    /// make another pod.
    pub(crate) fn natively(&self, operable: &Operable<'a>, mode: &Mode, writes: &WritePlan<'a>) -> Option<Decided<'a>> {
        let plan = &self.desired.plans[self.workload_of_operation(operable)?];
        let is_brought = is_moving(plan) && plan.behind.contains(&operable.pod.id.uid);
        // What its owner has paused is let go by nobody else.
        if !is_brought || plan.permanent {
            return None;
        }
        let serving = |pod: &_| self.serving(pod, writes);
        let (root, kind) =
            (self.desired.world.object(&plan.workload.uid)?, registry::of_workload(&plan.workload.group_kind)?);
        let surges_on_nodes = kind.surges_on_nodes(root);
        let stand_in =
            (surges_on_nodes || plan.total == 1).then(|| self.traffic.stand_in_while_unready(operable.pod, &serving));
        let has_nobody = matches!(stand_in, Some(StandIn::OnOtherNodes(_) | StandIn::None));
        let is_alone = plan.total == 1 && has_nobody;
        let is_beside = surges_on_nodes && (has_nobody || matches!(stand_in, Some(StandIn::ExceptOnNode(_))));
        let is_refused = if is_beside {
            operable.settings.is_refused_on_its_node(mode)
        } else {
            operable.settings.is_refused_for_long(mode, is_alone)
        };
        if !is_refused {
            return None;
        }
        let no_companion = match plan.companion {
            _ if !is_alone || is_beside => String::new(),
            CompanionPolicy::Never => {
                "; no companion pod can serve: the annotation hitless.dev/companion is Never".to_owned()
            }
            CompanionPolicy::Auto | CompanionPolicy::Always => {
                let why = self.no_companion(operable).or_else(|| operable.settings.shares_with_companion())?;
                format!("; no companion pod can serve: {why}")
            }
        };
        // Where its owner lets no second pod run, the native way is no better. Where no node has room, the pod serves on until one has.
        if !self.has_clients(operable) || !(is_beside || kind.surge(root).is_ok()) {
            return None;
        }
        let alone = match (is_beside, is_alone) {
            (true, _) => Some("no other pod serves all clients of its node"),
            (false, true) => Some("it is the only pod"),
            (false, false) => None,
        };
        let why = format!("{}{no_companion}", operable.settings.loss(mode, alone));
        let write = kind.natively(root, &why)?;
        Some(match plan.opt_in {
            OptIn::InPlaceOnly | OptIn::No => Decided::waits(WaitReason::LossExpected(why)),
            OptIn::InPlace => {
                let changes = if plan.writes.is_empty() { vec![Change::Write(write)] } else { Vec::new() };
                Decided { changes, outcome: Err(WaitReason::Natively(why)) }
            }
        })
    }
}

//! A pod that does not start with the version before either, once it has had the next one: what it keeps over a restart (a file in an
//! `emptyDir`) may keep any version from starting in it. It ends with a new pod, never with a dead one: its version goes natively
//! (docs/contract.md#bad-version).

use hitless_api::{Outcome, TransitionResult};
use hitless_workloads::{OptIn, Plan, Stage, registry};

use super::change::Change;
use super::endings::{Ended, Failure};
use super::wishes::Wishes;

/// Marks of workloads whose owners let pods be made anew. Not beside another write to the same workload.
pub(super) fn changes<'a>(wishes: &Wishes<'a>, ended: &Ended<'a>) -> Vec<Change<'a>> {
    let changes = wishes.plans.iter().enumerate().filter_map(|(index, plan)| {
        let failure = dead(wishes, ended, index)?;
        let root = wishes.world.object(&plan.workload.uid)?;
        // What its owner has paused is let go by nobody else.
        let may = may_roll(plan) && plan.writes.is_empty() && root.pause().is_none();
        let write = registry::of_workload(&plan.workload.group_kind)?.natively(root, &words(failure));
        write.filter(|_| may).map(Change::Workload)
    });
    changes.collect()
}

/// Whether the workload goes natively for such a pod, so that its version is not put back as a bad one.
pub(super) fn goes_natively(wishes: &Wishes<'_>, ended: &Ended<'_>, index: usize) -> bool {
    may_roll(&wishes.plans[index]) && dead(wishes, ended, index).is_some()
}

fn may_roll(plan: &Plan) -> bool {
    let is_rolling = matches!(plan.stage, Stage::Rolling | Stage::Finishing);
    is_rolling && plan.opt_in == OptIn::InPlace && !plan.permanent
}

/// The operation that has left a pod of the workload dead; it may be gone by now. What all of them need may be away, and then it starts once
/// that is back.
fn dead<'e, 'a>(wishes: &Wishes<'a>, ended: &'e Ended<'a>, index: usize) -> Option<&'e Failure<'a>> {
    ended.failures.iter().find(|failure| {
        let pod = wishes.pods.get(failure.grant.pod.uid.as_str());
        failure.workload == Some(index) && is_dead(failure) && pod.is_none_or(|pod| !pod.ready())
    })
}

fn is_dead(failure: &Failure<'_>) -> bool {
    let result = failure.result;
    result.outcome == Outcome::Failed && result.reason == TransitionResult::ROLLBACK_NOT_READY && !failure.outside
}

fn words(failure: &Failure<'_>) -> String {
    format!(
        "pod {} does not start again with the version before either, so new pods are needed",
        failure.grant.pod.name
    )
}

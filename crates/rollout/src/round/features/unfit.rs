//! Marks workloads whose version may start in a new pod only.

use hitless_api::names::annotations;
use hitless_workloads::registry;

use crate::round::change::Change;
use crate::round::facts::unfit::{Unfits, may_roll};
use crate::round::features::{Effects, FeatureContext};

/// Marks of workloads whose owners let pods be made anew. Not beside another write to the same workload.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let unfits = Unfits::of(context.facts, context.now);
    let marks = unfits.desired.plans.iter().enumerate().filter_map(|(index, plan)| {
        let words = unfits.words(index)?;
        let root = unfits.desired.world.object(&plan.workload.uid)?;
        // What its owner has paused is let go by nobody else.
        let may = may_roll(plan) && plan.writes.is_empty() && root.pause().is_none();
        let write = registry::of_workload(&plan.workload.group_kind)?.natively(root, &words).filter(|_| may)?;
        Some(Change::Write(match unfits.lesson(index) {
            Some(lesson) => write.and_annotate(annotations::IN_PLACE_FAILED, &lesson.text()),
            None => write,
        }))
    });
    Effects::of(marks)
}

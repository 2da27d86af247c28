//! What the workloads' own plans write, and until when they wait.

use crate::round::change::Change;
use crate::round::features::{Effects, FeatureContext};

/// Not where what has changed in ConfigMaps and Secrets is recorded first.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let (desired, reloads) = (&context.facts.desired, &context.facts.reloads);
    let plans = desired.plans.iter().enumerate().filter(|(index, _)| !reloads.comes_first(*index));
    let writes = plans.flat_map(|(_, plan)| &plan.writes).cloned().map(Change::Write);
    // A pod that counts as available again may let another one go.
    let settled = desired.world.recently_ready.values().min().copied().filter(|_| !context.verdicts.is_empty());
    Effects::of(writes).waking(desired.plans.iter().filter_map(|plan| plan.wake_at)).waking(settled)
}

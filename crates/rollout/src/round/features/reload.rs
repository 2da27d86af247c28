//! The writes of workloads that reload.

use crate::round::features::{Effects, FeatureContext};

/// The writes of those that are decided.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let reloads = &context.facts.reloads;
    Effects::of(reloads.changes()).telling(reloads.notes.iter().cloned()).waking(reloads.wake_at)
}

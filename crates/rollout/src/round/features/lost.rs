//! Says which rollouts do not end because of a node that does not answer.

use crate::round::facts::Facts;
use crate::round::features::{Effects, FeatureContext};

/// What is said of them.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let Facts { lost, desired, .. } = context.facts;
    Effects::default().telling(lost.notes(desired)).waking(lost.wake_at)
}

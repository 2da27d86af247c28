//! What is decided about one pod.

use crate::mode::Forecast;
use crate::round::change::Change;
use crate::round::wait_reason::WaitReason;

/// What is decided about one pod. There may be changes although it waits.
pub(crate) struct Decided<'a> {
    pub(crate) changes: Vec<Change<'a>>,
    pub(crate) outcome: Result<Forecast, WaitReason>,
}

impl Decided<'_> {
    pub(crate) fn waits(waiting: WaitReason) -> Self {
        Self { changes: Vec::new(), outcome: Err(waiting) }
    }
}

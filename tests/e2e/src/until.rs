//! Waits for what nothing tells.

use std::time::{Duration, Instant};

use crate::app::PATIENCE;

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Asks until the answer is right. Each part of a cluster has its own view of it: what one has said already, another may learn a
/// moment later, and on a busy machine seconds later.
pub fn until_answered<T>(mut ask: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let begin = Instant::now();
    loop {
        match ask() {
            Err(_) if begin.elapsed() < PATIENCE => std::thread::sleep(LOOK_AGAIN),
            answer => return answer,
        }
    }
}

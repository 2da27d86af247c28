//! When a write that failed is tried again. A conflict is decided anew with the next event; all else waits longer each time,
//! so that one write that never succeeds does not keep the loop turning.

use std::ops::Add;
use std::time::Duration;

use hitless_rollout::round::Step;
use hitless_runtime::backoff::Pauses;
use hitless_runtime::write::WriteError;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
/// A conflict on a version that the watch has not brought yet.
const STALE: Duration = Duration::from_millis(100);

/// Writes that must wait, by [`hitless_workloads::Write::key`]. `T` is a point in time.
pub struct Retries<T>(Pauses<String, T>);

impl<T: Copy + Ord + Add<Duration, Output = T>> Default for Retries<T> {
    fn default() -> Self {
        Self(Pauses::new(LONGEST))
    }
}

impl<T: Copy + Ord + Add<Duration, Output = T>> Retries<T> {
    /// The steps without those that must wait, without those that need one of these, and without those that are there for these only.
    #[must_use]
    pub fn due(&self, steps: Vec<Step>, now: T) -> Vec<Step> {
        if self.0.is_empty() {
            return steps;
        }
        let mut places: Vec<Option<usize>> = Vec::with_capacity(steps.len());
        let mut due: Vec<Step> = Vec::new();
        let paused: Vec<bool> = steps.iter().map(|step| self.0.is_paused(&step.write.key(), now)).collect();
        let is_needed = |index: usize| {
            let mut others = steps.iter().zip(&paused).filter(|(_, is_paused)| !**is_paused);
            others.any(|(other, _)| other.needs.contains(&index))
        };
        let idle = steps.iter().enumerate().map(|(index, step)| step.write.is_confirmation() && !is_needed(index));
        let waits: Vec<bool> = paused.iter().zip(idle).map(|(is_paused, is_idle)| *is_paused || is_idle).collect();
        for (step, waits) in steps.into_iter().zip(waits) {
            let needs: Option<Vec<usize>> = step.needs.iter().map(|needed| places.get(*needed).copied()?).collect();
            places.push(match (waits, needs) {
                (false, Some(needs)) => {
                    due.push(Step { needs, ..step });
                    Some(due.len() - 1)
                }
                _ => None,
            });
        }
        due
    }

    /// A write has succeeded.
    pub fn succeeded(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// A write has failed.
    pub fn failed(&mut self, key: &str, error: &WriteError, now: T) {
        let asked = match error {
            WriteError::Transient { retry_after, .. } => retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        };
        if error.is_stale() {
            self.0.once(key.to_owned(), STALE, now);
        } else {
            self.0.grow(key.to_owned(), FIRST, asked, now);
        }
    }

    /// When the next one may be tried, among those that still wait.
    pub fn next(&mut self, now: T) -> Option<T> {
        self.0.forget_old(now);
        self.0.next(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::TransitionLedgerSpec;
    use hitless_rollout::round::write::ledger;
    use tokio::time::Instant;

    fn step(namespace: &str, needs: Vec<usize>) -> Step {
        Step { write: ledger(namespace, None, TransitionLedgerSpec::default()), needs }
    }

    #[tokio::test]
    async fn a_failed_write_waits_longer_each_time_and_takes_along_what_needs_it() {
        let (mut retries, now) = (Retries::default(), Instant::now());
        let steps = vec![step("a", vec![]), step("b", vec![0]), step("c", vec![]), step("d", vec![2])];
        assert_eq!(retries.due(steps.clone(), now).len(), 4);
        retries.failed("ledger/a", &WriteError::Denied { message: String::new() }, now);
        let due = retries.due(steps.clone(), now);
        assert_eq!(due.iter().map(|step| step.write.key()).collect::<Vec<_>>(), ["ledger/c", "ledger/d"]);
        assert_eq!(due[1].needs, [0], "renumbered");
        assert_eq!(retries.due(steps.clone(), now + FIRST).len(), 4);
        retries.failed("ledger/a", &WriteError::Denied { message: String::new() }, now);
        assert_eq!(retries.due(steps.clone(), now + FIRST).len(), 2);
        retries.succeeded("ledger/a");
        assert_eq!(retries.due(steps.clone(), now).len(), 4);
    }

    #[tokio::test]
    async fn a_conflict_waits_only_for_the_watch_and_a_busy_server_as_long_as_it_asks() {
        let (mut retries, now) = (Retries::default(), Instant::now());
        retries.failed("ledger/a", &WriteError::Conflict { message: String::new() }, now);
        assert_eq!(retries.due(vec![step("a", vec![])], now + STALE).len(), 1);
        let busy = WriteError::Transient { message: String::new(), retry_after: Some(Duration::from_secs(5)) };
        retries.failed("ledger/a", &busy, now);
        assert_eq!(retries.due(vec![step("a", vec![])], now + Duration::from_secs(4)).len(), 0);
    }
}

//! When a write that failed is tried again. A conflict is decided anew with the next event; all else waits longer each time,
//! so that one write that never succeeds does not keep the loop turning.

use std::collections::HashMap;
use std::time::Duration;

use hitless_runtime::write::WriteError;
use tokio::time::Instant;

use hitless_rollout::round::Step;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
/// A conflict on a version that the watch has not brought yet.
const STALE: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Retries(HashMap<String, Entry>);

struct Entry {
    failures: u32,
    not_before: Instant,
}

impl Retries {
    /// The steps without those that must wait, and without those that need one of these.
    pub(super) fn due(&self, steps: &[Step], now: Instant) -> Vec<Step> {
        let mut places: Vec<Option<usize>> = Vec::with_capacity(steps.len());
        let mut due: Vec<Step> = Vec::new();
        for step in steps {
            let waits = self.0.get(&step.write.key()).is_some_and(|entry| entry.not_before > now);
            let needs: Option<Vec<usize>> = step.needs.iter().map(|needed| places.get(*needed).copied()?).collect();
            places.push(match (waits, needs) {
                (false, Some(needs)) => {
                    due.push(Step { needs, ..step.clone() });
                    Some(due.len() - 1)
                }
                _ => None,
            });
        }
        due
    }

    pub(super) fn succeeded(&mut self, key: &str) {
        self.0.remove(key);
    }

    pub(super) fn failed(&mut self, key: &str, error: &WriteError, now: Instant) {
        let entry = self.0.entry(key.to_owned()).or_insert(Entry { failures: 0, not_before: now });
        let asked = match error {
            WriteError::Transient { retry_after, .. } => retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        };
        let wait = if error.is_stale() {
            STALE
        } else {
            entry.failures += 1;
            (FIRST * 2_u32.saturating_pow(entry.failures - 1)).min(LONGEST)
        };
        entry.not_before = now + wait.max(asked);
    }

    /// When the next one may be tried, among those that still wait.
    pub(super) fn next(&mut self) -> Option<Instant> {
        let now = Instant::now();
        // Whatever was not tried again for a long time is not wanted any more.
        self.0.retain(|_, entry| entry.not_before + LONGEST > now);
        self.0.values().map(|entry| entry.not_before).filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::TransitionLedgerSpec;
    use hitless_rollout::round::{LedgerWrite, Write};

    fn step(namespace: &str, needs: Vec<usize>) -> Step {
        let write = LedgerWrite { namespace: namespace.into(), version: None, spec: TransitionLedgerSpec::default() };
        Step { write: Write::Ledger(write), needs, done: None }
    }

    #[tokio::test]
    async fn a_failed_write_waits_longer_each_time_and_takes_along_what_needs_it() {
        let (mut retries, now) = (Retries::default(), Instant::now());
        let steps = [step("a", vec![]), step("b", vec![0]), step("c", vec![]), step("d", vec![2])];
        assert_eq!(retries.due(&steps, now).len(), 4);
        retries.failed("ledger/a", &WriteError::Denied { message: String::new() }, now);
        let due = retries.due(&steps, now);
        assert_eq!(due.iter().map(|step| step.write.key()).collect::<Vec<_>>(), ["ledger/c", "ledger/d"]);
        assert_eq!(due[1].needs, [0], "renumbered");
        assert_eq!(retries.due(&steps, now + FIRST).len(), 4);
        retries.failed("ledger/a", &WriteError::Denied { message: String::new() }, now);
        assert_eq!(retries.due(&steps, now + FIRST).len(), 2);
        retries.succeeded("ledger/a");
        assert_eq!(retries.due(&steps, now).len(), 4);
    }

    #[tokio::test]
    async fn a_conflict_waits_only_for_the_watch_and_a_busy_server_as_long_as_it_asks() {
        let (mut retries, now) = (Retries::default(), Instant::now());
        retries.failed("ledger/a", &WriteError::Conflict { message: String::new() }, now);
        assert_eq!(retries.due(&[step("a", vec![])], now + STALE).len(), 1);
        let busy = WriteError::Transient { message: String::new(), retry_after: Some(Duration::from_secs(5)) };
        retries.failed("ledger/a", &busy, now);
        assert_eq!(retries.due(&[step("a", vec![])], now + Duration::from_secs(4)).len(), 0);
    }
}

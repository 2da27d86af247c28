//! When a write that failed is tried again, as the controller's loop has it.

use std::collections::BTreeMap;

use hitless_rollout::round::Step;

use crate::clock::{MS, Micros, NEVER, SECOND};
use crate::server::Refusal;

const FIRST: Micros = 500 * MS;
const LONGEST: Micros = 30 * SECOND;
const STALE: Micros = 100 * MS;

#[derive(Default)]
pub(super) struct Retries(BTreeMap<String, (u32, Micros)>);

impl Retries {
    /// The steps without those that must wait, and without those that need one of these.
    pub(super) fn due(&self, steps: Vec<Step>, now: Micros) -> Vec<Step> {
        if self.0.is_empty() {
            return steps;
        }
        let mut places: Vec<Option<usize>> = Vec::with_capacity(steps.len());
        let mut due: Vec<Step> = Vec::new();
        for step in steps {
            let waits = self.0.get(&step.write.key()).is_some_and(|(_, not_before)| *not_before > now);
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

    pub(super) fn succeeded(&mut self, key: &str) {
        self.0.remove(key);
    }

    pub(super) fn failed(&mut self, key: &str, why: Refusal, now: Micros) {
        let (failures, not_before) = self.0.entry(key.to_owned()).or_default();
        let wait = if matches!(why, Refusal::Conflict | Refusal::Gone) {
            STALE
        } else {
            *failures += 1;
            (FIRST << (*failures - 1).min(8)).min(LONGEST)
        };
        *not_before = now + wait;
    }

    /// When the next one may be tried.
    pub(super) fn next(&mut self, now: Micros) -> Micros {
        self.0.retain(|_, (_, not_before)| *not_before + LONGEST > now);
        self.0.values().map(|(_, not_before)| *not_before).filter(|at| *at > now).min().unwrap_or(NEVER)
    }
}

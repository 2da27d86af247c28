//! Readiness as a set of start-up steps: ready when none is missing, and `/readyz` says which one is.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The steps that are still missing. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<BTreeSet<String>>>);

/// One start-up step. Dropping it without [`Guard::done`] leaves the step missing: a step that was forgotten or has failed
/// must not look done.
#[derive(Debug)]
#[must_use = "the step stays missing until done() is called"]
pub struct Guard {
    readiness: Readiness,
    step: String,
}

impl Readiness {
    /// Adds a step, e.g. `pods listed`.
    pub fn guard(&self, step: impl Into<String>) -> Guard {
        let step = step.into();
        self.steps(|steps| steps.insert(step.clone()));
        Guard { readiness: self.clone(), step }
    }

    /// The steps that are missing, sorted; empty means ready.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        self.steps(|steps| steps.iter().cloned().collect())
    }

    fn steps<R>(&self, apply: impl FnOnce(&mut BTreeSet<String>) -> R) -> R {
        // The set is valid after every single operation, so a panic elsewhere can't have left it broken.
        apply(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Guard {
    /// The step is done.
    pub fn done(self) {
        self.readiness.steps(|steps| steps.remove(&self.step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_only_when_every_step_is_done_and_a_dropped_guard_stays_missing() {
        let readiness = Readiness::default();
        let (pods, nodes) = (readiness.guard("pods"), readiness.guard("nodes"));
        assert_eq!(readiness.missing(), ["nodes", "pods"]);
        pods.done();
        drop(nodes);
        assert_eq!(readiness.missing(), ["nodes"]);
    }
}

//! What a round says of one pod.

use hitless_api::{ObjectRef, PodRef};
use hitless_gate::Verdict;

use crate::mode::Forecast;
use crate::round::wait_reason::WaitReason;
use crate::round::words::words;

/// Why a pod that wants something is not being operated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVerdict {
    /// The pod.
    pub pod: PodRef,
    /// Its top workload.
    pub owner: Option<ObjectRef>,
    /// What it waits for; `None`: it is granted.
    pub waiting: Option<WaitReason>,
    /// What the rules said, if they were asked.
    pub gate: Option<Verdict>,
    /// Leave or Hold, if it is granted.
    pub expected: Option<Forecast>,
    /// The rules let none of all pods go, or no other pod serves while it is operated; and a companion pod may run beside it.
    pub beside_companion: bool,
}

impl PodVerdict {
    /// What it waits for and what to do, for people; `None`: it is granted.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match (&self.waiting, &self.gate) {
            (Some(WaitReason::Rules), Some(gate)) => {
                let said = gate.denied().map(|rule| format!("{}: {}", rule.rule, words(rule, self.beside_companion)));
                Some(said.collect::<Vec<_>>().join("; "))
            }
            (waiting, _) => waiting.as_ref().map(WaitReason::text),
        }
    }
}

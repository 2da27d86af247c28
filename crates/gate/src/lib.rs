//! Which pods may be operated now, and why not: rules + pods + reservations + now → verdicts with reasons.

pub mod facts;
pub mod ledger;
pub mod verdict;

use jiff::Timestamp;

pub use facts::{Candidate, GateInput, ImplicitBudget, OwnerFacts, OwnerKey, PodFacts, RuleSet};
pub use verdict::{Because, Decision, IMPLICIT, RuleVerdict, Verdict};

/// Decides all candidates of a round together.
#[must_use]
pub fn decide(_input: &GateInput<'_>, candidates: &[Candidate], _now: Timestamp) -> Vec<Verdict> {
    candidates
        .iter()
        .map(|candidate| Verdict {
            pod_uid: candidate.pod_uid.clone(),
            pod: String::new(),
            namespace: String::new(),
            allowed: false,
            rules: Vec::new(),
        })
        .collect()
}

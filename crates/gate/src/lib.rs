//! Which pods may be operated now, and why not: rules + pods + reservations + now → verdicts with reasons.
//!
//! Pure: no client, no clock, no randomness; the same input in any order gives the same answer. `kubectl hitless why` runs the
//! same code as the controller.
//!
//! All rules of all PodTransitionRules that select a pod are evaluated together, and a pod gets its place in all of their
//! budgets or in none, so rules can't deadlock each other. Whatever can't be evaluated denies. The places themselves are kept
//! in the namespace's [`ledger`].

pub mod approval;
pub mod facts;
pub mod ledger;
mod limit;
mod room;
mod round;
mod rule;
pub mod selector;
pub mod verdict;

pub use facts::{Candidate, GateInput, ImplicitBudget, OwnerFacts, OwnerKey, PodFacts, RuleSet};
pub use ledger::{LedgerError, refuse_if_deposed, release, reserve, take_over};
pub use round::decide;
pub use verdict::{Because, Decision, RuleVerdict, Verdict};

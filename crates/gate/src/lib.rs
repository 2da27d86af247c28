//! Which pods may be operated now, and why not: rules + pods + reservations + now → verdicts with reasons.
//!
//! Pure: no client, no clock, no randomness; the same input in any order gives the same answer. `kubectl hitless why` runs the
//! same code as the controller.
//!
//! All rules of all PodTransitionRules that select a pod are evaluated together, and a pod gets its place in all of their
//! budgets or in none, so rules can't deadlock each other. Whatever can't be evaluated denies. The reservations are kept
//! in the namespace's [`ledger`].

pub mod approval;
mod decide;
pub mod facts;
mod index;
pub mod ledger;
mod order;
mod places;
mod policy;
pub mod settings;
pub mod verdict;

pub use approval::{Answer, Approval, Approvals, Question};
pub use decide::decide;
pub use facts::{Absence, Budget, Candidate, DisruptionBudget, GateInput, OwnerFacts, PodFacts, Reserved, RuleSet};
pub use hitless_api::{ObjectRef, selector};
pub use index::Gate;
pub use ledger::{LedgerError, refuse_if_deposed, refuse_to_reserve, release, reserve, take_over};
pub use places::Places;
pub use settings::{ImplicitBudget, Settings};
pub use verdict::{Allows, BudgetConsumer, Consumption, Denies, Lasting, Reason, RuleVerdict, Verdict};

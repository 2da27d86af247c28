//! TransitionBudget, limit by limit, and PodDisruptionBudgets.

mod explain;
mod limits;
mod scope;
mod settling;
mod times;

//! TransitionBudget, limit by limit, and PodDisruptionBudgets.

mod explain;
mod limits;
mod places;
mod recently_ready;
mod scope;
mod times;

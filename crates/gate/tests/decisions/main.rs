//! What the gate answers, rule by rule and limit by limit, on small namespaces.

#![allow(clippy::unwrap_used, reason = "a test")]

mod budgets;
mod order;
mod rules;
mod scene;
mod trials;
mod unreadable;
mod upstream;

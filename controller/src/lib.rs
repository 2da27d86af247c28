//! The controller: turns changes of workloads into grants, under the rules.
//!
//! `hitless_rollout` decides, purely: one full [`hitless_rollout::snapshot::Snapshot`] and the time in, ordered writes out. Everything else here
//! is the shell around it: [`watches`] fill the snapshot, [`writer`] carries the writes out, [`controller`] is the loop.
//! A snapshot may be old and a second controller may believe to lead: every write is conditional, budgets are reserved in the
//! namespace's ledger by compare-and-swap *before* a grant is written, and reservations are released on evidence only.

pub mod approval;
pub mod config;
pub mod configs;
pub mod controller;
pub mod guards;
pub mod metrics;
pub mod traffic;
pub mod uninstall;
pub mod watches;
pub mod writer;

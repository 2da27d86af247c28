//! What a round decides of small clusters: one node with a Ready agent, and a pod on it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod agentless;
mod blips;
mod crowd;
mod decorations;
mod dependency;
mod finalizers;
mod guests;
mod hooks;
mod inoperable;
mod labels;
mod last_endpoint;
mod learning;
mod left_out;
mod lost;
mod new_pods;
mod not_replaced;
mod pause;
mod refusals;
mod refused;
mod removals;
mod requests;
mod scene;
mod siblings;
mod start_up;
mod stateful_set;
mod unfit;
mod ways;

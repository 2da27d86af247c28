//! What a round decides of small clusters: one node with a Ready agent, and a pod on it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod decorations;
mod inoperable;
mod last_endpoint;
mod pause;
mod refused;
mod requests;
mod scene;
mod stateful_set;

//! The node's endpoint over TCP and a unix socket, with pods and operations that the test makes up.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod abuse;
mod client;
mod described;
mod drained;
mod events;
mod node;
mod selected;
mod socket;
mod task;
mod who;

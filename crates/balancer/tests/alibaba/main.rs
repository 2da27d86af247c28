//! The provider for NLB and the decider against an API of ours, which checks signatures as the documentation describes them and answers
//! with the documented answers and errors. No real account was used.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the whole crate is a test; clippy looks for #[test] on each function"
)]

mod cloud;
mod group;
mod nlb;
mod signature;

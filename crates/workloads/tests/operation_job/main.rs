//! OperationJobs: what they want, what they report, and that nothing is done twice.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod replace;
mod restart;
mod shop;

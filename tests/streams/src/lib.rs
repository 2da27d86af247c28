//! Streams that last much longer than a request: what a drain has to wait for.
//!
//! [`server`] sends downloads, websockets and gRPC streams and exits the moment SIGTERM arrives. [`Streams`] keeps some of
//! each kind open through a Service, each for a time of its own choice, and counts those that the other side ended.

mod client;
mod kind;
mod report;
pub mod server;

pub use client::{Plan, Streams};
pub use kind::Kind;
pub use report::{Cut, Report};

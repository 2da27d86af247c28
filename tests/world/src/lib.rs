//! What tests of several crates model of Kubernetes, in one place.

pub mod api_server;

pub use api_server::{Refused, carry_out};

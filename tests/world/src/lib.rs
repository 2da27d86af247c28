//! What tests of several crates model of Kubernetes, in one place: pure functions on data. Whoever keeps the objects carries out
//! what they return.

pub mod api_server;
pub mod images;
pub mod kubelet;
pub mod native;
mod object;
pub mod objects;

pub use api_server::{Refused, carry_out, review};
pub use object::{WorkloadObject, object_key};

//! Where the server in the pod listens.

/// Listens on `[::]`.
pub(crate) const DUAL_STACK: u16 = 8080;
/// Listens on `0.0.0.0`.
pub(crate) const V4_ONLY: u16 = 8081;
/// Listens on `[::]` and never accepts.
pub(crate) const QUEUE_ONLY: u16 = 8082;

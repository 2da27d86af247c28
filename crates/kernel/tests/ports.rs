//! Where the server in the pod listens.

/// Listens on `[::]`.
pub(crate) const DUAL_STACK: u16 = 8080;
/// Listens on `0.0.0.0`.
pub(crate) const V4_ONLY: u16 = 8081;
/// Listens on `[::]` and never accepts.
pub(crate) const QUEUE_ONLY: u16 = 8082;
/// Listens on `[::]` and takes its time to accept; the queue is long.
pub(crate) const SLOW_TO_ACCEPT: u16 = 8083;
/// Listens on `[::]` with a queue of four.
pub(crate) const SHORT_QUEUE: u16 = 8084;
/// Takes datagrams on `[::]`.
pub(crate) const DATAGRAMS: u16 = 8085;

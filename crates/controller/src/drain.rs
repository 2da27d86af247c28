//! How a pod is kept from losing requests: pure, and resolved at the moment of the grant (CONTRACT 13).

pub mod gap;
pub mod mode;
pub mod policy;

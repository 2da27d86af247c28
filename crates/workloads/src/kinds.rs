//! One folder a kind.

pub mod colla_set;
pub mod daemon_set;
pub mod deployment;
mod halted;
mod on_delete;
pub mod pod_decoration;
pub mod revision;
pub mod stateful_set;

pub use halted::BadVersion;

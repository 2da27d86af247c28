//! One folder a kind.

pub mod colla_set;
pub mod daemon_set;
pub mod deployment;
mod halted;
mod on_delete;
pub mod pod_decoration;
pub mod revision;
pub mod stateful_set;
mod way;

pub use halted::BadVersion;
pub(crate) use halted::judged_bad;
pub(crate) use on_delete::is_on_delete;

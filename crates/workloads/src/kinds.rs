//! One folder a kind.

pub mod clone_set;
pub mod colla_set;
pub mod daemon_set;
pub mod deployment;
mod on_delete;
pub mod pod_decoration;
pub mod sidecar_set;
pub mod stateful_set;
pub(crate) mod update_strategy;
mod way;

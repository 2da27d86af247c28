//! Who else wants something for pods, beside their workloads. One file or folder a kind of request.

pub mod container_recreate_request;
pub mod foreign;
pub mod operation_job;
pub mod restart;
pub(crate) mod sidecar_updates;
mod task;
pub(crate) mod token;

//! Kubernetes' controllers of workloads, one file a kind.

pub(crate) mod deployment;

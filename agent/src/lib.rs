//! The node agent: takes the pods of its own node through granted operations.
//!
//! Every step is derived anew from the pod, the grant, the agent's own last report and the kernel ([`round`], pure); the
//! shell around it carries the steps out. An agent that was killed at any instant therefore resumes from what it sees:
//! nothing is kept on disk, and what is kept in memory ([`memory::Memory`]) only makes waits more exact.

pub mod agent;
pub mod caches;
pub mod config;
pub mod config_files;
mod config_mounts;
pub mod decide;
pub mod decision;
pub mod deed;
pub mod drain;
pub mod hooks;
pub mod http;
pub mod in_service;
pub mod instant;
mod lock;
pub mod memory;
pub mod metrics;
pub mod patch;
pub mod pauses;
pub mod published;
pub mod readiness;
pub mod report;
pub mod retire;
pub mod round;
pub mod view;
pub mod waiters;

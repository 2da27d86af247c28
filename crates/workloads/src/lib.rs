//! What workloads wish: workload + revisions + pods → intents for pods and the next write to the workload's own objects.
//!
//! Pure: no client, no clock, no state of its own. Everything is derived anew from what is observed, so a controller that is
//! killed between any two writes goes on where it was. One module per kind of workload; [`restart`] is for any pod.

pub mod deployment;
pub mod image;
pub mod intent;
pub mod owners;
pub mod restart;

pub use deployment::{DeploymentPlan, DeploymentView, ReplicaSetView, Stage, WorkloadWrite, plan};
pub use intent::{Obstacle, Operation, PodIntent, PodWish};
pub use owners::Owners;

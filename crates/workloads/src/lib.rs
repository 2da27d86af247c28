//! What workloads and requests want: objects + pods + now → plans: what to write next, and which pods to operate how.
//!
//! Pure: no client, no clock, no state of its own. Everything is derived anew from what is observed, so a controller that is
//! killed between any two writes goes on where it was. [`kind`] is the seam; one folder a kind of workload in [`kinds`], and
//! [`request`] is the second one, for what is wanted of pods of any kind. [`registry`] is above all of them and knows them all.

mod annotations;
mod because;
pub mod component;
pub mod config;
mod containers;
pub mod diff;
mod downward;
mod field;
mod halted;
pub mod image;
pub mod installed;
mod intent;
pub mod kind;
pub mod kinds;
pub mod labels;
pub mod large;
pub mod lifecycle;
mod managed_fields;
pub mod manifest;
mod need;
pub mod object;
mod once_per_pod;
mod opt_in;
mod ownership;
mod pause;
pub mod plan;
mod pod_set;
pub mod registry;
mod removal;
pub mod request;
pub mod requests;
pub mod restart_annotations;
mod restart_request;
pub mod retention;
pub mod revision;
mod right;
pub mod rights;
mod shape;
mod surge;
pub mod template;
pub mod undo;
mod version;
pub mod world;
pub mod write;

pub use annotations::Annotations;
pub use because::{Because, Cause};
pub use component::{COMPONENTS, Component, ForeignManager, Switch};
pub use config::{ConfigContent, ConfigKind, ConfigRef, ConfigUse};
pub use diff::first_native_change;
pub use halted::BadVersion;
pub use installed::Installed;
pub use intent::{DesiredOperation, Obstacle, Operation, PodIntent};
pub use kind::{Hook, Kind, Resource};
pub use kinds::daemon_set::Placement;
pub use labels::{By, Selection, Selections};
pub use manifest::RolledOut;
pub use object::{Body, Object, RequestBody, Typed};
pub use once_per_pod::OncePerPod;
pub use opt_in::OptIn;
pub use pause::Pause;
pub use plan::{CompanionPolicy, Plan, Stage};
pub use registry::{Holder, KINDS, REQUESTS};
pub use removal::Removal;
pub use request::{OperationFailure, OperationFailures, Reports, RequestContext, RequestKind};
pub use requests::{foreign, restart};
pub use restart_annotations::{RestartAnnotations, RestartsPolicy};
pub use right::Right;
pub use shape::Shape;
pub use template::Template;
pub use version::{Undo, Version, WayBack};
pub use world::World;
pub use write::{Deletion, EndedHold, Request, Write};

//! What workloads and requests wish: objects + pods + now → plans: what to write next, and which pods to operate how.
//!
//! Pure: no client, no clock, no state of its own. Everything is derived anew from what is observed, so a controller that is
//! killed between any two writes goes on where it was. [`kind`] is the seam; one folder a kind of workload in [`kinds`], and
//! [`request`] is the second one, for what is wished of pods of any kind.

mod because;
pub mod config;
mod containers;
pub mod diff;
mod downward;
pub mod image;
mod intent;
pub mod interest;
pub mod kind;
pub mod kinds;
pub mod labels;
pub mod large;
pub mod lifecycle;
pub mod manifest;
mod need;
pub mod object;
mod once_per_pod;
mod ownership;
mod pause;
pub mod plan;
mod removal;
pub mod request;
pub mod requests;
pub mod restart_annotations;
pub mod rights;
mod surge;
pub mod switch;
pub mod template;
pub mod undo;
pub mod world;
pub mod write;

pub use because::{Because, Cause};
pub use config::{ConfigContent, ConfigKind, ConfigRef, ConfigUse};
pub use diff::first_native_change;
pub use intent::{Obstacle, Operation, PodIntent, PodWish};
pub use kind::{Component, Holder, KINDS, Kind, Resource};
pub use kinds::BadVersion;
pub use kinds::daemon_set::Placement;
pub use labels::{By, Selection, Selections};
pub use manifest::RolledOut;
pub use object::{Body, Object, OptIn, Typed};
pub use once_per_pod::OncePerPod;
pub use pause::Pause;
pub use plan::{CompanionWish, Plan, Stage};
pub use removal::Removal;
pub use request::{Fate, Fates, REQUESTS, Reports, RequestKind, Scene};
pub use requests::{foreign, restart};
pub use restart_annotations::{RestartAnnotations, RestartsWish};
pub use switch::{Installed, Switch};
pub use template::Template;
pub use undo::{Undo, Version, WayBack};
pub use world::World;
pub use write::{Deletion, Request, Write};

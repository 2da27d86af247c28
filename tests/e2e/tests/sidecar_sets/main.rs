//! OpenKruise's SidecarSets: what pods get when they are made.

mod chance;
mod injection;
mod policy;
mod sidecar_set;
mod update;

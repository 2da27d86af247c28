//! Deterministic simulation: the real controller core (`hitless_rollout::round`) and the real agent core
//! (`hitless_agent::round`, its patches and reports) over a simulated API server, kubelets and users.
//!
//! A run is a function of its seed. Virtual time jumps from one event to the next; all chance comes from one generator. The
//! shells around the cores (watched caches, order of reads and writes) are written a second time here, as small as they can be.
//! Everything that decides is the product's own code, and so are what the controller remembers, when a write that failed is
//! tried again, and how long an agent pauses. [`checks`] says what must hold.

mod agent;
mod balancer;
mod chance;
mod checks;
mod clock;
mod controller;
mod counts;
mod decide;
mod faults;
mod fleet;
mod ground;
mod kubelet;
mod kubernetes;
mod manifest;
mod native;
mod ports;
mod server;
mod servers;
mod trace;
mod user;
mod watch;
mod workload;
mod world;

pub use counts::{HoldCounts, HoldEvent};
pub use faults::{Counts, Fault};
pub use fleet::{Fleet, Phases, PodSet, Report};
pub use ground::seed_of_all;
pub use world::{Outcome, run};

//! How a pod is kept from losing requests: which policies hold for it, whether it leaves service or is held, and what its
//! Services need for that (docs/contract.md 5, 6, 13).

mod choice;
mod forecast;
mod gap;
mod policy;
mod prospect;
mod service;
mod traffic;

pub use choice::{Impossible, Mode, Situation, choose};
pub use forecast::Forecast;
pub use gap::Gaps;
pub use policy::{Policies, PolicyView, Resolved};
pub use prospect::{AgentSays, Hindrance, Prospect, Start, Subject, WorkloadFacts};
pub use service::{ServiceView, Target};
pub use traffic::{Begin, Busy, Presence, Traffic};

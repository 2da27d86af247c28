//! How a pod is kept from losing requests: which policies hold for it, whether it leaves service or is held, and what its
//! Services need for that (DESIGN §4, CONTRACT 5, 6, 13).
//!
//! Pure: objects in, answers out. The controller asks at the moment of the grant and does what is answered; `kubectl hitless plan`
//! and `why` ask beforehand and tell.

mod gap;
mod mode;
mod policy;
mod prospect;
mod service;
mod traffic;

pub use gap::Gaps;
pub use mode::{Impossible, Mode, Situation, choose};
pub use policy::{Policies, PolicyView, Resolved};
pub use prospect::{AgentSays, Hindrance, Prospect, Start, Subject};
pub use service::{ServiceView, Target};
pub use traffic::{Begin, Busy, Presence, Traffic};

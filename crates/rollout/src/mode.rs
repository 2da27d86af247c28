//! How a pod is kept from losing requests: which policies hold for it, whether it leaves service or is held, and what its
//! Services need for that (docs/contract.md#services-of-a-held-pod, #learned-gap, #drain-settings, #leave-or-hold, #lost-connections).

mod choice;
mod forecast;
mod gap;
mod losses;
mod not_operable;
mod policy;
mod service;
mod settings;
mod start;
mod traffic;

pub use choice::{Mode, ModeInputs, choose};
pub use forecast::Forecast;
pub use gap::Gaps;
pub use losses::ConnectionLosses;
pub use not_operable::NotOperable;
pub use policy::{Policies, PolicyView, Resolved};
pub use service::{Control, ServiceView, Target, is_of_load_balancer};
pub use settings::{AgentStatus, OperationSettings, PodContext, Start, WorkloadFacts};
pub use start::start_seconds;
pub use traffic::{ServiceConflict, ServiceReadiness, Serving, StandIn, Traffic};

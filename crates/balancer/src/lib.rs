//! Pods in external load balancers: put in, taken out, and put back, with evidence that it took effect.
//!
//! Two layers. The pure one says what to do about a pool ([`steps`]) and what its last reading proves about a pod
//! ([`evidence`]); it takes `now` and does no I/O. The other one carries it out: a [`Provider`] is one kind of load balancer,
//! and [`round`] reads, decides, acts and reads again.
//!
//! # Rules
//!
//! * A pool that can't be read, or was read too long ago, leads to no step. What is registered stays.
//! * A server is ours if its name has our [`Mark`] and its own address. Nothing else is ever changed or deleted.
//! * Our servers are put back to what is wanted, whoever changed them.
//! * A pod is out when the provider lets no session in *and* counts none, or when the provider no longer lists it. A server that
//!   drains and has no session is not out yet: a session that sticks to it may still begin.
//! * The last server that serves stays, unless [`Last::Take`] is said for it.

pub mod alibaba;
mod decide;
mod error;
mod evidence;
pub mod haproxy;
mod name;
mod observation;
mod provider;
mod server;

pub use decide::{Kept, Last, Plan, PodName, Reason, Stand, Step, Wanted, steps, strays};
pub use error::ProviderError;
pub use evidence::{Evidence, evidence};
pub use name::{InvalidName, Mark, PoolName, ServerName};
pub use observation::{FRESH, Observation, Unknown};
pub use provider::{Failed, Provider, Round, carry_out, observe, round};
pub use server::{Owner, Server, ServerState, Weight, WeightError};

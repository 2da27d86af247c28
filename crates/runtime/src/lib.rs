//! What the agent and the controller share: start-up and shutdown, health and metrics, watched caches, conditional writes,
//! the leader's lease and Events. No decision about pods is made here.
//!
//! Order in `main`: [`config`] → [`telemetry::init`] → [`client::in_cluster`] → [`shutdown::Tasks`] with the tasks of
//! [`watch`], [`http`], [`lease`] and the program's own loop.

pub mod admission;
pub mod backoff;
pub mod client;
pub mod config;
pub mod events;
pub mod http;
pub mod http_client;
pub mod lease;
pub mod list;
pub mod liveness;
pub mod prefix;
pub mod process;
pub mod readiness;
pub mod restored;
pub mod shutdown;
pub mod telemetry;
pub mod watch;
pub mod write;

//! The reference server and the load client that every claim of this project is measured with.
//!
//! * [`server`] is what a pod runs: a small keep-alive server that, in its naive mode, exits the moment SIGTERM
//!   arrives, which is the worst case an upgrade can meet.
//! * [`Load`] sends requests on a fixed schedule, on fresh and on kept-alive connections, and counts what a client
//!   would have seen, with and without the one retry that HTTP/1.1 allows (see [`retry`]).
//! * [`Report`] is the result. The `load` binary prints it as JSON lines, so that a parent in another network
//!   namespace reads the same type that an in-process caller gets from [`Load::snapshot`].
//!
//! ```no_run
//! # async fn example() -> Result<(), hitless_load::ConfigError> {
//! use hitless_load::{Load, LoadConfig};
//!
//! let load = Load::start(LoadConfig::new([([10, 96, 0, 17], 80).into()]))?;
//! // ... upgrade something ...
//! println!("{} failed so far", load.snapshot().failed());
//! let report = load.finish().await;
//! assert_eq!(report.failed(), 0, "{:?}", report.failures);
//! # Ok(()) }
//! ```

mod config;
mod connection;
mod histogram;
mod load;
mod recorder;
mod report;
pub mod retry;
pub mod server;
pub mod worker;

pub use config::{
    ConfigError, LoadConfig, MAX_CONNECTIONS, MAX_DURATION, MAX_OUTSTANDING, MAX_PER_SECOND, MAX_TARGETS,
};
pub use load::Load;
pub use report::{ClassReport, ConnectionClass, Failure, FailureKind, Latency, Pause, Report, Seen, Window};

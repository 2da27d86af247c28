//! Holding new connections of pods that stay in service while their containers are replaced.

mod job;
mod threads;
mod worker;

pub use job::Target;
pub use threads::HoldThreads;

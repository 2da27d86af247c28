//! The one decision about the whole cluster: a snapshot and the time in, ordered writes and a verdict for each pod out. Pure.
//!
//! The controller carries the writes out; `kubectl hitless` asks the same function and tells. Nothing else decides.

pub mod ask;
pub mod beforehand;
pub mod companion;
pub mod foreign_manager;
pub mod gate_cache;
pub mod guard;
pub mod mode;
mod owner_reference;
pub mod pools;
pub mod prefetch;
pub mod reload;
pub mod round;
pub mod snapshot;

pub use ask::Ask;

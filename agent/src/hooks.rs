//! Hooks: how far each is ([`called`]), what the applications themselves say ([`task`]), and the calls ([`runner`]).
//!
//! Decisions ask for one call at a time (`Decision::hook`); its reply comes into the memory of its grant, and wakes the loop. A
//! call that nobody asks for any more is given up. What was replied is in the report (`hooksDone`); a call whose reply nobody
//! noted is made again, so an application hears of everything at least once.

pub mod answer;
pub mod called;
mod exec;
pub mod http;
pub mod report;
pub mod runner;
pub mod task;
mod trust;

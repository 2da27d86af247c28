//! Looking at the sockets of pods that are being drained: on a thread of its own, because the calls block, and only while
//! some pod is drained.

pub mod observed;
pub mod observer;
pub mod quiet;

//! The provider and the decider with the real HAProxy, on loopback. `HAPROXY` may name a program; otherwise the one on the search
//! path is taken, or Debian's package is unpacked, without installing anything.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the whole crate is a test; clippy looks for #[test] on each function"
)]

mod failures;
mod lab;
mod others;
mod package;
mod pod;
mod process;
mod rounds;
mod traffic;

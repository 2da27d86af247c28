//! Objects that ask once for something: what they want, what they report, and that nothing is done twice.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod recreate;
mod replace;
mod restart;
mod shop;

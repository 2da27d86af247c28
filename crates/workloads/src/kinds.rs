//! One folder a kind.

pub mod deployment;

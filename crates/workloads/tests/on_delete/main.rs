//! StatefulSets and DaemonSets: who goes when, what is written when, and what is left alone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod restarts;
mod scene;
mod steps;

//! Tests of the agent's decisions, without a cluster.

mod any_state;
mod refusals;
mod runs;
mod world;

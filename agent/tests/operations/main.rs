//! Tests of the agent's decisions, without a cluster.

#[cfg(test)]
mod any_state;
#[cfg(test)]
mod clock;
#[cfg(test)]
mod conditional;
#[cfg(test)]
mod config;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod held;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod late;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod relabel;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod waits;
#[cfg(test)]
mod world;

//! The Deployment adapter against objects as a real API server (1.36.3) returned them and a model of the controllers around it.

#[cfg(test)]
mod halts;
#[cfg(test)]
mod labels;
#[cfg(test)]
mod opting;
#[cfg(test)]
mod pauses;
#[cfg(test)]
mod property;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod world;

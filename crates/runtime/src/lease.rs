//! Which of several controllers leads: the decision, free of I/O. [`election`] carries it out.
//!
//! Safety rests on three things. Every write of the Lease carries its resourceVersion, so of two contenders one fails.
//! A contender judges expiry by how long *it* has seen the Lease unchanged, never by the times written in it, so clocks may
//! disagree. And a leader counts from before its last successful renewal was sent and stops after
//! [`LeaseConfig::renew_deadline`], well before another one may take the Lease. (Whatever a deposed leader still has under
//! way then fails by its own preconditions.)

use std::time::Duration;

use jiff::Timestamp;

pub mod election;

pub use election::{Election, Leadership};

/// Times of an election; the defaults are those of Kubernetes' own components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// A Lease that has been unchanged for so long may be taken.
    pub duration: Duration,
    /// A leader that has not renewed for so long stops leading. Shorter than `duration` by more than a write may take.
    pub renew_deadline: Duration,
    /// Time between renewals, and between a contender's looks.
    pub retry: Duration,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// What a Lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Who holds it; empty when it was released.
    pub holder: String,
    /// How often it has changed hands; the epoch.
    pub transitions: i64,
    /// The holder's own time of its last renewal. Only compared for equality.
    pub renewed: Option<Timestamp>,
    /// The holder's idea of [`LeaseConfig::duration`].
    pub duration: Duration,
}

/// A Lease (or its absence) as seen, and since when it has looked like that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// `None`: there is no Lease.
    pub lease: Option<LeaseView>,
    /// On the observer's own monotonic clock.
    pub since: Duration,
}

impl Observed {
    /// Takes a look at `now` into account.
    pub fn look(&mut self, lease: Option<LeaseView>, now: Duration) {
        if self.lease != lease {
            *self = Self { lease, since: now };
        }
    }
}

/// What to do about the Lease. Times are on the observer's own monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// We hold it and have nothing to do until then.
    Hold {
        /// When to renew it.
        until: Duration,
    },
    /// Renew it.
    Renew,
    /// Take it.
    Acquire {
        /// The epoch to take it with.
        transitions: i64,
    },
    /// Somebody else holds it.
    Wait {
        /// When it may be taken, should it stay unchanged.
        until: Duration,
    },
}

/// What `me` should do. `me` must be unique for each process: a restarted one is another contender.
#[must_use]
pub fn evaluate(observed: &Observed, me: &str, now: Duration, config: &LeaseConfig) -> Action {
    let Some(lease) = &observed.lease else { return Action::Acquire { transitions: 1 } };
    let next = Action::Acquire { transitions: lease.transitions.saturating_add(1) };
    if lease.holder.is_empty() {
        return next;
    }
    if lease.holder == me {
        let due = observed.since + config.retry;
        return if now < due { Action::Hold { until: due } } else { Action::Renew };
    }
    // A holder of another version may believe in a longer time than we do.
    let expires = observed.since + config.duration.max(lease.duration);
    if now < expires { Action::Wait { until: expires } } else { next }
}

#[cfg(test)]
mod tests;

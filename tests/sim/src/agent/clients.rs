//! The connections of a pod that leaves.

use hitless_agent::view::{Count, Observation};

use crate::clock::{MS, Micros, NEVER, SECOND};
use crate::faults::Fault;
use crate::ground::Ground;

/// Over so long nobody must have come for the pod to be quiet.
const QUIET: Micros = SECOND;

/// How the pod's clients behave.
#[derive(Clone, Copy)]
enum Clients {
    /// They leave so long after the pod has left.
    Leave(Micros),
    Stay,
    Uncountable,
}

/// A pod whose sockets are looked at.
pub(super) struct Watched {
    clients: Clients,
    /// Since when its endpoint is gone.
    draining: Option<Micros>,
    /// First look.
    since: Micros,
}

impl Watched {
    pub(super) fn new(ground: &mut Ground) -> Self {
        let clients = if ground.chance.happens(ground.weather.straggler) {
            ground.fault(Fault::Straggler);
            Clients::Stay
        } else if ground.chance.happens(ground.weather.uncountable) {
            ground.fault(Fault::Uncountable);
            Clients::Uncountable
        } else {
            Clients::Leave(ground.chance.delay(0, 3 * SECOND))
        };
        Self { clients, draining: None, since: ground.now }
    }

    pub(super) fn follow(&mut self, draining: bool, now: Micros) {
        match (draining, self.draining) {
            (true, None) => self.draining = Some(now),
            (false, Some(_)) => self.draining = None,
            _ => {}
        }
    }

    /// When its clients will be gone, if that is known.
    pub(super) fn gone_at(&self) -> Option<Micros> {
        match (self.draining, self.clients) {
            (Some(since), Clients::Leave(after)) => Some(since + after.max(QUIET)),
            _ => None,
        }
    }

    pub(super) fn look(&self, now: Micros) -> Observation {
        if matches!(self.clients, Clients::Uncountable) {
            return Observation::Failed("no such process".to_owned());
        }
        let gone = self.gone_at().is_some_and(|at| at <= now);
        let quiet = self.draining.is_some_and(|since| now >= since + QUIET);
        let inbound = if gone { 0 } else { 3 };
        Observation::Counted(Count { inbound, busy: inbound, quiet, most: 3, ..Count::default() })
    }

    /// When a look shows something new.
    pub(super) fn next(&self, now: Micros) -> Micros {
        let first = self.since + MS;
        let quiet = self.draining.map_or(NEVER, |since| since + QUIET);
        [first, quiet, self.gone_at().unwrap_or(NEVER)].into_iter().filter(|at| *at > now).min().unwrap_or(NEVER)
    }
}

//! What to do about a pool: what is wanted + what was read + now → steps, and reasons for what is left as it is.
//!
//! Pure, and derived from the reading alone: whoever starts anew decides the same. One server gets at most one step at a time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use crate::{Observation, Server, ServerName, Weight};

mod wanted;

#[cfg(test)]
mod tests;

use wanted::strongest;
pub use wanted::{Kept, Last, Plan, PodName, Reason, Stand, Wanted};

use crate::{Owner, ServerState};

/// Something to ask of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Register a server.
    Register {
        /// Where its sessions go.
        address: SocketAddr,
        /// Its share.
        weight: Weight,
    },
    /// Change its share of new sessions.
    SetWeight {
        /// Which.
        server: ServerName,
        /// Its share.
        weight: Weight,
    },
    /// Let sessions in.
    MakeReady {
        /// Which.
        server: ServerName,
        /// Its share.
        weight: Weight,
    },
    /// Let no new sessions in, except those that stick to it.
    Drain {
        /// Which.
        server: ServerName,
    },
    /// Let no session in at all. Only once none is open: some configurations end open ones then.
    Close {
        /// Which.
        server: ServerName,
    },
    /// Delete it. Only once none is open, or if nothing but that can end its sessions.
    Deregister {
        /// Which.
        server: ServerName,
    },
}

/// Whether a server that leaves stays listed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// It stays, closed.
    Out,
    /// It is deleted.
    Deleted,
}

/// The next steps from `observed` to `wanted`. What nobody says anything about stays as it is, see [`strays`].
#[must_use]
pub fn steps(wanted: &[Wanted], observed: &Observation, now: Instant) -> Plan {
    let desired = strongest(wanted);
    let servers = match observed.servers(now) {
        Ok(servers) => servers,
        Err(unknown) => {
            let kept = |target: &&Wanted| Kept::of(target, Reason::Unknown(unknown.clone()));
            return Plan { steps: Vec::new(), kept: desired.values().map(kept).collect() };
        }
    };
    let mut draft = Draft::new(servers);
    for server in in_order(servers) {
        match (server.owner, server.address.and_then(|address| desired.get(&address))) {
            (Owner::Us, Some(target)) => draft.ours(server, target),
            (Owner::Others, Some(target)) => draft.others(server, target),
            // Its address is not the one that we have registered. It goes, and the right one is registered again.
            (Owner::UsMoved { .. }, target) => draft.leave(server, Until::Deleted, Last::Keep, target.copied()),
            (Owner::Us | Owner::Others, None) => {}
        }
    }
    for target in desired.values() {
        draft.missing(servers, target);
    }
    draft.plan
}

/// Servers of ours that `wanted` says nothing about, for instance of pods that went while nobody watched. They stay until
/// somebody wants them gone: an incomplete list must not empty a pool.
#[must_use]
pub fn strays<'a>(wanted: &[Wanted], servers: &'a [Server]) -> Vec<&'a Server> {
    let desired = strongest(wanted);
    let stray = |server: &&Server| match (server.owner, server.address) {
        (Owner::Us, Some(address)) => !desired.contains_key(&address),
        // The decider itself removes a moved one.
        (Owner::Us, None) | (Owner::UsMoved { .. } | Owner::Others, _) => false,
    };
    servers.iter().filter(stray).collect()
}

/// By name, so that the answer does not depend on the order of the reading.
fn in_order(servers: &[Server]) -> impl Iterator<Item = &Server> {
    let by_name: BTreeMap<&ServerName, &Server> = servers.iter().map(|server| (&server.name, server)).collect();
    by_name.into_values()
}

struct Draft {
    plan: Plan,
    /// How many servers will serve when the steps so far are taken. Those that are let in do not count before they are seen to serve.
    serving: usize,
}

impl Draft {
    fn new(servers: &[Server]) -> Self {
        let serving = servers.iter().filter(|server| server.serves()).count();
        Self { plan: Plan::default(), serving }
    }

    fn ours(&mut self, server: &Server, target: &Wanted) {
        match target.stand {
            Stand::In => self.enter(server, target.weight),
            Stand::Out(last) => self.leave(server, Until::Out, last, Some(target)),
            Stand::Gone(last) => self.leave(server, Until::Deleted, last, Some(target)),
        }
    }

    fn enter(&mut self, server: &Server, weight: Weight) {
        let name = server.name.clone();
        match server.state {
            ServerState::Draining | ServerState::Maintenance => {
                self.plan.steps.push(Step::MakeReady { server: name, weight });
            }
            ServerState::Ready | ServerState::Standby | ServerState::Unhealthy => {
                if server.weight != weight.get() {
                    self.plan.steps.push(Step::SetWeight { server: name, weight });
                }
            }
            // The provider is busy with it. What comes of that is in the next reading.
            ServerState::Changing | ServerState::Leaving => {}
        }
    }

    fn leave(&mut self, server: &Server, until: Until, last: Last, target: Option<&Wanted>) {
        let name = server.name.clone();
        match (server.state, server.sessions) {
            (ServerState::Ready | ServerState::Standby | ServerState::Unhealthy, _) => {
                if server.serves() && self.serving == 1 && last == Last::Keep {
                    self.plan.kept.push(Kept::at(server, target, Reason::LastServing));
                    return;
                }
                self.serving -= usize::from(server.serves());
                self.plan.steps.push(Step::Drain { server: name });
            }
            (ServerState::Draining, Some(0)) => self.plan.steps.push(Step::Close { server: name }),
            (ServerState::Maintenance, Some(0)) => {
                if until == Until::Deleted {
                    self.plan.steps.push(Step::Deregister { server: name });
                }
            }
            // Nothing but its removal proves that its sessions have ended.
            (ServerState::Draining | ServerState::Maintenance, None) => {
                self.plan.steps.push(Step::Deregister { server: name });
            }
            (ServerState::Draining | ServerState::Maintenance, Some(_))
            | (ServerState::Changing | ServerState::Leaving, _) => {}
        }
    }

    fn others(&mut self, server: &Server, target: &Wanted) {
        let as_wanted = match (target.stand, server.state) {
            (Stand::In, ServerState::Ready)
            | (
                Stand::Out(_) | Stand::Gone(_),
                ServerState::Draining | ServerState::Maintenance | ServerState::Leaving,
            ) => true,
            (
                Stand::In,
                ServerState::Standby
                | ServerState::Unhealthy
                | ServerState::Draining
                | ServerState::Maintenance
                | ServerState::Changing
                | ServerState::Leaving,
            )
            | (
                Stand::Out(_) | Stand::Gone(_),
                ServerState::Ready | ServerState::Standby | ServerState::Unhealthy | ServerState::Changing,
            ) => false,
        };
        if !as_wanted {
            self.plan.kept.push(Kept::at(server, Some(target), Reason::NotOurs));
        }
    }

    /// Registers a wanted address that no server has.
    fn missing(&mut self, servers: &[Server], target: &Wanted) {
        match target.stand {
            Stand::Out(_) | Stand::Gone(_) => {}
            Stand::In => {
                let address = target.address;
                let moved = |server: &Server| server.owner == Owner::UsMoved { from: address };
                let here =
                    |server: &Server| server.address == Some(address) && !matches!(server.owner, Owner::UsMoved { .. });
                if servers.iter().any(here) {
                    return;
                }
                if servers.iter().any(moved) {
                    self.plan.kept.push(Kept::of(target, Reason::NameTaken));
                } else {
                    self.plan.steps.push(Step::Register { address, weight: target.weight });
                }
            }
        }
    }
}

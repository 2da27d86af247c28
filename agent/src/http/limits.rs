//! What one caller may take: connections, waits, streams and requests, each for itself and all together, so that nobody can
//! keep the kubelet out or the agent busy. Deciders take `now`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

pub use super::untrusted::UntrustedConnections;
pub use super::wait_slots::{WaitSlot, WaitSlots};

use super::count_guard::{CountGuard, Counts};
use crate::lock::lock;

/// Whom something is counted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The node itself.
    Node(Client),
    /// The pod with this uid.
    Pod(String),
    /// An address in `HITLESS_TRUSTED`.
    Trusted(IpAddr),
    /// An address, of IPv6 the first 64 bits of one, or a process that is in no known pod.
    Other(Option<IpAddr>),
}

/// Who asks from the node, as far as it says. The kubelet lends its address to whoever writes a probe or a hook, so none of these may
/// take the others' places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// It has not said anything yet.
    Unknown,
    /// The kubelet, for a probe.
    Probe,
    /// The kubelet, for a hook.
    Hook,
    /// Anybody else.
    Other,
}

impl Client {
    /// How the kubelet's probes call themselves, then comes its version.
    const PROBE: &str = "kube-probe/";
    /// The same of its hooks.
    const HOOK: &str = "kube-lifecycle/";

    /// By the header field `User-Agent`.
    #[must_use]
    pub fn of(user_agent: &str) -> Self {
        if user_agent.starts_with(Self::HOOK) {
            Self::Hook
        } else if user_agent.starts_with(Self::PROBE) {
            Self::Probe
        } else {
            Self::Other
        }
    }
}

/// How much of something there is.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// For one source.
    pub each: usize,
    /// For all sources of its kind.
    pub all: usize,
}

/// How much of something each kind of source may have at a time.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// The node, before it is known what it wants.
    pub node: usize,
    /// Probes.
    pub probes: usize,
    /// Hooks: the kubelet waits for as many pods as it may end at once.
    pub hooks: usize,
    /// All other clients on the node.
    pub node_others: usize,
    /// Trusted addresses.
    pub trusted: Share,
    /// Pods of the node.
    pub pods: Share,
    /// Everybody else.
    pub others: Share,
}

/// How fast requests may come.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// In the long run.
    pub per_second: u32,
    /// At once, after a pause.
    pub burst: u32,
}

/// Open connections.
pub const CONNECTIONS: Shares = Shares {
    node: 512,
    probes: 64,
    hooks: 512,
    node_others: 128,
    trusted: Share { each: 64, all: 256 },
    pods: Share { each: 8, all: 256 },
    others: Share { each: 32, all: 128 },
};
/// Nothing for anybody.
const NONE: Shares = Shares {
    node: 0,
    probes: 0,
    hooks: 0,
    node_others: 0,
    trusted: Share { each: 0, all: 0 },
    pods: Share { each: 0, all: 0 },
    others: Share { each: 0, all: 0 },
};
/// Connections of the node beyond those, short ones, for the kubelet's probes only.
pub const RESERVE: Shares = Shares { node: 16, ..NONE };
/// Requests that wait.
pub const WAITS: Shares = Shares {
    probes: 16,
    hooks: 512,
    node_others: 128,
    trusted: Share { each: 32, all: 128 },
    pods: Share { each: 4, all: 128 },
    others: Share { each: 16, all: 64 },
    ..NONE
};
/// Requests from the node that wait for one pod: its containers' hooks and a few more ...
pub const WAITS_FOR_A_POD: usize = 16;
/// ... and for pods of one namespace by their labels: where a node is emptied, each pod's hook asks.
pub const WAITS_IN_A_NAMESPACE: usize = 256;
/// Event streams.
pub const STREAMS: Shares = Shares {
    probes: 2,
    hooks: 2,
    node_others: 32,
    trusted: Share { each: 4, all: 16 },
    pods: Share { each: 2, all: 32 },
    others: Share { each: 4, all: 16 },
    ..NONE
};

/// Sources that are told apart by address, at a time.
const MOST_OTHERS: usize = 1024;

fn rate(source: &Source) -> Rate {
    match source {
        Source::Node(_) => Rate { per_second: 500, burst: 1000 },
        Source::Pod(_) => Rate { per_second: 10, burst: 40 },
        // A load balancer asks for many pods.
        Source::Trusted(_) => Rate { per_second: 200, burst: 800 },
        Source::Other(_) => Rate { per_second: 50, burst: 200 },
    }
}

/// All limits.
#[derive(Debug)]
pub struct Limits {
    /// Open connections.
    pub connections: Places,
    /// Connections for probes only.
    pub reserve: Places,
    /// Connections of clients that are not trusted, the longest idle of which makes room.
    pub untrusted: UntrustedConnections,
    /// Requests that wait.
    pub waits: Places,
    /// Of these, those of the node, by what they wait for.
    pub wait_slots: WaitSlots,
    /// Event streams.
    pub streams: Places,
    /// Requests.
    pub requests: Rates,
}

impl Default for Limits {
    fn default() -> Self {
        let [connections, reserve, waits, streams] = [CONNECTIONS, RESERVE, WAITS, STREAMS].map(Places::new);
        let (untrusted, wait_slots, requests) =
            (UntrustedConnections::default(), WaitSlots::default(), Rates::default());
        Self { connections, reserve, untrusted, waits, wait_slots, streams, requests }
    }
}

/// Something of which each source may have so many at a time.
#[derive(Debug)]
pub struct Places {
    shares: Shares,
    taken: Counts<Source>,
}

/// A taken place; dropping it gives it back.
pub type Place = CountGuard<Source>;

impl Places {
    /// All free.
    #[must_use]
    pub fn new(shares: Shares) -> Self {
        Self { shares, taken: Arc::default() }
    }

    /// Takes a place; `None` if the source has all of its own, or its kind has.
    #[must_use]
    pub fn take(&self, source: &Source) -> Option<Place> {
        CountGuard::new_if(&self.taken, source, |taken| self.has_room(taken, source))
    }

    fn has_room(&self, taken: &HashMap<Source, usize>, source: &Source) -> bool {
        let own = taken.get(source).copied().unwrap_or_default();
        let sum = |is_kind: fn(&Source) -> bool| taken.iter().filter(|(of, _)| is_kind(of)).map(|(_, n)| n).sum();
        let (all, share): (usize, Share) = match source {
            Source::Node(client) => {
                let most = match client {
                    Client::Unknown => self.shares.node,
                    Client::Probe => self.shares.probes,
                    Client::Hook => self.shares.hooks,
                    Client::Other => self.shares.node_others,
                };
                (own, Share { each: most, all: most })
            }
            Source::Trusted(_) => (sum(|of| matches!(of, Source::Trusted(_))), self.shares.trusted),
            Source::Pod(_) => (sum(|of| matches!(of, Source::Pod(_))), self.shares.pods),
            Source::Other(_) => (sum(|of| matches!(of, Source::Other(_))), self.shares.others),
        };
        own < share.each && all < share.all
    }

    /// Whether the source itself has all that it may have.
    fn is_full(&self, source: &Source) -> bool {
        let own = lock(&self.taken).get(source).copied().unwrap_or_default();
        matches!(source, Source::Other(_)) && own >= self.shares.others.each
    }

    /// Takes a place that somebody else is about to give back.
    fn succeed(&self, source: &Source) -> Place {
        CountGuard::new(&self.taken, source)
    }

    /// Places that are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        lock(&self.taken).values().sum()
    }
}

impl Limits {
    /// A place for a connection. If a client that is not trusted can have none, the connection ends that has been idle for longest: of the same source
    /// if that has all of its own, else of all that are not trusted.
    #[must_use]
    pub fn connect(&self, source: &Source) -> Option<Place> {
        self.connections.take(source).or_else(|| {
            let only = self.connections.is_full(source).then_some(source);
            let has_room = matches!(source, Source::Other(_)) && self.untrusted.evict(only);
            has_room.then(|| self.connections.succeed(source))
        })
    }
}

/// How fast each source asks.
#[derive(Debug, Default)]
pub struct Rates {
    /// When the source would have its whole burst again.
    whole_at: Arc<Mutex<HashMap<Source, Instant>>>,
}

impl Rates {
    /// Counts a request at `now`; if it is one too many, says when to ask again.
    pub fn ask(&self, source: &Source, now: Instant) -> Result<(), Duration> {
        let Rate { per_second, burst } = rate(source);
        let cost = Duration::from_secs(1) / per_second;
        let mut whole_at = lock(&self.whole_at);
        if whole_at.len() >= MOST_OTHERS && !whole_at.contains_key(source) {
            whole_at.retain(|_, at| *at > now);
            if whole_at.len() >= MOST_OTHERS && matches!(source, Source::Other(_)) {
                return Err(Duration::from_secs(1));
            }
        }
        let spent_until = whole_at.get(source).copied().unwrap_or(now).max(now) + cost;
        let too_early = spent_until.duration_since(now).saturating_sub(cost * burst);
        if !too_early.is_zero() {
            return Err(too_early);
        }
        whole_at.insert(source.clone(), spent_until);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str) -> Source {
        Source::Pod(uid.to_owned())
    }

    fn other(last: u8) -> Source {
        Source::Other(Some(IpAddr::from([192, 0, 2, last])))
    }

    #[test]
    fn nobody_takes_more_than_its_share_and_no_kind_takes_anothers() {
        let share = Share { each: 2, all: 3 };
        let places = Places::new(Shares { node: 1, hooks: 1, pods: share, others: share, trusted: share, ..NONE });
        let mut held = vec![places.take(&pod("a")).unwrap(), places.take(&pod("a")).unwrap()];
        assert!(places.take(&pod("a")).is_none(), "its own share");
        held.push(places.take(&pod("b")).unwrap());
        assert!(places.take(&pod("c")).is_none(), "the share of all pods");
        held.push(places.take(&other(1)).unwrap());
        held.push(places.take(&Source::Node(Client::Unknown)).unwrap());
        assert!(places.take(&Source::Node(Client::Unknown)).is_none());
        assert!(places.take(&Source::Node(Client::Probe)).is_none(), "nothing is for probes");
        assert!(places.take(&Source::Node(Client::Hook)).is_some(), "hooks have their own");
        assert!(places.take(&Source::Trusted(IpAddr::from([192, 0, 2, 1]))).is_some(), "trusted ones have their own");
        assert_eq!(places.taken(), 5);
        held.remove(0);
        assert!(places.take(&pod("c")).is_some(), "a place that was given back");
        held.clear();
        assert_eq!(places.taken(), 0);
    }

    #[test]
    fn a_client_of_the_node_is_what_it_calls_itself() {
        for (agent, client) in [
            ("kube-probe/1.36", Client::Probe),
            ("kube-lifecycle/1.36", Client::Hook),
            ("curl/8", Client::Other),
            ("", Client::Other),
        ] {
            assert_eq!(Client::of(agent), client, "{agent}");
        }
    }

    #[test]
    fn a_burst_is_let_through_and_then_only_the_rate() {
        let (rates, now) = (Rates::default(), Instant::now());
        let refused = (0..100).filter(|_| rates.ask(&pod("a"), now).is_err()).count();
        assert_eq!(refused, 60, "a burst of 40");
        assert_eq!(rates.ask(&pod("b"), now), Ok(()), "another pod has its own");
        let wait = rates.ask(&pod("a"), now).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        assert_eq!(rates.ask(&pod("a"), now + wait), Ok(()));
        assert!(rates.ask(&pod("a"), now + wait).is_err());
        let later = now + Duration::from_mins(1);
        assert_eq!((0..100).filter(|_| rates.ask(&pod("a"), later).is_ok()).count(), 40, "and no more after a pause");
    }

    #[test]
    fn many_addresses_cost_bounded_memory_and_keep_no_pod_out() {
        let (rates, now) = (Rates::default(), Instant::now());
        let address = |n: u32| Source::Other(Some(IpAddr::from(n.to_be_bytes())));
        let refused = (0..5000).filter(|n| rates.ask(&address(*n), now).is_err()).count();
        assert_eq!(refused, 5000 - MOST_OTHERS);
        assert_eq!(rates.ask(&pod("a"), now), Ok(()));
        assert_eq!(rates.ask(&Source::Node(Client::Hook), now), Ok(()));
        let later = now + Duration::from_secs(1);
        assert_eq!(rates.ask(&address(4999), later), Ok(()), "those that have rested are forgotten");
        assert!(lock(&rates.whole_at).len() < 3);
    }
}

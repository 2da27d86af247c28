//! What one caller may take: connections, waits, streams and requests, each for itself and all together, so that nobody can
//! keep the kubelet out or the agent busy. Deciders take `now`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Whom something is counted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The node itself.
    Node,
    /// The pod with this uid.
    Pod(String),
    /// An address, or a process that is in no known pod.
    Other(Option<IpAddr>),
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
    /// The node, where the kubelet waits for as many pods as it may end at once.
    pub node: usize,
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
pub const CONNECTIONS: Shares =
    Shares { node: 512, pods: Share { each: 8, all: 256 }, others: Share { each: 32, all: 128 } };
/// Connections of the node beyond those, short ones, for the kubelet's probes only.
pub const RESERVE: Shares = Shares { node: 16, pods: Share { each: 0, all: 0 }, others: Share { each: 0, all: 0 } };
/// Requests that wait.
pub const WAITS: Shares = Shares { node: 512, pods: Share { each: 4, all: 128 }, others: Share { each: 16, all: 64 } };
/// Event streams.
pub const STREAMS: Shares = Shares { node: 32, pods: Share { each: 2, all: 32 }, others: Share { each: 4, all: 16 } };

/// Sources that are told apart by address, at a time.
const MOST_OTHERS: usize = 1024;

fn rate(source: &Source) -> Rate {
    match source {
        Source::Node => Rate { per_second: 500, burst: 1000 },
        Source::Pod(_) => Rate { per_second: 10, burst: 40 },
        // A load balancer asks for many pods.
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
    /// Requests that wait.
    pub waits: Places,
    /// Event streams.
    pub streams: Places,
    /// Requests.
    pub requests: Rates,
}

impl Default for Limits {
    fn default() -> Self {
        let [connections, reserve, waits, streams] = [CONNECTIONS, RESERVE, WAITS, STREAMS].map(Places::new);
        Self { connections, reserve, waits, streams, requests: Rates::default() }
    }
}

/// Something of which each source may have so many at a time.
#[derive(Debug)]
pub struct Places {
    shares: Shares,
    taken: Arc<Mutex<HashMap<Source, usize>>>,
}

/// A taken place; dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    source: Source,
    taken: Arc<Mutex<HashMap<Source, usize>>>,
}

impl Places {
    /// All free.
    #[must_use]
    pub fn new(shares: Shares) -> Self {
        Self { shares, taken: Arc::default() }
    }

    /// Takes a place; `None` if the source has all of its own, or its kind has.
    #[must_use]
    pub fn take(&self, source: &Source) -> Option<Place> {
        let mut taken = lock(&self.taken);
        let own = taken.get(source).copied().unwrap_or_default();
        let sum = |is_kind: fn(&Source) -> bool| taken.iter().filter(|(of, _)| is_kind(of)).map(|(_, n)| n).sum();
        let (all, share): (usize, Share) = match source {
            Source::Node => (own, Share { each: self.shares.node, all: self.shares.node }),
            Source::Pod(_) => (sum(|of| matches!(of, Source::Pod(_))), self.shares.pods),
            Source::Other(_) => (sum(|of| matches!(of, Source::Other(_))), self.shares.others),
        };
        if own >= share.each || all >= share.all {
            return None;
        }
        taken.insert(source.clone(), own + 1);
        Some(Place { source: source.clone(), taken: self.taken.clone() })
    }

    /// Places that are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        lock(&self.taken).values().sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        if let Some(own) = taken.get_mut(&self.source) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.source);
            }
        }
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change leaves it whole, so a panic elsewhere can't have left it broken.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let places = Places::new(Shares { node: 1, pods: share, others: share });
        let mut held = vec![places.take(&pod("a")).unwrap(), places.take(&pod("a")).unwrap()];
        assert!(places.take(&pod("a")).is_none(), "its own share");
        held.push(places.take(&pod("b")).unwrap());
        assert!(places.take(&pod("c")).is_none(), "the share of all pods");
        held.push(places.take(&other(1)).unwrap());
        held.push(places.take(&Source::Node).unwrap());
        assert!(places.take(&Source::Node).is_none());
        assert_eq!(places.taken(), 5);
        held.remove(0);
        assert!(places.take(&pod("c")).is_some(), "a place that was given back");
        held.clear();
        assert_eq!(places.taken(), 0);
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
        assert_eq!(rates.ask(&Source::Node, now), Ok(()));
        let later = now + Duration::from_secs(1);
        assert_eq!(rates.ask(&address(4999), later), Ok(()), "those that have rested are forgotten");
        assert!(lock(&rates.whole_at).len() < 3);
    }
}

//! Connections of clients that are not trusted. When connections run out, the longest-idle one is closed: a new client is more likely
//! to be a load balancer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::limits::Source;
use crate::lock::lock;

/// All of them.
#[derive(Debug, Default)]
pub struct UntrustedConnections(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// In the order in which they came.
    connections: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    source: Source,
    /// Since when it has had no request; `None` while one is answered.
    idle_since: Option<Instant>,
    evicted: CancellationToken,
}

/// One connection, until it is dropped.
#[derive(Debug)]
pub struct UntrustedConnection {
    number: u64,
    open: Arc<Mutex<Open>>,
    /// Cancelled when it is to end for another one.
    pub evicted: CancellationToken,
}

impl UntrustedConnections {
    /// One has come.
    #[must_use]
    pub fn enter(&self, source: Source, now: Instant) -> UntrustedConnection {
        let mut open = lock(&self.0);
        let (number, evicted) = (open.next, CancellationToken::new());
        open.next += 1;
        let connection = Connection { source, idle_since: Some(now), evicted: evicted.clone() };
        open.connections.insert(number, connection);
        UntrustedConnection { number, open: self.0.clone(), evicted }
    }

    /// Ends the one that has been idle for longest, of this source or of all; says whether there is one.
    #[must_use]
    pub fn evict(&self, only: Option<&Source>) -> bool {
        let mut open = lock(&self.0);
        let ours = open.connections.iter().filter(|(_, connection)| only.is_none_or(|only| connection.source == *only));
        let idle = ours.filter_map(|(number, connection)| Some((connection.idle_since?, *number)));
        let Some((_, number)) = idle.min() else { return false };
        // It is evicted once, however long it takes to end.
        let Some(connection) = open.connections.remove(&number) else { return false };
        connection.evicted.cancel();
        true
    }
}

impl UntrustedConnection {
    /// A request has come, or has been answered.
    pub fn set_idle(&self, since: Option<Instant>) {
        if let Some(connection) = lock(&self.open).connections.get_mut(&self.number) {
            connection.idle_since = since;
        }
    }
}

impl Drop for UntrustedConnection {
    fn drop(&mut self) {
        lock(&self.open).connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::*;

    fn source(last: u8) -> Source {
        Source::Other(Some(IpAddr::from([192, 0, 2, last])))
    }

    #[test]
    fn the_longest_idle_one_goes_and_never_one_that_is_being_answered() {
        let (untrusted, start) = (UntrustedConnections::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let [busy, first, second] =
            [(1, 0), (1, 1), (2, 2)].map(|(last, since)| untrusted.enter(source(last), at(since)));
        busy.set_idle(None);
        first.set_idle(Some(at(3)));
        let evicted = || [&busy, &first, &second].map(|connection| connection.evicted.is_cancelled());
        assert!(untrusted.evict(Some(&source(1))));
        assert_eq!(evicted(), [false, true, false], "only of that source");
        assert!(untrusted.evict(None));
        assert_eq!(evicted(), [false, true, true]);
        assert!(!untrusted.evict(None), "each goes once");
        drop((busy, first, second));
        assert!(lock(&untrusted.0).connections.is_empty());
    }
}

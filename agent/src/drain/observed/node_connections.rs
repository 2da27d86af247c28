//! Connections from the node itself: the kubelet's probes and other health checks.

use std::path::Path;
use std::time::{Duration, Instant};

use hitless_kernel::{Connection, NodeSockets, Origin};

use crate::drain::looks::Looks;

/// A probe that takes longer is waited for like a client. Clients can't be mistaken for probes for longer either: a hostNetwork
/// proxy on the node has its sockets there, too.
const PROBE_LASTS: Duration = Duration::from_secs(2);
/// Probes come and are gone again. Where some are there at each look for so long, nobody answers them, and whoever waited until
/// there is none would wait for ever.
const HANGING: Duration = Duration::from_secs(3);

/// Who has connected to a pod since it left.
#[derive(Default)]
pub(super) struct NodeConnections {
    /// When each was seen first, and where it comes from.
    looks: Looks<FirstSeen>,
    has_looked: bool,
    /// From when on there have been some at each look that may be probes.
    always_since: Option<Instant>,
}

#[derive(Clone, Copy)]
struct FirstSeen {
    since: Option<Instant>,
    origin: Origin,
}

impl NodeConnections {
    /// Before a look at all connections.
    pub(super) fn begin(&mut self) {
        self.looks.begin();
    }

    /// After it: those that are gone are forgotten. Says how many of those that `may_be_probes` are to be waited for.
    pub(super) fn end(&mut self, may_be_probes: u32, now: Instant) -> u32 {
        self.looks.end();
        self.has_looked = true;
        if may_be_probes == 0 {
            self.always_since = None;
            return 0;
        }
        let since = *self.always_since.get_or_insert(now);
        if now.duration_since(since) < HANGING { may_be_probes } else { 0 }
    }

    /// Whether this may be a probe rather than a client: it comes from a process of the node, where the kubelet is, and is new. A
    /// client whose packets the node translates has the node's address, and is none. In doubt it is a client.
    pub(super) fn may_be_probe(
        &mut self,
        connection: &Connection,
        now: Instant,
        origin: impl FnOnce() -> Origin,
    ) -> bool {
        let known = self.looks.of(connection).unwrap_or_else(|| FirstSeen {
            // Who was there before the first look has been so for unknown time.
            since: self.has_looked.then_some(now),
            origin: if self.has_looked { origin() } else { Origin::Forwarded },
        });
        self.looks.keep(connection, known);
        known.origin == Origin::Node && known.since.is_some_and(|since| now.duration_since(since) < PROBE_LASTS)
    }
}

/// Where a connection comes from; in doubt from a client.
pub(super) fn origin(proc_root: &Path, node: &mut Option<NodeSockets>, connection: &Connection) -> Origin {
    let mut sockets = match node.take() {
        Some(sockets) => sockets,
        None => match NodeSockets::open(proc_root) {
            Ok(sockets) => sockets,
            Err(error) => {
                tracing::debug!(%error, "can't tell probes from clients");
                return Origin::Forwarded;
            }
        },
    };
    match sockets.origin(connection) {
        Ok(origin) => {
            *node = Some(sockets);
            origin
        }
        Err(error) => {
            tracing::debug!(%error, "can't tell a probe from a client");
            Origin::Forwarded
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::looks;

    fn connection(cookie: u64) -> Connection {
        Connection { cookie, info: None, ..looks::connection(0, 0) }
    }

    /// How many are waited for that may be probes, after each look: (milliseconds, connections). All are the node's own.
    fn waited(looks: &[(u64, &[u64])]) -> Vec<u32> {
        let (mut connections, start) = (NodeConnections::default(), Instant::now());
        let look = |(at, cookies): &(u64, &[u64])| {
            let now = start + Duration::from_millis(*at);
            connections.begin();
            let new = |cookie: &&u64| connections.may_be_probe(&connection(**cookie), now, || Origin::Node);
            let may_be_probes = cookies.iter().filter(new).count();
            connections.end(u32::try_from(may_be_probes).unwrap(), now)
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn what_may_be_a_probe_is_waited_for_because_it_may_be_a_client_of_the_node() {
        assert_eq!(waited(&[(0, &[]), (250, &[1, 2]), (500, &[2]), (750, &[])]), [0, 2, 1, 0]);
    }

    #[test]
    fn who_was_there_before_or_stays_is_a_client() {
        assert_eq!(waited(&[(0, &[1]), (250, &[1, 2]), (2249, &[1, 2]), (2250, &[1, 2])]), [0, 1, 1, 0]);
    }

    #[test]
    fn probes_that_hang_are_not_waited_for() {
        let looks: [(u64, &[u64]); 5] = [(0, &[]), (100, &[1]), (1100, &[1, 2]), (3099, &[3]), (3100, &[3])];
        assert_eq!(waited(&looks), [0, 1, 2, 1, 0]);
        let answered: [(u64, &[u64]); 5] = [(0, &[]), (100, &[1]), (1100, &[]), (3100, &[3]), (4500, &[4])];
        assert_eq!(waited(&answered), [0, 1, 0, 1, 1]);
    }

    #[test]
    fn whose_packets_the_node_forwards_is_a_client() {
        let (mut connections, now) = (NodeConnections::default(), Instant::now());
        connections.begin();
        connections.end(0, now);
        connections.begin();
        assert!(!connections.may_be_probe(&connection(1), now, || Origin::Forwarded));
    }
}

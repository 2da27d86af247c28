//! Connections from the node itself: the kubelet's probes and other health checks.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use hitless_kernel::{Connection, NodeSockets, Origin};

/// A probe that takes longer is waited for like a client. Clients can't be mistaken for probes for longer either: a hostNetwork
/// proxy on the node has its sockets there, too. That few come meanwhile is what quiet says.
const PROBE_LASTS: Duration = Duration::from_secs(2);

/// Who has connected to a pod since it left.
#[derive(Default)]
pub(super) struct Guests {
    /// By the kernel's identity of the socket: when it was seen first, and where it comes from.
    known: HashMap<u64, Guest>,
    /// Of the look that is under way.
    seen: HashMap<u64, Guest>,
    has_looked: bool,
}

#[derive(Clone, Copy)]
struct Guest {
    since: Option<Instant>,
    origin: Origin,
}

impl Guests {
    /// Before a look at all connections.
    pub(super) fn begin(&mut self) {
        self.seen.clear();
    }

    /// After it: those that are gone are forgotten.
    pub(super) fn end(&mut self) {
        std::mem::swap(&mut self.known, &mut self.seen);
        self.has_looked = true;
    }

    /// Whether this is a probe rather than a client: it comes from a process of the node, where the kubelet is, and is new. A
    /// client whose packets the node translates has the node's address, and is none. In doubt it is a client.
    pub(super) fn is_probe(
        &mut self,
        proc_root: &Path,
        node: &mut Option<NodeSockets>,
        connection: &Connection,
        now: Instant,
    ) -> bool {
        let guest = self.known.get(&connection.cookie).copied().unwrap_or_else(|| Guest {
            // Who was there before the first look has been so for unknown time.
            since: self.has_looked.then_some(now),
            origin: if self.has_looked { origin(proc_root, node, connection) } else { Origin::Forwarded },
        });
        self.seen.insert(connection.cookie, guest);
        guest.origin == Origin::Node && guest.since.is_some_and(|since| now.duration_since(since) < PROBE_LASTS)
    }
}

fn origin(proc_root: &Path, node: &mut Option<NodeSockets>, connection: &Connection) -> Origin {
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

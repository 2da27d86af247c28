//! Requests in flight, while new clients are held: which connections are waited for, and which are closed kindly.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hitless_api::{DrainSpec, PortTreatment};
use hitless_kernel::{Activity, Connection, ConnectionWatch, KernelError, PodNetns, classify, close_unused};

use super::ambiguous::ambiguous_unused;

/// Between two attempts to close idle connections.
const CLOSE_EVERY: Duration = Duration::from_millis(25);
/// On a port that is not HTTP/1 a connection of which it can't be told whether a request is in flight counts as busy while
/// data has passed so recently.
const MOVING: Duration = Duration::from_millis(100);
/// On such a port a request that has not been answered for so long is not one that clients can be held for: it is rather a
/// message that has no answer.
const LONG: Duration = Duration::from_millis(1500);
/// The same for connections that one side has closed.
const CLOSING: Duration = Duration::from_secs(1);

/// The connections of a pod whose new clients are held.
pub(super) struct InFlight {
    drain: DrainSpec,
    ports: BTreeSet<u16>,
    watch: ConnectionWatch,
    /// Those on HTTP/1 ports.
    http1: Vec<Connection>,
    /// Those that are waited for, the former included.
    waited: Vec<Connection>,
    longest_busy: Duration,
    closed_at: Option<Instant>,
    /// Connections at the first look.
    pub(super) connections: Option<u32>,
    /// Connections closed kindly so far.
    pub(super) closed: u32,
}

impl InFlight {
    /// Of connections to these ports.
    pub(super) fn new(drain: DrainSpec, ports: &[u16]) -> Self {
        Self {
            drain,
            ports: ports.iter().copied().collect(),
            watch: ConnectionWatch::default(),
            http1: Vec::new(),
            waited: Vec::new(),
            longest_busy: Duration::ZERO,
            closed_at: None,
            connections: None,
            closed: 0,
        }
    }

    /// Looks, and closes what is idle. Says how many connections are waited for.
    pub(super) fn look(&mut self, netns: &PodNetns, now: Instant) -> Result<u32, KernelError> {
        self.list(netns)?;
        if !self.http1.is_empty() && self.closed_at.is_none_or(|at| now.duration_since(at) >= CLOSE_EVERY) {
            self.closed_at = Some(now);
            let report = close_unused(netns, &self.http1, ambiguous_unused(self.longest_busy))?;
            self.closed = self.closed.saturating_add(u32::try_from(report.closed).unwrap_or(u32::MAX));
            self.list(netns)?;
        }
        Ok(u32::try_from(self.waited.len()).unwrap_or(u32::MAX))
    }

    /// Those that are waited for, as of the last look.
    pub(super) fn waited(&self) -> &[Connection] {
        &self.waited
    }

    fn list(&mut self, netns: &PodNetns) -> Result<(), KernelError> {
        self.http1.clear();
        self.waited.clear();
        let connections = self.watch.look(netns)?.connections;
        let ours = |connection: &&Connection| self.ports.contains(&connection.local.port());
        let inbound: Vec<&Connection> = connections.inbound.iter().filter(ours).collect();
        self.connections.get_or_insert(u32::try_from(inbound.len()).unwrap_or(u32::MAX));
        for connection in inbound {
            let is_http1 = self.drain.treatment(connection.local.port()) == PortTreatment::Http1;
            if is_http1 {
                if classify(connection) == Activity::Busy {
                    self.longest_busy = self.longest_busy.max(connection.unused_for().unwrap_or_default());
                }
                self.http1.push(connection.clone());
            }
            if is_http1 || is_moving(connection) {
                self.waited.push(connection.clone());
            }
        }
        let is_closing = |connection: &&Connection| connection.silent_for().is_none_or(|silent| silent < CLOSING);
        self.waited.extend(connections.half_closed.iter().filter(ours).filter(is_closing).cloned());
        Ok(())
    }
}

/// Whether a connection of any protocol is being used just now. It is not waited for until its end, which may never come.
fn is_moving(connection: &Connection) -> bool {
    let unused = connection.unused_for().unwrap_or_default();
    match classify(connection) {
        Activity::Idle | Activity::Fresh => false,
        Activity::Busy => unused < LONG,
        Activity::Ambiguous => unused < MOVING,
    }
}

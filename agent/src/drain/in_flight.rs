//! Requests in flight, while new clients are held: which connections are waited for, and which are closed kindly.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hitless_api::{DrainSpec, PortTreatment};
use hitless_kernel::{
    Activity, Among, Connection, ConnectionWatch, KernelError, Look, PodNetns, TcpState, Within, classify, close_unused,
};

use super::ambiguous::ambiguous_unused;
use super::asked::{self, Asked};
use super::stragglers;

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

/// More connections are a crowd, of which nothing is kept; each held pod has its own.
const MOST: usize = 1024;
/// Of a crowd at most so many are closed or reset after one look.
const BATCH: usize = 4096;
/// Longest time in which all that are left are reset.
const RESETTING: Duration = Duration::from_secs(2);

/// The connections of a pod whose new clients are held.
pub(super) struct InFlight {
    drain: DrainSpec,
    ports: BTreeSet<u16>,
    watch: ConnectionWatch,
    seen: Seen,
    asked: Asked,
    longest_busy: Duration,
    closed_at: Option<Instant>,
    /// Cookies of those with a request that takes longer than clients can be held.
    long: BTreeSet<u64>,
    /// Connections at the first look.
    pub(super) connections: Option<u32>,
    /// Connections closed kindly so far.
    pub(super) closed: u32,
}

/// What one look saw.
#[derive(Default)]
struct Seen {
    inbound: u32,
    /// How many are waited for.
    waits: u32,
    is_crowd: bool,
    /// Those on HTTP/1 ports; of a crowd the first ones that may be closed.
    http1: Vec<Connection>,
    /// Those on HTTP/1 ports that were asked to end; of a crowd the first ones.
    asked: Vec<Connection>,
    /// Those of them that have had their time.
    overdue: Vec<Connection>,
    /// Those that are waited for, the former included; of a crowd the first ones.
    waited: Vec<Connection>,
}

impl InFlight {
    /// Of connections to these ports, those of other containers of the pod, too.
    pub(super) fn new(drain: DrainSpec, ports: &[u16], within: Within) -> Self {
        let mut watch = ConnectionWatch::new(MOST);
        watch.count_within(within);
        Self {
            drain,
            ports: ports.iter().copied().collect(),
            watch,
            seen: Seen::default(),
            asked: Asked::default(),
            longest_busy: Duration::ZERO,
            closed_at: None,
            long: BTreeSet::new(),
            connections: None,
            closed: 0,
        }
    }

    /// Looks, closes what is idle, and resets whoever was asked to end and does not. Says how many connections are waited for, and how
    /// many were reset.
    pub(super) fn look(&mut self, netns: &PodNetns, pod_uid: &str, now: Instant) -> Result<(u32, u32), KernelError> {
        self.list(netns)?;
        let overdue = std::mem::take(&mut self.seen.overdue);
        let reset = self.reset_all(netns, pod_uid, &overdue)?;
        if !self.seen.http1.is_empty() && self.closed_at.is_none_or(|at| now.duration_since(at) >= CLOSE_EVERY) {
            self.closed_at = Some(now);
            let http1 = std::mem::take(&mut self.seen.http1);
            let unused = ambiguous_unused(self.longest_busy);
            let report = self.asked.ask(&http1, |some| close_unused(netns, some, unused))?;
            if report.closed > 0 && report.closed < http1.len() {
                // What the first one shows is not waited for any longer than it takes.
                self.closed_at = None;
            }
            self.closed = self.closed.saturating_add(u32::try_from(report.closed).unwrap_or(u32::MAX));
            if report.closed > 0 {
                self.watch.hurry();
            }
            self.list(netns)?;
        }
        Ok((self.seen.waits, reset))
    }

    /// Settling is over: whoever was asked to end and has not is reset. Its server may be stopped for long, or serve on, and answers it no
    /// more. Says how many were.
    pub(super) fn reset_asked(&mut self, netns: &PodNetns, pod_uid: &str) -> Result<u32, KernelError> {
        let mut asked = std::mem::take(&mut self.seen.asked);
        // A request that takes long looks like an idle connection in the end. It is answered all the same.
        asked.retain(|connection| !has_request(connection));
        self.reset_all(netns, pod_uid, &asked)
    }

    /// Resets these, which were counted as closed kindly. Says how many were there.
    fn reset_all(&mut self, netns: &PodNetns, pod_uid: &str, asked: &[Connection]) -> Result<u32, KernelError> {
        let reset = stragglers::destroy(netns, pod_uid, asked)?;
        if reset > 0 {
            self.closed = self.closed.saturating_sub(reset);
            self.watch.hurry();
            self.list(netns)?;
        }
        Ok(reset)
    }

    /// Notes who is waited for on an HTTP/1 port, as of the last look, after as long as clients can be held. Says how many. On other ports
    /// nobody can tell a request from a conversation that never ends.
    pub(super) fn note_long(&mut self) -> u32 {
        let drain = &self.drain;
        let is_http1 = |port| drain.treatment(port) == PortTreatment::Http1;
        let long = self.seen.waited.iter().filter(|each| is_http1(each.local.port()) && has_request(each));
        self.long = long.map(|connection| connection.cookie).collect();
        u32::try_from(self.long.len()).unwrap_or(u32::MAX)
    }

    /// How many of those have not been answered yet. Nothing is closed.
    pub(super) fn look_at_long(&mut self, netns: &PodNetns) -> Result<usize, KernelError> {
        self.list(netns)?;
        let left = self.seen.waited.iter().filter(|each| self.long.contains(&each.cookie) && has_request(each));
        Ok(left.count())
    }

    /// Everybody, waited for or not, as far as there is time for them.
    pub(super) fn all(&mut self, netns: &PodNetns) -> Result<Vec<Connection>, KernelError> {
        let (mut all, ports) = (Vec::new(), &self.ports);
        let each = |connection: &Connection, _| {
            if ports.contains(&connection.local.port()) && all.len() < BATCH {
                all.push(connection.clone());
            }
        };
        self.watch.look(netns, each)?;
        Ok(all)
    }

    /// Resets all that are waited for, as of the last look. Says how many were there, and how many are left because there was
    /// no time for them.
    pub(super) fn reset(&mut self, netns: &PodNetns, pod_uid: &str) -> Result<(u32, u32), KernelError> {
        let begin = Instant::now();
        let mut destroyed: u32 = 0;
        loop {
            let waited = std::mem::take(&mut self.seen.waited);
            destroyed = destroyed.saturating_add(stragglers::destroy(netns, pod_uid, &waited)?);
            if !self.seen.is_crowd {
                return Ok((destroyed, 0));
            }
            self.watch.forget();
            self.list(netns)?;
            if self.seen.waits == 0 || begin.elapsed() >= RESETTING {
                return Ok((destroyed, self.seen.waits));
            }
        }
    }

    fn list(&mut self, netns: &PodNetns) -> Result<(), KernelError> {
        let mut seen = Seen::default();
        let (drain, ports, longest_busy) = (&self.drain, &self.ports, &mut self.longest_busy);
        let each = |connection: &Connection, among| {
            if ports.contains(&connection.local.port()) {
                seen.add(connection, among, drain, longest_busy);
            }
        };
        // Too early: what was seen last stands. Nobody is taken for settled by it who was not then.
        if self.watch.look(netns, each)? == Look::TooEarly {
            return Ok(());
        }
        let (asked, now) = (&mut self.asked, Instant::now());
        asked.begin();
        let is_overdue = |one: &&Connection| asked.is_overdue(one, asked::LASTS, now) && !is_being_answered(one);
        seen.overdue = seen.asked.iter().filter(is_overdue).cloned().collect();
        asked.end();
        self.connections.get_or_insert(seen.inbound);
        self.seen = seen;
        Ok(())
    }
}

impl Seen {
    fn add(&mut self, connection: &Connection, among: Among, drain: &DrainSpec, longest_busy: &mut Duration) {
        self.is_crowd |= among == Among::Crowd;
        if connection.state != TcpState::Established {
            if connection.silent_for().is_none_or(|silent| silent < CLOSING) {
                self.wait_for(connection);
            }
            return;
        }
        self.inbound = self.inbound.saturating_add(1);
        let is_http1 = drain.treatment(connection.local.port()) == PortTreatment::Http1;
        if is_http1 && connection.shut_for_reading {
            if self.asked.len() < BATCH {
                self.asked.push(connection.clone());
            }
        } else if is_http1 {
            let activity = classify(connection);
            if activity == Activity::Busy {
                *longest_busy = (*longest_busy).max(connection.unused_for().unwrap_or_default());
            }
            let may_be_closed = activity != Activity::Busy && connection.inode != 0 && self.http1.len() < BATCH;
            if !self.is_crowd || may_be_closed {
                self.http1.push(connection.clone());
            }
        }
        if is_http1 || is_moving(connection) {
            self.wait_for(connection);
        }
    }

    fn wait_for(&mut self, connection: &Connection) {
        self.waits = self.waits.saturating_add(1);
        if self.waited.len() < BATCH {
            self.waited.push(connection.clone());
        }
    }
}

/// Whether a connection of HTTP/1 has a request that was not answered, or may have.
fn has_request(connection: &Connection) -> bool {
    match classify(connection) {
        Activity::Idle | Activity::Fresh => false,
        Activity::Busy | Activity::Ambiguous => connection.state == TcpState::Established,
    }
}

/// Whether such a request has been read, or may have: of what nobody reads nobody answers anything.
fn is_being_answered(connection: &Connection) -> bool {
    connection.rqueue == 0 && has_request(connection)
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

//! One look at a pod's connections: how many there are of which kind, and which are to be ended.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hitless_api::{PortTreatment, StragglerPolicy};
use hitless_kernel::{Activity, Among, Connection, Origin, TcpState, classify, is_between_requests};

use super::answers::Answers;
use super::endless;
use super::node_connections::NodeConnections;
use super::target::{Stage, Target};
use crate::drain::ambiguous::ambiguous_unused;
use crate::drain::asked;
use crate::view::Count;

/// A connection that one side has closed is not waited for once nothing has passed for so long: with an application that forgets
/// them the pod would never be drained.
const HALF_CLOSED_LASTS: Duration = Duration::from_secs(30);
/// The other end of a connection is gone if it has acknowledged nothing so often in a row: 0.6 s and more.
const UNANSWERED: u8 = 2;
/// Of a crowd at most so many are closed or reset after one look.
const BATCH: usize = 8192;

/// What one look has seen so far. Of each connection a fixed number of bytes is kept at most, and of a crowd nothing but the next
/// ones to end.
///
/// In a crowd nobody is told from a probe, so each counts as a client; and no answer in pieces is told from an idle connection
/// except by a long silence.
pub(super) struct Tally<'a> {
    target: &'a Target,
    /// Ports on which only others listen than the containers that are replaced, as far as that is known.
    staying: Option<&'a BTreeSet<u16>>,
    /// Idle connections are to be closed, those of a crowd behind the first so many.
    closing: Option<usize>,
    now: Instant,
    answers: &'a mut Answers,
    nodes: &'a mut NodeConnections,
    origin: &'a mut dyn FnMut(&Connection) -> Origin,
    is_crowd: bool,
    may_be_probes: u32,
    idle: u32,
    busy: u32,
    unused: u32,
    unanswered: u32,
    longest_busy: Duration,
    /// Those on HTTP/1 ports that the pod's other containers have opened, a proxy for its clients for instance.
    siblings: Vec<Connection>,
    ends: Ends,
}

/// Connections that are to be ended.
pub(super) struct Ends {
    /// Those on HTTP/1 ports, to be closed between two requests.
    pub(super) http1: Vec<Connection>,
    /// The same of the pod's other containers, to be closed when its containers are replaced. Before, a proxy would open others for
    /// its clients.
    pub(super) siblings: Vec<Connection>,
    /// Those that were asked to end and have not ended in time, to be reset.
    pub(super) overdue: Vec<Connection>,
    /// All that are waited for, if they are to be reset.
    pub(super) waited: Vec<Connection>,
    /// There are no more of them to be closed behind these.
    pub(super) is_last_batch: bool,
}

impl Default for Ends {
    fn default() -> Self {
        Self { http1: Vec::new(), siblings: Vec::new(), overdue: Vec::new(), waited: Vec::new(), is_last_batch: true }
    }
}

/// What was seen.
pub(super) struct Tallied {
    /// The longest that a request was seen in flight.
    pub(super) longest_busy: Duration,
    /// One of the pod's other containers has a request in flight, or may have.
    pub(super) has_busy_sibling: bool,
    /// On so many nobody acknowledges any more what the pod sends.
    pub(super) unanswered: u32,
    /// Whom to end next.
    pub(super) ends: Ends,
}

impl<'a> Tally<'a> {
    /// Before a look. `closing`: idle connections are to be closed, those of a crowd behind the first so many. `origin` says where a connection comes from.
    pub(super) fn begin(
        target: &'a Target,
        staying: Option<&'a BTreeSet<u16>>,
        closing: Option<usize>,
        now: Instant,
        answers: &'a mut Answers,
        nodes: &'a mut NodeConnections,
        origin: &'a mut dyn FnMut(&Connection) -> Origin,
    ) -> Self {
        nodes.begin();
        answers.begin();
        Self {
            target,
            staying,
            closing,
            now,
            answers,
            nodes,
            origin,
            is_crowd: false,
            may_be_probes: 0,
            idle: 0,
            busy: 0,
            unused: 0,
            unanswered: 0,
            longest_busy: Duration::ZERO,
            siblings: Vec::new(),
            ends: Ends::default(),
        }
    }

    /// Counts one.
    pub(super) fn add(&mut self, connection: &Connection, among: Among) {
        if among == Among::Crowd && !self.is_crowd {
            self.is_crowd = true;
            self.answers.forget();
            // Who is there when the crowd has gone may have been there for long: no probe.
            *self.nodes = NodeConnections::default();
        }
        if connection.state == TcpState::Established {
            self.add_open(connection);
        } else {
            self.add_half_closed(connection);
        }
    }

    /// How it is treated; `None`: nobody waits for it.
    ///
    /// What a container accepts that stays outlives the restart. A proxy may have its clients' requests answered by the containers
    /// that are replaced, so its HTTP/1 connections are closed all the same: that costs nothing. Others may be a mesh's pool, which
    /// never ends.
    fn treatment(&self, connection: &Connection) -> Option<PortTreatment> {
        let port = connection.local.port();
        match self.target.drain.treatment(port) {
            PortTreatment::Ignore | PortTreatment::Udp => None,
            PortTreatment::Http1 => Some(PortTreatment::Http1),
            treatment @ (PortTreatment::Http2 | PortTreatment::Tcp) => {
                self.staying.is_none_or(|staying| !staying.contains(&port)).then_some(treatment)
            }
        }
    }

    fn add_open(&mut self, connection: &Connection) {
        let may_be_probe = !self.is_crowd && {
            let origin = &mut self.origin;
            self.nodes.may_be_probe(connection, self.now, || origin(connection))
        };
        let Some(treatment) = self.treatment(connection) else { return };
        self.unanswered += u32::from(connection.info.is_some_and(|info| info.timeouts >= UNANSWERED));
        if may_be_probe && self.target.stage != Stage::Leaving {
            self.may_be_probes += 1;
            return;
        }
        if treatment != PortTreatment::Http1 && (self.is_unused(connection) || self.is_endless(connection)) {
            self.unused += 1;
            return;
        }
        // Until it has been sent it is waited for, as on any other port.
        let is_http1 = treatment == PortTreatment::Http1 && !self.is_being_sent(connection);
        if is_http1 && !self.is_crowd && connection.is_from_pod_itself() {
            self.siblings.push(connection.clone());
            return;
        }
        self.count_open(connection, is_http1);
        if treatment == PortTreatment::Http1 && connection.shut_for_reading {
            self.note_asked(connection);
        } else if is_http1 {
            self.note_http1(connection);
        }
    }

    fn count_open(&mut self, connection: &Connection, is_http1: bool) {
        match classify(connection) {
            Activity::Idle | Activity::Fresh if is_http1 => self.idle += 1,
            Activity::Busy if is_http1 => {
                self.busy += 1;
                self.longest_busy = self.longest_busy.max(connection.unused_for().unwrap_or_default());
            }
            Activity::Idle | Activity::Fresh | Activity::Busy | Activity::Ambiguous => self.busy += 1,
        }
        self.note_waited(connection);
    }

    fn add_half_closed(&mut self, connection: &Connection) {
        let is_old = connection.silent_for().is_some_and(|silent| silent >= HALF_CLOSED_LASTS);
        if !is_old && self.treatment(connection).is_some() {
            self.busy += 1;
            self.note_waited(connection);
        }
    }

    /// Whether nobody has used the connection for as long as the policy says.
    fn is_unused(&self, connection: &Connection) -> bool {
        let idle_after = self.target.drain.idle_after_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        idle_after.zip(connection.unused_for()).is_some_and(|(idle_after, quiet)| quiet >= idle_after)
    }

    /// Whether waiting does not end it. Owners of other policies, or of a time of their own, have it waited for all the same.
    fn is_endless(&mut self, connection: &Connection) -> bool {
        let drain = &self.target.drain;
        if drain.stragglers != StragglerPolicy::Close || drain.has_straggler_time_of_its_own() {
            return false;
        }
        let is_silent = drain.idle_after_seconds.is_none() && endless::is_silent(connection);
        is_silent || !self.is_crowd && self.answers.endless.is_exchange(connection, self.now)
    }

    fn is_being_sent(&mut self, connection: &Connection) -> bool {
        !self.is_crowd && self.answers.is_being_sent(connection, self.now)
    }

    fn note_http1(&mut self, connection: &Connection) {
        let Some(to_skip) = &mut self.closing else { return };
        // Of a few all are kept, for the look right before they are closed is a better one.
        if !self.is_crowd {
            return self.ends.http1.push(connection.clone());
        }
        // One without an inode is not accepted yet, so nobody can be told that its client is done.
        let is_over = classify(connection) != Activity::Busy && self.answers.is_over(connection, self.now);
        if connection.inode == 0 || !is_over {
            return;
        }
        if *to_skip > 0 {
            *to_skip -= 1;
        } else if self.ends.http1.len() < BATCH {
            self.ends.http1.push(connection.clone());
        } else {
            self.ends.is_last_batch = false;
        }
    }

    /// Asked once, it is asked no more.
    fn note_asked(&mut self, connection: &Connection) {
        let lasts = match self.target.stage {
            Stage::Leaving | Stage::Draining | Stage::Destroying => asked::LASTS,
            // Its server is about to be stopped, which may take long.
            Stage::Replacing => Duration::ZERO,
        };
        if self.answers.asked.is_overdue(connection, lasts, self.now) && self.ends.overdue.len() < BATCH {
            self.ends.overdue.push(connection.clone());
        }
    }

    fn note_waited(&mut self, connection: &Connection) {
        if self.target.stage == Stage::Destroying && self.ends.waited.len() < BATCH {
            self.ends.waited.push(connection.clone());
        }
    }

    /// Says whether a sibling has a request in flight, or may have: then all its connections are waited for. If none has, none is:
    /// a proxy keeps idle ones for as long as it has clients. `longest_busy` is the longest that a request was seen in flight before.
    fn end_siblings(&mut self, longest_busy: Duration) -> bool {
        let siblings = std::mem::take(&mut self.siblings);
        let unused = ambiguous_unused(longest_busy.max(self.longest_busy));
        let is_over = |sibling| is_between_requests(sibling, unused) && self.answers.is_over(sibling, self.now);
        let has_busy = !siblings.iter().all(is_over);
        if has_busy {
            for sibling in &siblings {
                self.count_open(sibling, true);
            }
        }
        self.ends.siblings = siblings;
        has_busy
    }

    /// After the look: puts its numbers into `count`. `longest_busy`: that a request was seen in flight at the looks before.
    pub(super) fn end(mut self, longest_busy: Duration, count: &mut Count) -> Tallied {
        let has_busy_sibling = self.end_siblings(longest_busy);
        self.answers.end();
        count.perhaps_probes = if self.is_crowd { 0 } else { self.nodes.end(self.may_be_probes, self.now) };
        (count.idle, count.busy, count.unused) = (self.idle, self.busy, self.unused);
        count.inbound = self.busy.saturating_add(self.idle);
        count.most = count.most.max(count.inbound.saturating_add(self.unused));
        let Self { unanswered, ends, .. } = self;
        Tallied { longest_busy: longest_busy.max(self.longest_busy), has_busy_sibling, unanswered, ends }
    }
}

#[cfg(test)]
mod tests;

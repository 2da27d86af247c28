//! One pod that is looked at.

mod answers;
mod ending;
mod endless;
mod losses;
mod node_connections;
mod tally;
mod target;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use hitless_kernel::{Connection, ConnectionWatch, DestroyEvents, KernelError, Look, NodeSockets, PodNetns};
use jiff::Timestamp;
use rustix::fd::{AsFd as _, BorrowedFd};

use super::quiet::Quiet;
use super::restart::Restart;
use super::stragglers;
use super::{ensure_listened, ensure_no_sctp};
use crate::view::{Count, Observation};
use answers::Answers;
use losses::LossWatch;
use node_connections::NodeConnections;
use tally::{Ends, Tally};
pub use target::{Stage, Target};

/// Between two looks at what is about to happen.
const FINE: Duration = Duration::from_millis(5);
/// After so long without any change it is calm.
const CALM: Duration = Duration::from_secs(2);
/// As long as nothing depends on a single look.
const COARSE: Duration = Duration::from_millis(20);
/// The known connections are looked at at least this often; they may change without any of them ending.
const LIST_EVERY: Duration = Duration::from_millis(250);
/// Between two attempts to close idle connections ...
const CLOSE_EVERY: Duration = Duration::from_millis(25);
/// ... and when it is calm: they have been busy for long.
const CALM_CLOSE_EVERY: Duration = Duration::from_millis(100);
/// After a failure.
const RETRY: Duration = Duration::from_millis(250);
/// When there is nothing left to see.
const IDLE: Duration = Duration::from_mins(1);

/// One pod that is looked at.
pub(super) struct Observed {
    uid: String,
    target: Target,
    netns: Option<PodNetns>,
    /// Somebody was seen to listen there, where that is asked.
    has_listened: bool,
    /// From when on only ends of connections are waited for; without it the counters are read again and again.
    destroy_events: Option<DestroyEvents>,
    start: Instant,
    quiet: Quiet,
    /// The same of datagrams, where a port is UDP.
    udp: Option<Quiet>,
    established: u64,
    /// Connections accepted when the pod had left.
    accepted: Option<u64>,
    /// When quiet or the number of connections changed last.
    changed: Instant,
    looked: Option<Instant>,
    listed: Option<Instant>,
    closed_at: Option<Instant>,
    watch: ConnectionWatch,
    node_connections: NodeConnections,
    answers: Answers,
    restart: Option<Restart>,
    count: Count,
    losses: LossWatch,
    /// Who is to be closed or reset next.
    ends: Ends,
    /// So many of a crowd that could not be closed are passed over, once.
    skipped: usize,
    /// The longest that a request was seen in flight: a lower bound of the longest there are.
    longest_busy: Duration,
    /// Another container of the pod had a request in flight, or may have had: nothing but a look tells when it has none.
    has_busy_sibling: bool,
    /// When to look again.
    pub(super) next: Instant,
}

impl Observed {
    pub(super) fn new(uid: String, target: Target, now: Instant) -> Self {
        let mut observed = Self {
            uid,
            quiet: Quiet::new(&target.probe_periods),
            udp: None,
            target,
            netns: None,
            has_listened: false,
            destroy_events: None,
            start: now,
            established: 0,
            accepted: None,
            changed: now,
            looked: None,
            listed: None,
            closed_at: None,
            watch: ConnectionWatch::default(),
            node_connections: NodeConnections::default(),
            answers: Answers::default(),
            restart: None,
            count: Count::default(),
            losses: LossWatch::default(),
            ends: Ends::default(),
            skipped: 0,
            longest_busy: Duration::ZERO,
            has_busy_sibling: false,
            next: now,
        };
        observed.forget_quiet();
        observed
    }

    /// More connections than that are a crowd, of which nothing is kept.
    pub(super) fn limit(&mut self, most: usize) {
        self.watch.limit(most);
    }

    /// Takes a changed target. What came before the pod was NotReady says nothing about quiet.
    pub(super) fn follow(&mut self, target: Target, now: Instant) {
        if self.target == target {
            return;
        }
        let before = std::mem::replace(&mut self.target, target);
        let was_leaving = before.stage == Stage::Leaving;
        let is_leaving = self.target.stage == Stage::Leaving;
        let is_other = before.drain != self.target.drain || before.probe_periods != self.target.probe_periods;
        if was_leaving != is_leaving || is_other {
            self.forget_quiet();
        }
        // Who is to be reset has not been listed yet.
        self.watch.hurry();
        self.changed = now;
        self.next = now;
    }

    fn forget_quiet(&mut self) {
        self.quiet = Quiet::new(&self.target.probe_periods);
        self.udp = self.target.udp.then(|| Quiet::new(&[]));
        self.count.quiet = false;
        self.destroy_events = None;
    }

    /// Readable when a connection has ended.
    pub(super) fn destroy_events(&self) -> Option<BorrowedFd<'_>> {
        self.destroy_events.as_ref().map(|events| events.as_fd())
    }

    /// Looks soon if a connection has ended, but not again and again: a pod may close thousands of its own a second.
    pub(super) fn note_ends(&mut self, now: Instant) {
        let Some(events) = &self.destroy_events else { return };
        match events.clear() {
            Ok(false) => {}
            Ok(true) => {
                let soon = self.looked.map_or(now, |looked| now.max(looked + FINE));
                self.next = self.next.min(soon);
            }
            Err(error) => {
                tracing::debug!(pod_uid = self.uid, %error, "can't see connections end");
                self.destroy_events = None;
                self.next = now;
            }
        }
    }

    /// Looks, and closes what is idle. A failure is an answer too.
    pub(super) fn look(&mut self, proc_root: &Path, node: &mut Option<NodeSockets>, now: Instant) -> Observation {
        self.looked = Some(now);
        match self.try_look(proc_root, node, now) {
            Ok(()) => {
                self.next = now + self.pause(now);
                // By an agent that was restarted while containers are being replaced nothing was counted.
                if self.listed.is_some() { Observation::Counted(self.count) } else { Observation::None }
            }
            Err(error) => {
                // What the namespace was is not certain any more; quiet must be shown anew.
                (self.netns, self.has_listened) = (None, false);
                self.watch.forget();
                (self.ends, self.losses, self.count.losses) = (Ends::default(), LossWatch::default(), None);
                self.forget_quiet();
                self.next = now + RETRY;
                Observation::Failed(error.to_string())
            }
        }
    }

    fn pause(&self, now: Instant) -> Duration {
        match self.target.stage {
            Stage::Replacing if self.restart.is_none() || self.count.listening.is_some() => IDLE,
            Stage::Replacing if self.is_calm(now) => COARSE,
            Stage::Replacing => FINE,
            Stage::Leaving | Stage::Draining | Stage::Destroying => self.pause_between_counts(now),
        }
    }

    fn pause_between_counts(&self, now: Instant) -> Duration {
        if !self.count.quiet {
            COARSE
        } else if self.destroy_events.is_none() || self.count.unlisted {
            // Nothing tells when the last one has ended, or which others there are.
            FINE
        } else if self.has_busy_sibling {
            CLOSE_EVERY
        } else if !self.answers.asked.is_empty() {
            COARSE
        } else if self.ends.http1.is_empty() {
            LIST_EVERY
        } else {
            self.close_every(now)
        }
    }

    fn is_calm(&self, now: Instant) -> bool {
        now.duration_since(self.changed) >= CALM
    }

    fn close_every(&self, now: Instant) -> Duration {
        if self.is_calm(now) { CALM_CLOSE_EVERY } else { CLOSE_EVERY }
    }

    fn try_look(&mut self, proc_root: &Path, node: &mut Option<NodeSockets>, now: Instant) -> Result<(), KernelError> {
        let netns = match self.netns.take() {
            Some(netns) => netns,
            None => PodNetns::open(proc_root, &self.uid)?,
        };
        if self.target.stage == Stage::Replacing {
            self.close_siblings(&netns, now);
            self.end_asked(proc_root, &netns, node, now)?;
            if let Some(restart) = &mut self.restart {
                // Nobody is held here, so nobody waits on any port.
                self.count.listening = restart.look(&netns, &BTreeSet::new())?;
            }
        } else {
            self.count_all(proc_root, &netns, node, now)?;
        }
        self.netns = Some(netns);
        Ok(())
    }

    fn count_all(
        &mut self,
        proc_root: &Path,
        netns: &PodNetns,
        node: &mut Option<NodeSockets>,
        now: Instant,
    ) -> Result<(), KernelError> {
        ensure_no_sctp(&self.uid, self.target.sctp)?;
        // Whose listeners were seen once has a network stack that can be seen, and may stop listening before its connections end.
        if !self.has_listened {
            ensure_listened(netns, &self.uid, self.target.must_listen)?;
            self.has_listened = self.target.must_listen;
        }
        let counters = netns.counters()?;
        let was_quiet = self.count.quiet;
        if self.target.stage != Stage::Leaving {
            self.look_for_quiet(netns, counters.passive_opens, now)?;
            if self.restart.is_none() {
                self.note_processes(proc_root, netns)?;
            }
        }
        if self.count.quiet && !was_quiet {
            // Nor has who is to be closed.
            self.watch.hurry();
        }
        let is_due = self.listed.is_none_or(|listed| now.duration_since(listed) >= LIST_EVERY);
        // While connections come and go all the time there is nothing to be seen in each change.
        let has_changed = self.count.quiet && (!was_quiet || self.established != counters.curr_estab);
        let is_last = self.target.stage == Stage::Destroying;
        let has_asked = !self.answers.asked.is_empty();
        if is_due || has_changed || self.count.unlisted || self.has_busy_sibling || has_asked || is_last {
            self.list(proc_root, netns, node, now)?;
        }
        self.losses.look(self.target.stage, counters.resets, &mut self.count, now);
        if self.established != counters.curr_estab || self.count.quiet != was_quiet {
            self.changed = now;
        }
        self.established = counters.curr_estab;
        if self.target.stage != Stage::Leaving && self.reset_overdue(netns)? {
            self.list_after(true, proc_root, netns, node, now)?;
        }
        let ends = std::mem::take(&mut self.ends);
        if is_last && !ends.waited.is_empty() {
            let destroyed = stragglers::destroy(netns, &self.uid, &ends.waited)?;
            self.count.destroyed = self.count.destroyed.saturating_add(destroyed);
            drop(ends);
            self.list_after(destroyed > 0, proc_root, netns, node, now)?;
        } else if self.count.quiet
            && !ends.http1.is_empty()
            && self.closed_at.is_none_or(|at| now.duration_since(at) >= self.close_every(now))
        {
            self.closed_at = Some(now);
            // Which of them are idle is asked again right before.
            let report = self.ask(netns, &ends.http1, now)?;
            self.skipped = if ends.is_last_batch { 0 } else { self.skipped + report.busy + report.unowned };
            drop(ends);
            self.list_after(report.closed > 0, proc_root, netns, node, now)?;
        } else {
            self.ends = ends;
        }
        Ok(())
    }

    fn look_for_quiet(&mut self, netns: &PodNetns, accepted: u64, now: Instant) -> Result<(), KernelError> {
        let time = now.duration_since(self.start);
        self.quiet.look(time, accepted);
        if let Some(udp) = &mut self.udp {
            udp.look(time, netns.udp_counters()?.datagrams);
        }
        if !self.quiet.is_quiet() || !self.quiet.has_come() {
            self.count.came_until = None;
        } else if self.count.came_until.is_none() {
            self.count.came_until = Timestamp::now().checked_sub(Quiet::WINDOW).ok();
        }
        self.count.quiet = self.quiet.is_quiet() && self.udp.as_ref().is_none_or(Quiet::is_quiet);
        let before = *self.accepted.get_or_insert(accepted);
        self.count.newcomers = u32::try_from(accepted.saturating_sub(before)).unwrap_or(u32::MAX);
        Ok(())
    }

    /// Where the containers listen, without which nobody can tell whose connections count.
    fn note_processes(&mut self, proc_root: &Path, netns: &PodNetns) -> Result<(), KernelError> {
        let Target { containers, drain, .. } = &self.target;
        let restart = Restart::note(proc_root, &self.uid, netns, containers, &BTreeSet::new(), drain)?;
        self.watch.count_within(restart.within());
        self.restart = Some(restart);
        Ok(())
    }

    /// Without it nothing is lost but processor time.
    fn subscribe(&mut self, netns: &PodNetns) {
        match netns.destroy_events() {
            Ok(events) => self.destroy_events = Some(events),
            Err(error) => tracing::debug!(pod_uid = self.uid, %error, "can't see connections end"),
        }
    }

    fn list(
        &mut self,
        proc_root: &Path,
        netns: &PodNetns,
        node: &mut Option<NodeSockets>,
        now: Instant,
    ) -> Result<(), KernelError> {
        // Before the look: what ends right after it is told of.
        if self.count.quiet && self.destroy_events.is_none() {
            self.subscribe(netns);
        }
        self.listed = Some(now);
        let mut origin = |connection: &Connection| node_connections::origin(proc_root, node, connection);
        let Self { target, answers, node_connections, restart, watch, count, skipped, longest_busy, .. } = self;
        let closing = count.quiet.then_some(*skipped);
        let staying = restart.as_ref().map(Restart::staying);
        let mut tally = Tally::begin(target, staying, closing, now, answers, node_connections, &mut origin);
        let Look::Counted { is_complete } = watch.look(netns, |connection, among| tally.add(connection, among))? else {
            // What was counted stands until it can be counted anew, and is not all there is.
            count.unlisted = true;
            return Ok(());
        };
        let tallied = tally.end(*longest_busy, count);
        count.unlisted = !is_complete;
        (self.longest_busy, self.has_busy_sibling) = (tallied.longest_busy, tallied.has_busy_sibling);
        (self.losses.unanswered, self.ends) = (tallied.unanswered, tallied.ends);
        Ok(())
    }
}

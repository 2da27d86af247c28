//! One pod that is looked at.

use std::path::Path;
use std::time::{Duration, Instant};

use hitless_api::{DrainSpec, PortTreatment};
use hitless_kernel::{Connection, KernelError, PodNetns, Use, classify, close_quiet};

use super::quiet::Quiet;
use crate::view::{Count, Observation};

/// How a pod is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The pod reports NotReady: new connections must stop, and idle ones may be closed. Before, they are only counted.
    pub draining: bool,
    /// Treatment of its ports.
    pub drain: DrainSpec,
    /// Seconds between two probes, for each probe that opens a connection.
    pub probe_periods: Vec<u32>,
}

/// While no new connections come, the end of the last one is seen within this time. A look takes some 30 µs.
const FINE: Duration = Duration::from_millis(5);
/// The same when nothing has changed for [`CALM`]: somebody stays for long, and a look costs more than it finds.
const CALM_FINE: Duration = Duration::from_millis(10);
/// After so long without any change it is calm.
const CALM: Duration = Duration::from_secs(2);
/// Until then nothing depends on a single look.
const COARSE: Duration = Duration::from_millis(20);
/// A list of all connections at least this often; they may change without their number changing.
const LIST_EVERY: Duration = Duration::from_millis(250);
/// Between two attempts to close idle connections.
const CLOSE_EVERY: Duration = Duration::from_millis(25);
/// A connection of which it can't be told whether it is idle counts as idle after a time without data: three times the longest
/// that a request of this pod was seen in flight, but at least so long ...
const AMBIGUOUS_QUIET_LEAST: Duration = Duration::from_millis(40);
/// ... and at most so long.
const AMBIGUOUS_QUIET_MOST: Duration = Duration::from_secs(1);
/// After a failure.
const RETRY: Duration = Duration::from_millis(250);

/// One pod that is looked at.
pub(super) struct Observed {
    uid: String,
    order: Order,
    netns: Option<PodNetns>,
    start: Instant,
    quiet: Quiet,
    established: u64,
    /// When quiet or the number of connections changed last.
    changed: Instant,
    listed: Option<Instant>,
    closed_at: Option<Instant>,
    count: Count,
    idle: Vec<Connection>,
    /// The longest that a request was seen in flight: a lower bound of the longest there are.
    longest_busy: Duration,
    /// When to look again.
    pub(super) next: Instant,
}

impl Observed {
    pub(super) fn new(uid: String, order: Order, now: Instant) -> Self {
        let quiet = Quiet::new(&order.probe_periods);
        Self {
            uid,
            order,
            netns: None,
            start: now,
            quiet,
            established: 0,
            changed: now,
            listed: None,
            closed_at: None,
            count: Count::default(),
            idle: Vec::new(),
            longest_busy: Duration::ZERO,
            next: now,
        }
    }

    /// Takes a changed order. What came before the pod was NotReady says nothing about quiet.
    pub(super) fn follow(&mut self, order: Order, now: Instant) {
        if self.order != order {
            self.quiet = Quiet::new(&order.probe_periods);
            self.count.quiet = false;
            self.order = order;
            self.next = now;
        }
    }

    /// Looks, and closes what is idle. A failure is an answer too.
    pub(super) fn look(&mut self, proc_root: &Path, now: Instant) -> Observation {
        match self.try_look(proc_root, now) {
            Ok(()) => {
                self.next = now + self.pause(now);
                Observation::Counted(self.count)
            }
            Err(error) => {
                // What the namespace was is not certain any more; quiet must be shown anew.
                self.netns = None;
                self.quiet = Quiet::new(&self.order.probe_periods);
                self.count.quiet = false;
                self.next = now + RETRY;
                Observation::Failed(error.to_string())
            }
        }
    }

    fn pause(&self, now: Instant) -> Duration {
        match self.count.quiet {
            false => COARSE,
            true if now.duration_since(self.changed) < CALM => FINE,
            true => CALM_FINE,
        }
    }

    fn try_look(&mut self, proc_root: &Path, now: Instant) -> Result<(), KernelError> {
        let netns = match self.netns.take() {
            Some(netns) => netns,
            None => PodNetns::open(proc_root, &self.uid)?,
        };
        let counters = netns.counters()?;
        if self.order.draining {
            self.quiet.look(now.duration_since(self.start), counters.passive_opens);
        }
        let was_quiet = self.count.quiet;
        self.count.quiet = self.quiet.is_quiet();
        let is_due = self.listed.is_none_or(|listed| now.duration_since(listed) >= LIST_EVERY);
        // While connections come and go all the time there is nothing to be seen in each change.
        let has_changed = self.count.quiet && (!was_quiet || self.established != counters.curr_estab);
        if is_due || has_changed {
            self.list(&netns, now)?;
        }
        if self.established != counters.curr_estab || self.count.quiet != was_quiet {
            self.changed = now;
        }
        self.established = counters.curr_estab;
        if self.count.quiet && self.closed_at.is_none_or(|at| now.duration_since(at) >= CLOSE_EVERY) {
            self.close(&netns, now)?;
        }
        self.netns = Some(netns);
        Ok(())
    }

    fn list(&mut self, netns: &PodNetns, now: Instant) -> Result<(), KernelError> {
        let connections = netns.connections()?;
        let (mut busy, mut idle) = (0, 0);
        self.idle.clear();
        for connection in connections.inbound {
            match self.order.drain.treatment(connection.local.port()) {
                PortTreatment::Ignore | PortTreatment::Udp => {}
                PortTreatment::Http2 | PortTreatment::Tcp => busy += 1,
                PortTreatment::Http1 => {
                    match classify(&connection) {
                        Use::Idle | Use::Fresh => idle += 1,
                        Use::Ambiguous => busy += 1,
                        Use::Busy => {
                            busy += 1;
                            self.longest_busy = self.longest_busy.max(connection.quiet_for().unwrap_or_default());
                        }
                    }
                    self.idle.push(connection);
                }
            }
        }
        self.count.inbound = busy + idle;
        self.count.busy = busy;
        self.count.idle = idle;
        self.count.most = self.count.most.max(self.count.inbound);
        self.listed = Some(now);
        Ok(())
    }

    /// Closes idle connections on HTTP/1 ports; which those are is asked again right before.
    fn close(&mut self, netns: &PodNetns, now: Instant) -> Result<(), KernelError> {
        if self.idle.is_empty() {
            return Ok(());
        }
        self.closed_at = Some(now);
        let report = close_quiet(netns, &self.idle, ambiguous_quiet(self.longest_busy))?;
        self.count.closed = self.count.closed.saturating_add(u32::try_from(report.closed).unwrap_or(u32::MAX));
        self.list(netns, now)
    }
}

/// After how long without data a connection counts as idle of which nothing better is known. The kernel's ages are too coarse to
/// tell the order of a request and a response within 4 ms, and for a quick server that is every one.
fn ambiguous_quiet(longest_busy: Duration) -> Duration {
    longest_busy.saturating_mul(3).clamp(AMBIGUOUS_QUIET_LEAST, AMBIGUOUS_QUIET_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ambiguous_is_waited_for_three_times_as_long_as_a_request_took_within_bounds() {
        for (busy, quiet) in [(0, 40), (10, 40), (20, 60), (200, 600), (5000, 1000)] {
            assert_eq!(ambiguous_quiet(Duration::from_millis(busy)), Duration::from_millis(quiet), "{busy} ms");
        }
    }
}

//! One Hold: from the open sockets to the new listener.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hitless_api::StragglerPolicy;
use hitless_kernel::{HoldOrder, KernelError, PodNetns, SynHold, sweep_holds};

use super::holder::{Order, Seat};
use super::restart::Restart;
use super::settle::Settle;
use super::stragglers;
use crate::decision::Hold;
use crate::view::{Held, HoldNumbers, Listening, Stage};

/// Between two looks for the new listener while clients wait and the old process has ended. A look costs some 15 µs, and the
/// kernel has no event for it.
const FINE: Duration = Duration::from_millis(1);
/// The same while the old process runs.
const MEDIUM: Duration = Duration::from_millis(4);
/// The same when nobody waits any more.
const COARSE: Duration = Duration::from_millis(10);
/// How often the kernel is asked since when clients have been held.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// Between two looks at requests in flight.
const SETTLE_EVERY: Duration = Duration::from_millis(5);
/// Longest wait for the application to accept what is in its queue; usually 1 to 4 ms.
const QUEUE: Duration = Duration::from_millis(200);
/// Longest wait for requests in flight, and never more than half of the cap: the restart needs the rest.
const SETTLE_MOST: Duration = Duration::from_millis(1500);
/// The block ends after so long even if no client comes.
const EXPIRES: Duration = Duration::from_secs(20);
/// A pod's namespace that can't be opened may be about to be made; so often it is tried again ...
const ATTEMPTS: u32 = 3;
/// ... after so long.
const RETRY: Duration = Duration::from_millis(250);
/// How long a thread waits for the next word at once; it is woken when there is one.
const LONG: Duration = Duration::from_hours(1);

/// What the way back knows from the way there.
#[derive(Default)]
pub(super) struct Known {
    /// Where the containers listened: clients come there even if nobody listens now.
    ports: BTreeSet<u16>,
}

/// Carries out one operation's Hold, until that operation is over.
pub(super) fn run(seat: &Seat<'_>, known: &mut Known) {
    let Some(order) = seat.order() else { return };
    if matches!(order.hold, Hold::Keep(_)) {
        return leave_to_timers(seat, &order);
    }
    let Some(mut cycle) = open(seat, &order, known) else { return };
    cycle.note(Stage::Prepared(cycle.restart.ports().len()));
    match seat.wait_for(LONG, |hold| !matches!(hold, Hold::Prepare(_))) {
        None => return,
        Some(order) if matches!(order.hold, Hold::Park(_)) && !cycle.restart.ports().is_empty() => {
            if let Err(error) = cycle.park() {
                cycle.note(Stage::Failed(error.to_string()));
            } else {
                cycle.hold_until_the_end();
            }
        }
        Some(_) => {}
    }
    cycle.watch_listeners();
}

/// This process holds nothing, but one that was killed may have: the kernel's timers let its clients in.
fn leave_to_timers(seat: &Seat<'_>, order: &Order) {
    let cap = Duration::from_millis(order.drain.hold_cap_milliseconds.into());
    seat.wait_for(cap, |hold| !matches!(hold, Hold::Keep(_)));
    match PodNetns::open(seat.proc_root(), seat.uid).and_then(|netns| sweep_holds(&netns)) {
        Ok(swept) if swept.is_empty() => {}
        Ok(swept) => tracing::info!(pod_uid = seat.uid, tables = swept.join(", "), "removed an earlier agent's block"),
        Err(error) => tracing::debug!(pod_uid = seat.uid, %error, "can't look for an earlier agent's block"),
    }
    seat.wait_for(LONG, |hold| !matches!(hold, Hold::Keep(_)));
}

fn open<'a>(seat: &'a Seat<'a>, order: &Order, known: &mut Known) -> Option<Cycle<'a>> {
    let mut failures = 0;
    loop {
        let error = match Cycle::open(seat, order, known) {
            Ok(cycle) => return Some(cycle),
            Err(error) => error,
        };
        failures += 1;
        if failures >= ATTEMPTS {
            let (numbers, stage) = (HoldNumbers::default(), Stage::Failed(error.to_string()));
            seat.note(Held { direction: seat.direction, stage, numbers, listening: None });
        }
        seat.wait_for(RETRY, |_| false)?;
    }
}

/// One pod's sockets while its new connections are held.
struct Cycle<'a> {
    seat: &'a Seat<'a>,
    order: Order,
    netns: PodNetns,
    hold: SynHold,
    restart: Restart,
    parked: Instant,
    numbers: HoldNumbers,
    listening: Option<Listening>,
    /// The cap was over while the old process ran: clients are held once more when it has ended, or at this time.
    again: Option<Instant>,
}

impl<'a> Cycle<'a> {
    fn open(seat: &'a Seat<'a>, order: &Order, known: &mut Known) -> Result<Self, KernelError> {
        let netns = PodNetns::open(seat.proc_root(), seat.uid)?;
        sweep_holds(&netns)?;
        let (proc_root, drain) = (seat.proc_root(), &order.drain);
        let restart = Restart::note(proc_root, seat.uid, &netns, &order.containers, &known.ports, drain)?;
        known.ports.extend(restart.ports());
        let hold = SynHold::open(&netns)?;
        let (order, numbers) = (order.clone(), HoldNumbers::default());
        Ok(Self { seat, order, netns, hold, restart, parked: Instant::now(), numbers, listening: None, again: None })
    }

    fn note(&self, stage: Stage) {
        let Self { seat, numbers, listening, .. } = *self;
        seat.note(Held { direction: seat.direction, stage, numbers, listening });
    }

    fn cap(&self) -> Duration {
        Duration::from_millis(self.order.drain.hold_cap_milliseconds.max(1).into())
    }

    fn park(&mut self) -> Result<(), KernelError> {
        let ports = self.restart.ports().to_vec();
        self.parked = Instant::now();
        self.hold.park(HoldOrder { ports, cap: self.cap(), expires_after: EXPIRES, exempt: Vec::new() })
    }

    /// Clients are held: whatever happens, they are let in in the end.
    fn hold_until_the_end(&mut self) {
        if let Some(left) = self.settle(|cycle, waited| cycle.note(Stage::Settling(waited))) {
            self.numbers.left = left;
            self.note(Stage::Settled(left));
            let patched = Instant::now();
            self.await_listeners();
            // Process 1 of a container that has no handler for SIGTERM does not notice it, and is killed at the end of its
            // grace period; others take their time.
            let serves_on = self.numbers.expired && !self.restart.is_under_way();
            self.again = serves_on.then(|| patched + self.order.grace);
        }
        self.release();
        self.note(Stage::Released);
    }

    /// The old process, which had served on when the cap was over, has ended or is about to be killed.
    fn hold_again(&mut self) {
        self.again = None;
        if let Err(error) = self.park() {
            tracing::warn!(pod_uid = self.seat.uid, %error, "clients are not held a second time");
            return;
        }
        if self.restart.is_under_way() {
            self.await_listeners();
        } else if let Some(left) = self.settle(|_, _| {}) {
            self.numbers.left = left;
            self.await_listeners();
        }
        self.release();
        self.note(Stage::Released);
    }

    /// Waits for requests in flight; says how many are left. `None` if the operation is over. The first number is told.
    fn settle(&mut self, tell: impl Fn(&Self, u32)) -> Option<u32> {
        let most = SETTLE_MOST.min(self.cap() / 2);
        // Connections that wait to be accepted would be reset. Those that are not accepted in time count as in flight.
        if let Err(error) = self.netns.quiet_accept_queue(self.restart.ports(), QUEUE.min(most)) {
            tracing::info!(pod_uid = self.seat.uid, %error, "can't see who waits to be accepted");
        }
        let mut settle = Settle::new(self.order.drain.clone(), self.restart.ports());
        // What can't be counted is not taken for settled before the time is over.
        let mut left = 1;
        let (mut is_told, mut has_failed) = (false, false);
        let closed = self.numbers.closed;
        loop {
            let now = Instant::now();
            match settle.look(&self.netns, now) {
                Ok(waited) => left = waited,
                Err(error) => {
                    if !std::mem::replace(&mut has_failed, true) {
                        tracing::info!(pod_uid = self.seat.uid, %error, "can't count requests in flight");
                    }
                }
            }
            self.numbers.connections = settle.connections.unwrap_or_default();
            self.numbers.closed = closed.saturating_add(settle.closed);
            self.collect();
            if left == 0 || now.duration_since(self.parked) >= most {
                break;
            }
            // The first number is enough: each one wakes the agent's loop.
            if !std::mem::replace(&mut is_told, true) {
                tell(self, left);
            }
            self.seat.wait(SETTLE_EVERY);
            self.seat.order()?;
        }
        if left > 0 && self.order.drain.stragglers == StragglerPolicy::Destroy {
            match stragglers::destroy(&self.netns, self.seat.uid, settle.waited()) {
                Ok(destroyed) => {
                    self.numbers.destroyed = self.numbers.destroyed.saturating_add(destroyed);
                    left = 0;
                }
                Err(error) => tracing::warn!(pod_uid = self.seat.uid, %error, "connections were not reset"),
            }
        }
        Some(left)
    }

    /// Until the new processes listen, the cap is over, or the operation is.
    fn await_listeners(&mut self) {
        let mut asked = self.parked;
        while self.seat.order().is_some() {
            self.look();
            if self.listening.is_some() {
                return;
            }
            let now = Instant::now();
            if now.duration_since(asked) >= ASK_EVERY {
                asked = now;
                // The kernel's timer has let clients in by itself; those who wait are still to be replayed.
                let is_over = self.hold.held().is_ok_and(|held| held.is_some_and(|held| held.since >= self.cap()));
                if is_over || now.duration_since(self.parked) >= EXPIRES {
                    self.numbers.expired = true;
                    return;
                }
            }
            self.collect();
            self.seat.wait(if self.restart.is_under_way() { FINE } else { MEDIUM });
        }
    }

    /// Lets clients in, those first who have waited longest.
    fn release(&mut self) {
        match self.hold.release() {
            Ok(released) => {
                let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
                let longest = released.longest.unwrap_or_default().as_millis();
                let longest = u32::try_from(longest).unwrap_or(u32::MAX);
                let numbers = &mut self.numbers;
                numbers.parked = numbers.parked.saturating_add(number(released.replayed + released.left));
                numbers.replayed = numbers.replayed.saturating_add(number(released.replayed));
                numbers.longest_milliseconds = numbers.longest_milliseconds.max(longest);
                numbers.expired |= released.expired;
            }
            Err(error) => {
                tracing::warn!(pod_uid = self.seat.uid, %error, "clients were not let in at once; a timer does it");
            }
        }
        let (pod_uid, HoldNumbers { parked, replayed, longest_milliseconds, expired, .. }) =
            (self.seat.uid, self.numbers);
        tracing::info!(pod_uid, parked, replayed, longest_milliseconds, expired, "clients are let in");
    }

    /// Nobody is held any more. It is to be known how long the restart takes, and whether clients must be held again.
    fn watch_listeners(&mut self) {
        while self.seat.order().is_some_and(|order| !matches!(order.hold, Hold::Prepare(_))) {
            if self.listening.is_some() || self.restart.ports().is_empty() {
                self.seat.wait_for(LONG, |hold| matches!(hold, Hold::Prepare(_)));
                continue;
            }
            self.look();
            let now = Instant::now();
            match self.again {
                _ if self.listening.is_some() => self.note(Stage::Released),
                Some(at) if now >= at || self.restart.is_under_way() => self.hold_again(),
                Some(_) => self.seat.wait(MEDIUM),
                None => self.seat.wait(COARSE),
            }
        }
    }

    fn look(&mut self) {
        match self.restart.look(&self.netns) {
            Ok(listening) => self.listening = listening,
            Err(error) => tracing::debug!(pod_uid = self.seat.uid, %error, "can't look for listeners"),
        }
    }

    fn collect(&mut self) {
        if let Err(error) = self.hold.collect() {
            tracing::debug!(pod_uid = self.seat.uid, %error, "can't see who is held");
        }
    }
}

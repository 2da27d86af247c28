//! One Hold: from the open sockets to the new listener.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hitless_api::StragglerPolicy;
use hitless_kernel::{HoldSpec, KernelError, PodNetns, SynHold, exposure, sweep_holds};

use super::job::{JobHandle, Target};
use crate::decision::{Direction, Hold};
use crate::drain::in_flight::InFlight;
use crate::drain::restart::Restart;
use crate::drain::{ensure_listened, ensure_no_sctp};
use crate::view::{Held, HoldNumbers, Listening, Stage};

/// Between two looks for the new listener while clients wait and the old process has ended. A look costs some 15 µs, and the
/// kernel has no event for it.
const FINE: Duration = Duration::from_millis(1);
/// The same while the old process runs.
const MEDIUM: Duration = Duration::from_millis(4);
/// The same when nobody waits any more, or is likely to.
const COARSE: Duration = Duration::from_millis(10);
/// How often the kernel is asked since when clients have been held.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// Between two looks at requests in flight.
const IN_FLIGHT_EVERY: Duration = Duration::from_millis(5);
/// Longest wait for the application to accept what is in its queue; usually 1 to 4 ms.
const QUEUE: Duration = Duration::from_millis(200);
/// Longest wait for requests in flight, and never more than half of the cap: the restart needs the rest.
const IN_FLIGHT_MOST: Duration = Duration::from_millis(1500);
/// After so long without this thread the kernel lets clients in by itself: to the new process, and to the old one as long as it is not
/// about to end. Less than the second after which they repeat their SYN, and longer than a busy machine usually keeps a thread waiting.
const LEASE: Duration = Duration::from_millis(800);
/// How often that begins anew.
const RENEW_EVERY: Duration = Duration::from_millis(100);
/// The block ends after so long even if no client comes.
const EXPIRES: Duration = Duration::from_secs(20);
/// A pod's namespace that can't be opened may be about to be made; so often it is tried again ...
const ATTEMPTS: u32 = 3;
/// ... after so long.
const RETRY: Duration = Duration::from_millis(250);
/// How long a thread waits for the next word at once; it is woken when there is one.
const LONG: Duration = Duration::from_hours(1);

/// Where the pod's containers listened on the way there, for the way back: clients come there even if nobody listens now.
#[derive(Default)]
pub(super) struct ListenedPorts(BTreeSet<u16>);

/// Carries out one operation's Hold, until that operation is over.
pub(super) fn run(job: &JobHandle<'_>, listened: &mut ListenedPorts) {
    let Some(target) = job.target() else { return };
    if matches!(target.hold, Hold::Continue(_)) {
        return leave_to_timers(job, &target);
    }
    // On the way back its successor may serve.
    if target.unless_serving && job.direction == Direction::Forward {
        return look(job, &target);
    }
    let Some(mut session) = open(job, &target, listened) else { return };
    session.report(Stage::Prepared(session.restart.ports().len()));
    match job.wait_for(LONG, |hold| !matches!(hold, Hold::Prepare(_))) {
        None => return,
        Some(target) if matches!(target.hold, Hold::Begin(_)) && !session.restart.ports().is_empty() => {
            // The containers of a pod that has left are being stopped already.
            if let Err(error) = session.begin(session.target.has_left) {
                session.report(Stage::Failed(error.to_string()));
            } else {
                session.hold_until_the_end();
            }
        }
        Some(_) => {}
    }
    session.watch_listeners();
}

/// This process holds nothing, but one that was killed may have: the kernel's timers let its clients in.
fn leave_to_timers(job: &JobHandle<'_>, target: &Target) {
    // Of a pod that has left service nobody is likely to wait, and it may be back before a timer is.
    if !target.has_left {
        let cap = Duration::from_millis(target.drain.hold_cap_milliseconds.into());
        job.wait_for(cap, |hold| !matches!(hold, Hold::Continue(_)));
    }
    match PodNetns::open(job.proc_root(), job.uid).and_then(|netns| sweep_holds(&netns)) {
        Ok(swept) if swept.is_empty() => {}
        Ok(swept) => tracing::info!(pod_uid = job.uid, tables = swept.join(", "), "removed an earlier agent's block"),
        Err(error) => tracing::debug!(pod_uid = job.uid, %error, "can't look for an earlier agent's block"),
    }
    job.wait_for(LONG, |hold| !matches!(hold, Hold::Continue(_)));
}

/// Counts the containers that serve somebody, or may. Nothing is held.
fn look(job: &JobHandle<'_>, target: &Target) {
    let serves = |container: &&String| match exposure(job.proc_root(), job.uid, container) {
        Ok(None) => false,
        Ok(Some(seen)) => {
            tracing::info!(pod_uid = job.uid, container = container.as_str(), "not replaced without a drain: {seen}");
            true
        }
        Err(error) => {
            tracing::warn!(pod_uid = job.uid, container = container.as_str(), %error, "can't tell whether it serves");
            true
        }
    };
    let stage = Stage::Prepared(target.containers.iter().filter(serves).count());
    job.report(Held { direction: job.direction, stage, numbers: HoldNumbers::default(), listening: None });
    job.wait_for(LONG, |hold| !matches!(hold, Hold::Prepare(_)));
    while job.target().is_some_and(|target| !matches!(target.hold, Hold::Prepare(_))) {
        job.wait_for(LONG, |hold| matches!(hold, Hold::Prepare(_)));
    }
}

fn open<'a>(job: &'a JobHandle<'a>, target: &Target, listened: &mut ListenedPorts) -> Option<HoldSession<'a>> {
    let mut failures = 0;
    loop {
        let error = match HoldSession::open(job, target, listened) {
            Ok(session) => return Some(session),
            Err(error) => error,
        };
        failures += 1;
        if failures >= ATTEMPTS && target.has_left {
            tracing::warn!(pod_uid = job.uid, %error, "who still comes while containers are replaced will be refused");
            job.wait_for(LONG, |_| false)?;
        } else if failures >= ATTEMPTS {
            let (numbers, stage) = (HoldNumbers::default(), Stage::Failed(error.to_string()));
            job.report(Held { direction: job.direction, stage, numbers, listening: None });
        }
        job.wait_for(RETRY, |_| false)?;
    }
}

/// One pod's sockets while its new connections are held.
struct HoldSession<'a> {
    job: &'a JobHandle<'a>,
    target: Target,
    netns: PodNetns,
    hold: SynHold,
    restart: Restart,
    begun: Instant,
    /// When the hold was begun or renewed.
    renewed: Instant,
    numbers: HoldNumbers,
    listening: Option<Listening>,
    /// The cap was over while the old process ran: clients are held once more when it has ended, or at this time.
    again: Option<Instant>,
}

impl<'a> HoldSession<'a> {
    fn open(job: &'a JobHandle<'a>, target: &Target, listened: &mut ListenedPorts) -> Result<Self, KernelError> {
        let netns = PodNetns::open(job.proc_root(), job.uid)?;
        sweep_holds(&netns)?;
        // Who still comes to a pod that has left is held all the same, where that is possible.
        ensure_no_sctp(job.uid, target.sctp.filter(|_| !target.has_left))?;
        ensure_listened(&netns, job.uid, target.must_listen)?;
        let (proc_root, drain) = (job.proc_root(), &target.drain);
        let restart = Restart::note(proc_root, job.uid, &netns, &target.containers, &listened.0, drain)?;
        listened.0.extend(restart.ports());
        let hold = SynHold::open(&netns)?;
        let (target, numbers) = (target.clone(), HoldNumbers::default());
        let begun = Instant::now();
        Ok(Self { job, target, netns, hold, restart, begun, renewed: begun, numbers, listening: None, again: None })
    }

    fn report(&self, stage: Stage) {
        let Self { job, numbers, listening, .. } = *self;
        job.report(Held { direction: job.direction, stage, numbers, listening });
    }

    fn cap(&self) -> Duration {
        Duration::from_millis(self.target.drain.hold_cap_milliseconds.max(1).into())
    }

    fn begin(&mut self, is_settled: bool) -> Result<(), KernelError> {
        let (ports, cap) = (self.restart.ports().to_vec(), self.cap());
        self.begun = Instant::now();
        self.renewed = self.begun;
        let exempt = Vec::new();
        self.hold.begin(HoldSpec { ports, cap, expires_after: EXPIRES, lease: LEASE, is_settled, exempt })
    }

    /// This thread is there: the hold goes on, if it is time to say so.
    fn renew(&mut self, now: Instant) {
        if now.duration_since(self.renewed) >= RENEW_EVERY {
            self.renewed = now;
            let renewed = self.hold.renew();
            self.tell(renewed);
        }
    }

    /// Whether nobody has been let in.
    fn tell(&self, renewed: Result<bool, KernelError>) -> bool {
        let pod_uid = self.job.uid;
        match renewed {
            Ok(true) => true,
            Ok(false) => {
                tracing::info!(pod_uid, "this thread got no processor, and the kernel may have let clients in");
                false
            }
            Err(error) => {
                tracing::debug!(pod_uid, %error, "a hold is not renewed; the kernel may let clients in");
                true
            }
        }
    }

    /// Clients are held: whatever happens, they are let in in the end.
    fn hold_until_the_end(&mut self) {
        if let Some(left) = self.await_in_flight(|session, waited| session.report(Stage::Settling(waited))) {
            self.numbers.left = left;
            self.report(Stage::Settled(left));
            let patched = Instant::now();
            self.await_listeners();
            // Process 1 of a container that has no handler for SIGTERM does not notice it, and is killed at the end of its
            // grace period; others take their time.
            let serves_on = self.numbers.expired && !self.restart.is_under_way();
            self.again = serves_on.then(|| patched + self.target.grace);
        }
        self.release();
        self.report(Stage::Released);
    }

    /// The old process, which had served on when the cap was over, has ended or is about to be killed.
    fn hold_again(&mut self) {
        self.again = None;
        if let Err(error) = self.begin(true) {
            tracing::warn!(pod_uid = self.job.uid, %error, "clients are not held a second time");
            return;
        }
        if self.restart.is_under_way() {
            self.await_listeners();
        } else if let Some(left) = self.await_in_flight(|_, _| {}) {
            self.numbers.left = left;
            self.await_listeners();
        }
        self.release();
        self.report(Stage::Released);
    }

    /// Waits for requests in flight; says how many are left. `None` if the operation is over. The first number is told.
    fn await_in_flight(&mut self, tell: impl Fn(&Self, u32)) -> Option<u32> {
        let most = IN_FLIGHT_MOST.min(self.cap() / 2);
        // Connections that wait to be accepted would be reset. Those that are not accepted in time count as in flight.
        if let Err(error) = self.netns.empty_accept_queue(self.restart.ports(), QUEUE.min(most)) {
            tracing::info!(pod_uid = self.job.uid, %error, "can't see who waits to be accepted");
        }
        let mut in_flight = InFlight::new(self.target.drain.clone(), self.restart.ports(), self.restart.within());
        // What can't be counted is not taken for settled before the time is over.
        let mut left = 1;
        let (mut is_told, mut has_failed) = (false, false);
        let closed = self.numbers.closed;
        loop {
            let now = Instant::now();
            self.renew(now);
            match in_flight.look(&self.netns, now) {
                Ok(waited) => left = waited,
                Err(error) => {
                    if !std::mem::replace(&mut has_failed, true) {
                        tracing::info!(pod_uid = self.job.uid, %error, "can't count requests in flight");
                    }
                }
            }
            self.numbers.connections = in_flight.connections.unwrap_or_default();
            self.numbers.closed = closed.saturating_add(in_flight.closed);
            self.collect();
            if left == 0 || now.duration_since(self.begun) >= most {
                // Who was let in since the last look is to be seen, too.
                let settled = self.hold.settle();
                if self.tell(settled) {
                    break;
                }
            }
            // The first number is enough: each one wakes the agent's loop.
            if !std::mem::replace(&mut is_told, true) {
                tell(self, left);
            }
            self.job.wait(IN_FLIGHT_EVERY);
            self.job.target()?;
        }
        if left > 0 && self.target.drain.stragglers == StragglerPolicy::Destroy {
            match in_flight.reset(&self.netns, self.job.uid) {
                Ok((destroyed, remaining)) => {
                    self.numbers.destroyed = self.numbers.destroyed.saturating_add(destroyed);
                    left = remaining;
                }
                Err(error) => tracing::warn!(pod_uid = self.job.uid, %error, "connections were not reset"),
            }
        }
        Some(left)
    }

    /// Until the new processes listen, the cap is over, or the operation is.
    fn await_listeners(&mut self) {
        let mut asked = self.begun;
        while self.job.target().is_some() {
            self.look();
            if self.listening.is_some() {
                return;
            }
            let now = Instant::now();
            self.renew(now);
            if now.duration_since(asked) >= ASK_EVERY {
                asked = now;
                // The kernel's timer has let clients in by itself; those who wait are still to be replayed.
                let is_over = self.hold.held().is_ok_and(|held| held.is_some_and(|held| held.since >= self.cap()));
                if is_over || now.duration_since(self.begun) >= EXPIRES {
                    self.numbers.expired = true;
                    return;
                }
            }
            self.collect();
            self.job.wait(match self.restart.is_under_way() {
                _ if self.target.has_left => COARSE,
                true => FINE,
                false => MEDIUM,
            });
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
                numbers.waited = numbers.waited.saturating_add(number(released.replayed + released.left));
                numbers.replayed = numbers.replayed.saturating_add(number(released.replayed));
                numbers.longest_milliseconds = numbers.longest_milliseconds.max(longest);
                numbers.expired |= released.expired;
            }
            Err(error) => {
                tracing::warn!(pod_uid = self.job.uid, %error, "clients were not let in at once; a timer does it");
            }
        }
        let (pod_uid, HoldNumbers { waited, replayed, longest_milliseconds, expired, .. }) =
            (self.job.uid, self.numbers);
        tracing::info!(pod_uid, waited, replayed, longest_milliseconds, expired, "clients are let in");
    }

    /// Nobody is held any more. It is to be known how long the restart takes, and whether clients must be held again.
    fn watch_listeners(&mut self) {
        while self.job.target().is_some_and(|target| !matches!(target.hold, Hold::Prepare(_))) {
            // Nobody is told of the listeners of a pod that has left.
            let is_over = self.target.has_left && self.again.is_none();
            if is_over || self.listening.is_some() || self.restart.ports().is_empty() {
                self.job.wait_for(LONG, |hold| matches!(hold, Hold::Prepare(_)));
                continue;
            }
            self.look();
            let now = Instant::now();
            match self.again {
                _ if self.listening.is_some() => self.report(Stage::Released),
                Some(at) if now >= at || self.restart.is_under_way() => self.hold_again(),
                Some(_) => self.job.wait(MEDIUM),
                None => self.job.wait(COARSE),
            }
        }
    }

    fn look(&mut self) {
        match self.restart.look(&self.netns) {
            Ok(listening) => self.listening = listening,
            Err(error) => tracing::debug!(pod_uid = self.job.uid, %error, "can't look for listeners"),
        }
    }

    fn collect(&mut self) {
        if let Err(error) = self.hold.collect() {
            tracing::debug!(pod_uid = self.job.uid, %error, "can't see who is held");
        }
    }
}

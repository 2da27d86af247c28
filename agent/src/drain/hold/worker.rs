//! One Hold: from the open sockets to the new listener.

mod settle;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hitless_kernel::{Connection, HoldSpec, KernelError, Listener, PodNetns, SynHold, exposure, sweep_holds};

use super::job::{JobHandle, Target};
use crate::decision::{Direction, Hold};
use crate::drain::restart::Restart;
use crate::drain::{ensure_listened, ensure_no_sctp};
use crate::view::{Held, HoldNumbers, Listening, PreStop, Stage};

/// Between two looks for the new listener while clients wait and the old process has ended. A look costs some 15 µs, and the
/// kernel has no event for it.
const FINE: Duration = Duration::from_millis(1);
/// The same while the old process runs.
const MEDIUM: Duration = Duration::from_millis(4);
/// The same when nobody waits any more, or is likely to.
const COARSE: Duration = Duration::from_millis(10);
/// How often the kernel is asked since when clients have been held.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// So long before the kubelet tells the old process to stop clients are held, where that moment is known: idle connections are closed
/// meanwhile, and the kubelet never begins the preStop hook as soon as the image patch is answered.
const BEFORE_STOP: Duration = Duration::from_millis(200);
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
            if let Some(pre_stop) = session.serves_on() {
                session.let_serve_on(pre_stop);
                return session.watch_listeners();
            }
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
    /// Nobody is held, and the old process runs: clients are held once more when it does not serve any more, or at this time.
    again: Option<Instant>,
    /// And once more at this time, if it serves on.
    at_last: Option<Instant>,
    /// Who was connected when the pod had settled: once the old process listens no more, the kernel does not tell whose they are.
    kept: Vec<Connection>,
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
        let (begun, listening) = (Instant::now(), None);
        let (renewed, again, at_last, kept) = (begun, None, None, Vec::new());
        Ok(Self { job, target, netns, hold, restart, begun, renewed, numbers, listening, again, at_last, kept })
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
        if let Some(left) = self.settle() {
            self.numbers.left = left;
            self.report(Stage::Settled(left));
            let patched = Instant::now();
            // Process 1 of a container that has no handler for SIGTERM does not notice it, and is killed at the end of its
            // grace period; others take their time.
            let serves_on = !self.await_listeners() && !self.restart.is_under_way();
            self.again = serves_on.then(|| patched + self.target.grace);
        }
        self.release();
        self.report(Stage::Released);
    }

    /// The preStop hook, if the old process serves on in it after the image patch: who is held then is held for nothing.
    fn serves_on(&self) -> Option<PreStop> {
        self.target.pre_stop.filter(|_| self.job.direction == Direction::Forward && !self.target.has_left)
    }

    /// Nobody is held before the old process is told to stop, or does not serve any more.
    fn let_serve_on(&mut self, pre_stop: PreStop) {
        self.report(Stage::Settled(0));
        // Before the image patch is seen, "let in" would be taken for a Hold that has failed.
        if self.job.wait_for(self.cap(), |hold| matches!(hold, Hold::Continue(_))).is_some() {
            let (patched, grace) = (Instant::now(), self.target.grace);
            let told = match pre_stop {
                PreStop::Sleeps(seconds) => seconds.min(grace).saturating_sub(BEFORE_STOP),
                PreStop::Runs => grace,
            };
            (self.again, self.at_last) = (Some(patched + told), Some(patched + grace).filter(|_| told < grace));
        }
        self.report(Stage::Released);
    }

    /// The old process, which had served on with nobody held, serves no more, or is about to be told to end or killed.
    fn hold_again(&mut self) {
        self.again = None;
        if let Err(error) = self.begin(true) {
            tracing::warn!(pod_uid = self.job.uid, %error, "clients are not held again");
            return;
        }
        let left = if self.restart.is_under_way() { Some(0) } else { self.settle_again() };
        if let Some(left) = left {
            self.numbers.left = self.numbers.left.max(left);
            let serves_on = !self.await_listeners() && !self.restart.is_under_way();
            self.again = self.at_last.take().filter(|_| serves_on);
        }
        self.release();
        self.report(Stage::Released);
    }

    /// At one of these ports nobody listens any more.
    fn is_deaf_at(&self, ports: &BTreeSet<u16>) -> bool {
        let listens = |listeners: &[Listener], port| listeners.iter().any(|each| each.addr.port() == port);
        self.netns.listeners().is_ok_and(|listeners| ports.iter().any(|port| !listens(&listeners, *port)))
    }

    /// Until the new processes listen, the cap is over, or the operation is. `false`: the cap is.
    fn await_listeners(&mut self) -> bool {
        let (mut asked, mut is_cut) = (self.begun, false);
        let late = self.cap() / 4 * 3;
        while self.job.target().is_some() {
            self.look();
            if self.listening.is_some() {
                return true;
            }
            let now = Instant::now();
            self.renew(now);
            if now.duration_since(asked) >= ASK_EVERY {
                asked = now;
                // The kernel's timer has let clients in by itself; those who wait are still to be replayed.
                let held = self.hold.held().ok().flatten().map_or(Duration::ZERO, |held| held.since);
                if held >= self.cap() || now.duration_since(self.begun) >= EXPIRES {
                    self.numbers.expired = true;
                    return false;
                }
                // The start needs the rest.
                if held >= late && !std::mem::replace(&mut is_cut, true) {
                    self.end_what_keeps_it();
                }
            }
            self.collect();
            self.job.wait(match self.restart.is_under_way() {
                _ if self.target.has_left => COARSE,
                true => FINE,
                false => MEDIUM,
            });
        }
        true
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
                Some(_) if self.is_deaf_at(self.restart.named()) => self.hold_again(),
                Some(_) => self.job.wait(MEDIUM),
                None => self.job.wait(COARSE),
            }
        }
    }

    fn look(&mut self) {
        match self.restart.look(&self.netns, &self.hold.awaited()) {
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

//! Requests in flight under a Hold: which are waited for with clients held, which with nobody held, and which are ended.

use std::time::{Duration, Instant};

use hitless_api::StragglerPolicy;
use hitless_kernel::KernelError;

use super::HoldSession;
use crate::drain::in_flight::InFlight;
use crate::drain::stragglers;
use crate::view::Stage;

/// Between two looks at requests in flight.
const IN_FLIGHT_EVERY: Duration = Duration::from_millis(5);
/// The same while nobody is held.
const LONG_EVERY: Duration = Duration::from_millis(20);
/// Longest wait for the application to accept what is in its queue; usually 1 to 4 ms.
const QUEUE: Duration = Duration::from_millis(200);
/// Longest wait for requests in flight, and never more than half of the cap: the restart needs the rest.
const IN_FLIGHT_MOST: Duration = Duration::from_millis(1500);

impl HoldSession<'_> {
    /// Waits until everything in flight has been answered, and says how many are left; clients are held then. What takes longer than
    /// they can be held is waited for with nobody held, as long as the target's patience lasts: a process that stops waits for it, too, and
    /// listens to nobody meanwhile. `None` if the operation is over, or clients can't be held any more.
    pub(super) fn settle(&mut self) -> Option<u32> {
        let until = Instant::now() + self.target.patience;
        loop {
            let (left, mut in_flight) =
                self.await_in_flight(|session, waited| session.report(Stage::Settling(waited)))?;
            let long = in_flight.note_long();
            if left == 0 || long == 0 || Instant::now() >= until {
                return Some(self.end_stragglers(left, &mut in_flight));
            }
            self.release();
            self.report(Stage::Settling(long));
            self.await_answers(&mut in_flight, until)?;
            if let Err(error) = self.begin(false) {
                tracing::warn!(pod_uid = self.job.uid, %error, "clients can't be held any more");
                return None;
            }
        }
    }

    /// The same where the old process is about to end in any case.
    pub(super) fn settle_again(&mut self) -> Option<u32> {
        let (left, mut in_flight) = self.await_in_flight(|_, _| {})?;
        Some(self.end_stragglers(left, &mut in_flight))
    }

    /// Waits for requests in flight; says how many are left. `None` if the operation is over. The first number is told.
    fn await_in_flight(&mut self, tell: impl Fn(&Self, u32)) -> Option<(u32, InFlight)> {
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
            match in_flight.look(&self.netns, self.job.uid, now) {
                Ok((waited, reset)) => {
                    left = waited;
                    self.numbers.destroyed = self.numbers.destroyed.saturating_add(reset);
                }
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
                    let reset = if left > 0 { self.reset_asked(&mut in_flight) } else { 0 };
                    self.numbers.closed = closed.saturating_add(in_flight.closed);
                    return Some((left.saturating_sub(reset), in_flight));
                }
            }
            // The first number is enough: each one wakes the agent's loop.
            if !std::mem::replace(&mut is_told, true) {
                tell(self, left);
            }
            self.job.wait(IN_FLIGHT_EVERY);
            if self.job.target().is_none() {
                self.reset_asked(&mut in_flight);
                return None;
            }
        }
    }

    /// Says how many of those that were asked to end were reset.
    fn reset_asked(&mut self, in_flight: &mut InFlight) -> u32 {
        let reset = in_flight.reset_asked(&self.netns, self.job.uid);
        self.count_reset(reset)
    }

    /// Counts connections that were reset.
    fn count_reset(&mut self, reset: Result<u32, KernelError>) -> u32 {
        let reset = reset.unwrap_or_else(|error| {
            tracing::warn!(pod_uid = self.job.uid, %error, "connections were not reset");
            0
        });
        self.numbers.destroyed = self.numbers.destroyed.saturating_add(reset);
        reset
    }

    /// Until those that take long have been answered, or the time is over.
    fn await_answers(&self, in_flight: &mut InFlight, until: Instant) -> Option<()> {
        while Instant::now() < until {
            match in_flight.look_at_long(&self.netns) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => tracing::debug!(pod_uid = self.job.uid, %error, "can't look at requests in flight"),
            }
            self.job.wait(LONG_EVERY);
            self.job.target()?;
        }
        Some(())
    }

    /// Resets those that are left, where that is wanted. Says how many are left then.
    fn end_stragglers(&mut self, left: u32, in_flight: &mut InFlight) -> u32 {
        if self.ends_what_keeps_it() {
            self.kept = in_flight.all(&self.netns).unwrap_or_else(|error| {
                tracing::info!(pod_uid = self.job.uid, %error, "can't list connections");
                Vec::new()
            });
        }
        if left == 0 || self.target.drain.stragglers != StragglerPolicy::Destroy {
            return left;
        }
        match in_flight.reset(&self.netns, self.job.uid) {
            Ok((destroyed, remaining)) => {
                self.numbers.destroyed = self.numbers.destroyed.saturating_add(destroyed);
                remaining
            }
            Err(error) => {
                tracing::warn!(pod_uid = self.job.uid, %error, "connections were not reset");
                left
            }
        }
    }

    /// Whether connections that keep an old process alive are ended before clients are let in.
    fn ends_what_keeps_it(&self) -> bool {
        let is_wanted = match self.target.drain.stragglers {
            StragglerPolicy::Close | StragglerPolicy::Destroy => true,
            StragglerPolicy::Wait | StragglerPolicy::Abort => false,
        };
        is_wanted && !self.target.has_left
    }

    /// Clients have been held for nearly as long as they can be, and the old process lives though it listens no more: it waits for
    /// connections that have outstayed what the drain gives them. They are ended, so that those who wait get in.
    pub(super) fn end_what_keeps_it(&mut self) {
        let is_kept = || !self.restart.is_under_way() && self.is_deaf_at(&self.hold.awaited());
        if self.ends_what_keeps_it() && is_kept() {
            let reset = stragglers::destroy(&self.netns, self.job.uid, &std::mem::take(&mut self.kept));
            self.count_reset(reset);
        }
    }
}

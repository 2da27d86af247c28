//! When requests are due: evenly spaced from the start, whatever happens to earlier ones.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Due times of one class of requests.
#[derive(Debug)]
pub(super) struct Schedule {
    started: Instant,
    duration: Duration,
    per_second: u32,
    stop: CancellationToken,
    issued: u64,
}

impl Schedule {
    pub(super) fn new(started: Instant, duration: Duration, per_second: u32, stop: CancellationToken) -> Self {
        Self { started, duration, per_second, stop, issued: 0 }
    }

    /// Waits for the next due time and returns it; `None` once stopped or at the end of the run. A caller that was
    /// late gets the due times it has missed, one after the other and unchanged: leaving them out would hide exactly
    /// the requests that had to wait (coordinated omission).
    pub(super) async fn next(&mut self) -> Option<Instant> {
        let offset = Duration::from_nanos(self.issued.checked_mul(1_000_000_000)?.checked_div(self.per_second.into())?);
        if offset >= self.duration {
            return None;
        }
        let due = self.started + offset;
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return None,
            () = sleep_until(due) => {}
        }
        self.issued += 1;
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn due_times_do_not_move_when_the_caller_is_late() {
        let started = Instant::now();
        let mut schedule = Schedule::new(started, Duration::from_secs(1), 10, CancellationToken::new());
        let mut due = Vec::new();
        while let Some(at) = schedule.next().await {
            due.push((at - started).as_millis());
            if due.len() == 3 {
                tokio::time::advance(Duration::from_millis(450)).await;
            }
        }
        assert_eq!(due, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
        assert_eq!(started.elapsed().as_millis(), 900);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_and_a_rate_of_nothing_end_it() {
        let stop = CancellationToken::new();
        let mut schedule = Schedule::new(Instant::now(), Duration::from_secs(1), 1, stop.clone());
        assert!(schedule.next().await.is_some());
        stop.cancel();
        assert_eq!(schedule.next().await, None);
        let mut nothing = Schedule::new(Instant::now(), Duration::from_secs(1), 0, CancellationToken::new());
        assert_eq!(nothing.next().await, None);
    }
}

//! Are connections lost when the pod becomes not Ready? Some data planes and load balancers cut off the connections of a backend that
//! is not Ready, and then a drain loses what it is to spare.

use std::time::{Duration, Instant};

use hitless_kernel::ResetCounters;

use super::target::Stage;
use crate::view::{Count, Losses};

/// So long after Ready has fallen connections that end were lost because of it. Data planes follow within about half a second, and the
/// kernel sends twice what nobody acknowledges within another one.
const WINDOW: Duration = Duration::from_secs(3);

/// Looks at the connections from Ready's fall on.
#[derive(Debug, Default)]
pub(super) struct LossWatch {
    /// As it was at the last look while the pod was Ready.
    ready: Option<Baseline>,
    fell: Option<Fallen>,
    /// On so many connections the pod has sent again and again, and nobody acknowledges anything, as of the last list.
    pub(super) unanswered: u32,
}

#[derive(Clone, Copy, Debug)]
struct Baseline {
    resets: ResetCounters,
    open: u32,
    /// Clients that had vanished long before.
    unanswered: u32,
}

#[derive(Clone, Copy, Debug)]
struct Fallen {
    at: Instant,
    baseline: Baseline,
    losses: Losses,
}

/// One look.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Counters of the namespace; `None`: this kernel has none.
    resets: Option<ResetCounters>,
    /// Open inbound connections.
    open: u32,
    /// Those of them on which nobody answers.
    unanswered: u32,
    /// The agent has closed or reset some itself.
    has_closed: bool,
}

impl LossWatch {
    /// After a look, and before anything is closed because of it: puts what was lost into `count`.
    pub(super) fn look(&mut self, stage: Stage, resets: Option<ResetCounters>, count: &mut Count, now: Instant) {
        let Count { inbound, unused, perhaps_probes, closed, destroyed, .. } = *count;
        let open = inbound.saturating_add(unused).saturating_add(perhaps_probes);
        let seen = Seen { resets, open, unanswered: self.unanswered, has_closed: closed > 0 || destroyed > 0 };
        match stage {
            Stage::Leaving => self.ready(seen),
            Stage::Draining | Stage::Destroying => count.losses = self.not_ready(seen, now),
            Stage::Replacing => {}
        }
    }

    /// The pod is still Ready. Once it was not, that counts, whatever comes after.
    fn ready(&mut self, seen: Seen) {
        let Seen { resets, open, unanswered, has_closed: _ } = seen;
        if self.fell.is_none() {
            self.ready = resets.map(|resets| Baseline { resets, open, unanswered });
        }
    }

    /// The pod is not Ready. What was lost since; `None` if nobody has looked before, or the counters can't be read.
    ///
    /// A reset that came in counts for no more than the connections that are gone: others may be the pod's own to somewhere else.
    fn not_ready(&mut self, seen: Seen, now: Instant) -> Option<Losses> {
        if self.fell.is_none() {
            let fell = |baseline: Baseline| {
                let losses = Losses { open: baseline.open, ..Losses::default() };
                Fallen { at: now, baseline, losses }
            };
            self.fell = self.ready.take().map(fell);
        }
        let Fallen { at, baseline, losses } = self.fell.as_mut()?;
        if now.duration_since(*at) > WINDOW {
            return Some(*losses);
        }
        losses.unanswered = losses.unanswered.max(seen.unanswered.saturating_sub(baseline.unanswered));
        if !seen.has_closed {
            let gone = baseline.open.saturating_sub(seen.open);
            let received = seen.resets.and_then(|resets| resets.received_since(baseline.resets));
            let received = u32::try_from(received.unwrap_or_default()).unwrap_or(u32::MAX);
            losses.reset = losses.reset.max(gone.min(received));
        }
        Some(*losses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ended: u64, open: u32) -> Seen {
        Seen { resets: Some(ResetCounters { ended, sent: 7 }), open, unanswered: 0, has_closed: false }
    }

    /// Ready with ten connections, two of which nobody answers, and a hundred resets before, then these looks, each so many milliseconds after Ready has fallen.
    fn losses(looks: &[(u64, Seen)]) -> (u32, u32, u32) {
        let (mut watch, fell) = (LossWatch::default(), Instant::now());
        watch.ready(seen(90, 12));
        watch.ready(Seen { unanswered: 2, ..seen(100, 10) });
        watch.not_ready(seen(100, 10), fell).unwrap();
        let look = |(after, seen): &(u64, Seen)| watch.not_ready(*seen, fell + Duration::from_millis(*after)).unwrap();
        let Losses { open, reset, unanswered } = looks.iter().map(look).last().unwrap();
        (open, reset, unanswered)
    }

    #[test]
    fn connections_that_are_gone_and_were_reset_are_lost() {
        assert_eq!(losses(&[(400, seen(108, 2))]), (10, 8, 0));
        assert_eq!(losses(&[(400, seen(100, 2))]), (10, 0, 0), "they were closed");
        assert_eq!(losses(&[(400, seen(108, 9))]), (10, 1, 0), "most were the pod's own, to somewhere else");
        assert_eq!(losses(&[(400, seen(108, 2)), (900, seen(108, 7))]), (10, 8, 0), "new ones have come since");
        let own = Seen { resets: Some(ResetCounters { ended: 108, sent: 15 }), ..seen(0, 2) };
        assert_eq!(losses(&[(400, own)]), (10, 0, 0), "the pod has reset them itself");
    }

    #[test]
    fn only_what_comes_soon_and_before_the_agent_closes_anything_counts() {
        assert_eq!(losses(&[(3001, seen(108, 2))]), (10, 0, 0));
        assert_eq!(losses(&[(400, seen(102, 8)), (3001, seen(108, 2))]), (10, 2, 0), "what was seen stays");
        let closing = Seen { has_closed: true, ..seen(108, 2) };
        assert_eq!(losses(&[(400, seen(102, 8)), (1200, closing)]), (10, 2, 0));
    }

    #[test]
    fn connections_on_which_nobody_answers_any_more_are_lost_unless_they_were_before() {
        let silent = Seen { unanswered: 8, ..seen(100, 10) };
        assert_eq!(losses(&[(1100, silent), (1200, Seen { unanswered: 0, ..silent })]), (10, 0, 6));
        assert_eq!(losses(&[(1100, Seen { has_closed: true, ..silent })]), (10, 0, 6), "none of those was closed");
        assert_eq!(losses(&[(3001, silent)]), (10, 0, 0));
    }

    #[test]
    fn where_nobody_has_looked_before_or_nothing_can_be_read_there_is_no_evidence() {
        let now = Instant::now();
        assert_eq!(LossWatch::default().not_ready(seen(100, 10), now), None, "an agent that was restarted");
        let mut watch = LossWatch::default();
        watch.ready(Seen { resets: None, ..seen(0, 10) });
        assert_eq!(watch.not_ready(seen(100, 10), now), None, "no counters");
        watch.ready(seen(100, 10));
        let other = Seen { resets: Some(ResetCounters { ended: 3, sent: 0 }), ..seen(0, 2) };
        assert_eq!(watch.not_ready(other, now), Some(Losses { open: 10, ..Losses::default() }), "another namespace");
    }

    #[test]
    fn a_pod_that_is_only_watched_again_does_not_begin_anew() {
        let (mut watch, fell) = (LossWatch::default(), Instant::now());
        watch.ready(seen(100, 10));
        watch.not_ready(seen(108, 2), fell).unwrap();
        watch.ready(seen(108, 2));
        assert_eq!(watch.not_ready(seen(108, 2), fell).unwrap().reset, 8, "a hook is called meanwhile");
    }
}

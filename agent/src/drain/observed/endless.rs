//! Connections that waiting does not end, on ports whose protocol nobody can read (HTTP/2, TLS, databases).
//!
//! A download or a long request ends by itself, and is worth the wait. A pool's connection goes on as long as its client lives, whether
//! the client asks again and again or not at all: its server ends it when it is told to stop, as Kubernetes has it, or breaks it off; that
//! is the same thirty seconds later.

use std::time::{Duration, Instant};

use hitless_kernel::{Activity, Connection, TcpInfo, classify};

use crate::drain::looks::Looks;

/// One look at what has passed, and the next.
const STEP: Duration = Duration::from_secs(2);
/// In so many of these in a row both sides have spoken: the client asks again and again.
const STEPS: u8 = 3;
/// Of what one side says the other says a two hundredth at least. In a transfer it only confirms: HTTP/2 some fifty bytes for each 32 KiB.
const SHARE: u64 = 200;
/// On a connection that is silent for so long, its server having spoken last, nobody waits for anything.
const SILENT: Duration = Duration::from_secs(10);

/// What each connection was seen to exchange.
pub(super) type Endless = Looks<Exchange>;

#[derive(Clone, Copy)]
pub(super) struct Exchange {
    /// When the last step began.
    at: Instant,
    /// Bytes of the client by then.
    received: u64,
    /// Bytes of the server that the client had by then.
    sent: u64,
    /// Steps in a row in which both have spoken.
    steps: u8,
}

impl Endless {
    /// Whether an exchange goes on that nothing shows the end of. Told by several looks.
    pub(super) fn is_exchange(&mut self, connection: &Connection, now: Instant) -> bool {
        let Some(TcpInfo { bytes_received: received, bytes_acked: sent, .. }) = connection.info else { return false };
        let new = Exchange { at: now, received, sent, steps: 0 };
        let mut exchange = self.of(connection).unwrap_or(new);
        if now.duration_since(exchange.at) >= STEP {
            let (heard, said) = (received.saturating_sub(exchange.received), sent.saturating_sub(exchange.sent));
            let is_both = heard > 0 && said > 0 && heard / SHARE <= said && said / SHARE <= heard;
            exchange = Exchange { steps: if is_both { exchange.steps.saturating_add(1) } else { 0 }, ..new };
        }
        self.keep(connection, exchange);
        exchange.steps >= STEPS
    }
}

/// Whether nobody has said anything for long, and nobody waits for an answer.
pub(super) fn is_silent(connection: &Connection) -> bool {
    let is_answered = matches!(classify(connection), Activity::Idle | Activity::Fresh);
    is_answered && connection.unused_for().is_some_and(|unused| unused >= SILENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::looks::connection;

    /// What is said in each quarter of a second of a connection on which so many bytes pass in each: the number of the first one in which
    /// it is an exchange without end.
    fn first(of: impl Fn(u64) -> (u64, u64)) -> Option<u64> {
        let (mut endless, start) = (Endless::default(), Instant::now());
        let (mut received, mut sent) = (1000, 5000);
        (0..100).find(|quarter| {
            let (heard, said) = of(*quarter);
            (received, sent) = (received + heard, sent + said);
            endless.begin();
            let now = start + Duration::from_millis(250 * quarter);
            let is_exchange = endless.is_exchange(&connection(received, sent), now);
            endless.end();
            is_exchange
        })
    }

    #[test]
    fn a_client_that_asks_again_and_again_goes_on_for_ever() {
        assert_eq!(first(|_| (120, 800)), Some(24), "after six seconds");
        assert_eq!(first(|_| (300, 50_000)), Some(24), "large answers");
        assert_eq!(first(|quarter| if quarter % 6 == 0 { (80, 40) } else { (0, 0) }), Some(24), "one in 1.5 s");
    }

    #[test]
    fn a_transfer_ends_by_itself() {
        assert_eq!(first(|_| (0, 100_000)), None, "a download");
        assert_eq!(first(|_| (150, 100_000)), None, "by HTTP/2, confirmed on the way");
        assert_eq!(first(|_| (100_000, 150)), None, "an upload");
        assert_eq!(first(|_| (20, 0)), None, "messages without an answer, which may come yet");
        assert_eq!(first(|quarter| if quarter < 16 { (120, 800) } else { (0, 9000) }), None, "it has asked for one");
        assert_eq!(first(|quarter| if quarter % 20 == 0 { (80, 40) } else { (0, 0) }), None, "now and then");
    }

    #[test]
    fn a_pool_s_unused_connection_is_silent_and_one_with_a_pending_request_is_not() {
        let silent = |sent, recv| {
            let mut one = connection(1000, 5000);
            let info = one.info.as_mut().unwrap();
            (info.last_data_sent, info.last_data_recv) = (Duration::from_millis(sent), Duration::from_millis(recv));
            (info.last_ack_recv, one.wqueue) = (info.last_data_sent, 0);
            is_silent(&one)
        };
        assert_eq!([silent(10_000, 10_004), silent(9999, 10_000)], [true, false]);
        assert!(!silent(30_000, 20_000), "its last request is not answered");
    }

    #[test]
    fn one_that_has_gone_is_forgotten() {
        let mut endless = Endless::default();
        endless.is_exchange(&connection(1, 1), Instant::now());
        endless.end();
        endless.begin();
        endless.end();
        assert_eq!(endless.len(), 0);
    }
}

//! Connections that were asked to end: their server reads an end of file that no client has sent (`hitless_kernel::close_unused`).
//!
//! A server of HTTP/1 closes then. One that has left that protocol on the connection, as for a websocket, or that looks at nothing but
//! what it sends, may not: it hears nothing any more, and its client waits for an answer. Such a connection is reset, so that the client
//! connects again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hitless_kernel::Connection;

/// So long a server has to close.
pub(super) const LASTS: Duration = Duration::from_secs(1);
/// What passed so soon after a connection was seen to be asked may have passed before.
const SOON: Duration = Duration::from_millis(100);
/// So many are followed at once. They go within a second, by themselves or not, and make room for others.
const MOST: usize = 8192;

/// Since when each of them has been asked. Seen, not remembered: an agent that was restarted sees them, too.
#[derive(Default)]
pub(super) struct Asked {
    /// By the kernel's identity of the socket.
    known: HashMap<u64, Instant>,
    /// Of the look that is under way.
    seen: HashMap<u64, Instant>,
}

impl Asked {
    /// Before a look at all connections.
    pub(super) fn begin(&mut self) {
        self.seen.clear();
    }

    /// After it: those that are gone are forgotten.
    pub(super) fn end(&mut self) {
        std::mem::swap(&mut self.known, &mut self.seen);
    }

    /// There was nobody at the last look.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether one that was asked, and has not ended, is to be reset after it has had `lasts`.
    pub(super) fn is_overdue(&mut self, connection: &Connection, lasts: Duration, now: Instant) -> bool {
        let since = self.known.get(&connection.cookie).copied().unwrap_or(now);
        if self.seen.len() < MOST {
            self.seen.insert(connection.cookie, since);
        }
        let asked_for = now.duration_since(since);
        asked_for >= lasts && !is_answer_going_on(connection, asked_for)
    }
}

/// Whether the server sends on, and the client has said nothing that nobody will hear: an answer in pieces with long pauses, of a
/// server that does not look whether its client is there. It gets its end.
fn is_answer_going_on(connection: &Connection, asked_for: Duration) -> bool {
    let since = asked_for.saturating_sub(SOON);
    connection.info.is_some_and(|info| info.last_data_sent < since && info.last_data_recv >= since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_kernel::{TcpInfo, TcpState};

    /// Milliseconds since data was sent and received last.
    fn connection(sent: u64, received: u64) -> Connection {
        let address = "10.0.0.1:80".parse().unwrap();
        let info = TcpInfo {
            last_data_sent: Duration::from_millis(sent),
            last_data_recv: Duration::from_millis(received),
            last_ack_recv: Duration::ZERO,
            bytes_acked: 10,
            bytes_received: 10,
            notsent_bytes: 0,
            timeouts: 0,
        };
        Connection {
            local: address,
            peer: address,
            state: TcpState::Established,
            inode: 1,
            cookie: 7,
            rqueue: 0,
            wqueue: 0,
            shut_for_reading: true,
            info: Some(info),
        }
    }

    /// Whether it is overdue so many milliseconds after it was seen first.
    fn is_overdue(after: u64, connection: &Connection) -> bool {
        let (mut asked, start) = (Asked::default(), Instant::now());
        let mut look = |at| {
            asked.begin();
            let is_overdue = asked.is_overdue(connection, LASTS, start + Duration::from_millis(at));
            asked.end();
            is_overdue
        };
        assert!(!look(0), "it has just been asked");
        look(after)
    }

    #[test]
    fn who_does_not_end_within_a_second_is_overdue() {
        let idle = connection(5000, 5000);
        assert_eq!([999, 1000].map(|after| is_overdue(after, &idle)), [false, true]);
    }

    #[test]
    fn who_has_said_something_since_will_never_be_answered() {
        assert!(is_overdue(1000, &connection(5000, 300)), "a message without an answer");
        assert!(is_overdue(1000, &connection(200, 300)), "what the server sends is no answer to what it does not hear");
    }

    #[test]
    fn an_answer_that_goes_on_is_not_cut_off() {
        assert!(!is_overdue(2000, &connection(200, 5000)));
        assert!(is_overdue(2000, &connection(1950, 5000)), "its last piece may have been sent before");
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let (mut asked, start) = (Asked::default(), Instant::now());
        asked.is_overdue(&connection(9000, 9000), LASTS, start);
        asked.end();
        assert!(!asked.is_empty());
        asked.begin();
        asked.end();
        assert!(asked.is_empty());
        assert!(!asked.is_overdue(&connection(9000, 9000), LASTS, start + LASTS), "another with the same identity");
        assert!(asked.is_overdue(&connection(9000, 9000), Duration::ZERO, start + LASTS), "no time is left");
    }
}

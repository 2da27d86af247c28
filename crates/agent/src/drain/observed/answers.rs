//! Answers that are still being sent: downloads and server-sent events. Between two pieces of an answer a connection looks like
//! one between two requests, and a server that is told then that its client is done often breaks the answer off.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hitless_kernel::Connection;

/// Pieces that are closer together are one.
const PIECE: Duration = Duration::from_millis(100);
/// So many pieces without any more of a request make an answer that is still being sent.
const PIECES: u8 = 2;
/// After so long without a piece it has ended. A pod is watched for a little longer before anything is closed, so an answer with
/// longer pauses is not found anyway (docs/draining.md).
const PAUSE: Duration = Duration::from_millis(1500);

/// What each connection was seen to send.
#[derive(Default)]
pub(super) struct Answers {
    /// By the kernel's identity of the socket.
    known: HashMap<u64, Answer>,
    /// Of the look that is under way.
    seen: HashMap<u64, Answer>,
}

#[derive(Clone, Copy)]
struct Answer {
    /// Bytes of requests.
    received: u64,
    /// Bytes of answers that the client has.
    sent: u64,
    /// Pieces since the last byte of a request.
    pieces: u8,
    last: Option<Instant>,
}

impl Answers {
    /// Before a look at all connections.
    pub(super) fn begin(&mut self) {
        self.seen.clear();
    }

    /// After it: those that are gone are forgotten.
    pub(super) fn end(&mut self) {
        std::mem::swap(&mut self.known, &mut self.seen);
    }

    /// Whether an answer is being sent on the connection. Told by several looks.
    pub(super) fn is_being_sent(&mut self, connection: &Connection, now: Instant) -> bool {
        let Some(info) = connection.info else { return false };
        let (received, sent) = (info.bytes_received, info.bytes_acked);
        let new = Answer { received, sent, pieces: 0, last: None };
        let mut answer =
            self.known.get(&connection.cookie).copied().filter(|known| known.received == received).unwrap_or(new);
        let is_apart = answer.last.is_none_or(|last| now.duration_since(last) >= PIECE);
        if sent != answer.sent && is_apart {
            (answer.pieces, answer.last) = (answer.pieces.saturating_add(1), Some(now));
        }
        answer.sent = sent;
        self.seen.insert(connection.cookie, answer);
        answer.pieces >= PIECES && answer.last.is_some_and(|last| now.duration_since(last) < PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_kernel::{TcpInfo, TcpState};

    fn connection(received: u64, sent: u64) -> Connection {
        let address = "10.0.0.1:80".parse().unwrap();
        let now = Duration::ZERO;
        let info = TcpInfo {
            last_data_sent: now,
            last_data_recv: now,
            last_ack_recv: now,
            bytes_acked: sent,
            bytes_received: received,
            notsent_bytes: 0,
        };
        let state = TcpState::Established;
        Connection { local: address, peer: address, state, inode: 1, cookie: 7, rqueue: 0, wqueue: 0, info: Some(info) }
    }

    /// What is said after each look: (milliseconds, bytes received, bytes sent).
    fn looks(looks: &[(u64, u64, u64)]) -> Vec<bool> {
        let (mut answers, start) = (Answers::default(), Instant::now());
        let look = |(at, received, sent): &(u64, u64, u64)| {
            answers.begin();
            let is_sent = answers.is_being_sent(&connection(*received, *sent), start + Duration::from_millis(*at));
            answers.end();
            is_sent
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn an_answer_is_being_sent_while_it_comes_in_pieces() {
        assert_eq!(looks(&[(0, 90, 10), (250, 90, 20), (500, 90, 30)]), [false, false, true]);
        assert_eq!(
            looks(&[(0, 90, 10), (250, 90, 20), (500, 90, 30), (1999, 90, 30), (2000, 90, 30)]),
            [false, false, true, true, false]
        );
    }

    #[test]
    fn requests_that_are_answered_one_after_the_other_are_none() {
        assert_eq!(looks(&[(0, 90, 10), (250, 180, 20), (500, 270, 30), (750, 360, 40)]), [false; 4]);
    }

    #[test]
    fn an_answer_that_comes_late_and_at_once_is_none() {
        assert_eq!(
            looks(&[(0, 90, 0), (250, 90, 10), (260, 90, 20), (500, 90, 20)]),
            [false; 4],
            "two segments, one piece"
        );
    }

    #[test]
    fn a_connection_that_is_gone_is_forgotten() {
        let mut answers = Answers::default();
        answers.is_being_sent(&connection(1, 1), Instant::now());
        answers.end();
        answers.begin();
        answers.end();
        assert!(answers.known.is_empty());
    }
}

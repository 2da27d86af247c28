//! Answers that are still being sent: downloads and server-sent events. Between two pieces of an answer a connection looks like
//! one between two requests, and a server that is told then that its client is done often breaks the answer off.

use std::time::{Duration, Instant};

use hitless_kernel::Connection;

use super::endless::Endless;
use crate::drain::asked::Asked;
use crate::drain::looks::Looks;
use crate::drain::quiet::Quiet;

/// Pieces that are closer together are one.
const PIECE: Duration = Duration::from_millis(100);
/// So many pieces without any more of a request make an answer that is still being sent.
const PIECES: u8 = 2;
/// After so long without a piece it has ended. An answer with longer pauses can't be told from an idle connection
/// (docs/draining.md).
const PAUSE: Duration = Duration::from_millis(1500);
/// So long a connection is watched before it is taken for idle: one that has just been opened may carry the first piece of an
/// answer. A pod is not quiet before, so only those wait that came when they should not have.
const WATCHED: Duration = Quiet::WINDOW;
/// After so long of watching, a client that has had no answer in pieces is taken for one that does not ask for any.
const KNOWN: Duration = Duration::from_secs(5);

/// What each connection was seen to send.
#[derive(Default)]
pub(super) struct Answers {
    looks: Looks<Answer>,
    /// The longest that was seen between two pieces of one answer, on any connection.
    longest_pause: Duration,
    /// Those that were asked to end.
    pub(super) asked: Asked,
    /// Those that do not end by waiting.
    pub(super) endless: Endless,
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
    /// When the connection was seen first.
    since: Instant,
    /// Whether any answer on it came in pieces.
    has_pieces: bool,
}

impl Answers {
    /// Before a look at all connections.
    pub(super) fn begin(&mut self) {
        self.looks.begin();
        self.asked.begin();
        self.endless.begin();
    }

    /// After it: those that are gone are forgotten.
    pub(super) fn end(&mut self) {
        self.looks.end();
        self.asked.end();
        self.endless.end();
    }

    /// Forgets all connections, and not what was learned of them.
    pub(super) fn forget(&mut self) {
        (self.looks, self.endless) = Default::default();
    }

    /// Whether an answer is being sent on the connection. Told by several looks.
    pub(super) fn is_being_sent(&mut self, connection: &Connection, now: Instant) -> bool {
        let Some(info) = connection.info else { return false };
        let (received, sent) = (info.bytes_received, info.bytes_acked);
        let known = self.looks.of(connection);
        let (since, has_pieces) = known.map_or((now, false), |known| (known.since, known.has_pieces));
        let new = Answer { received, sent, pieces: 0, last: None, since, has_pieces };
        let mut answer = known.filter(|known| known.received == received).unwrap_or(new);
        let pause = answer.last.map(|last| now.duration_since(last));
        if sent != answer.sent && pause.is_none_or(|pause| pause >= PIECE) {
            (answer.pieces, answer.last) = (answer.pieces.saturating_add(1), Some(now));
            self.longest_pause = self.longest_pause.max(pause.unwrap_or_default().min(PAUSE));
        }
        answer.sent = sent;
        answer.has_pieces |= answer.pieces >= PIECES;
        self.looks.keep(connection, answer);
        answer.pieces >= PIECES && answer.last.is_some_and(|last| now.duration_since(last) < PAUSE)
    }

    /// Whether no answer can be under way on a connection that seems to be between two requests, as far as is known of it and of
    /// the others. To be asked after the last look, of the connection as it is now.
    pub(super) fn is_over(&self, connection: &Connection, now: Instant) -> bool {
        let silent = connection.unused_for().unwrap_or_default();
        let is_unused = connection.info.is_some_and(|info| info.bytes_received == 0);
        if is_unused || silent >= PAUSE {
            return true;
        }
        let Some(answer) = self.looks.of(connection) else { return false };
        let watched = now.duration_since(answer.since);
        let has_paused = silent >= self.longest_pause.saturating_mul(2);
        watched >= WATCHED && (has_paused || watched >= KNOWN && !answer.has_pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::looks::connection;

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

    /// Whether it may be closed after each look, if it has been silent for so many milliseconds.
    fn is_over(looks: &[(u64, u64, u64)], silent: u64) -> Vec<bool> {
        let (mut answers, start) = (Answers::default(), Instant::now());
        let look = |(at, received, sent): &(u64, u64, u64)| {
            let (mut connection, now) = (connection(*received, *sent), start + Duration::from_millis(*at));
            answers.begin();
            answers.is_being_sent(&connection, now);
            answers.end();
            let silent = Duration::from_millis(silent);
            connection.info.iter_mut().for_each(|info| (info.last_data_sent, info.last_data_recv) = (silent, silent));
            answers.is_over(&connection, now)
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn who_has_just_come_is_watched_before_anything_is_taken_for_its_end() {
        assert_eq!(is_over(&[(0, 90, 10), (999, 90, 10), (1000, 90, 10)], 0), [false, false, true]);
        assert_eq!(is_over(&[(0, 0, 0)], 0), [true], "nothing was asked for");
        assert_eq!(is_over(&[(0, 90, 10)], 1500), [true], "longer than any pause");
    }

    #[test]
    fn where_answers_come_in_pieces_an_end_is_a_pause_twice_as_long() {
        let pieces = [(0, 90, 10), (200, 90, 20), (400, 90, 30), (1200, 180, 30), (6000, 180, 40)];
        assert_eq!(is_over(&pieces, 399), [false; 5]);
        assert_eq!(is_over(&pieces, 400), [false, false, false, true, true]);
    }

    #[test]
    fn a_client_that_never_asked_for_pieces_is_known_after_a_while() {
        let (mut answers, start) = (Answers::default(), Instant::now());
        answers.longest_pause = PAUSE;
        for (at, expected) in [(0, false), (4999, false), (5000, true)] {
            let (connection, now) = (connection(90, 10), start + Duration::from_millis(at));
            answers.begin();
            answers.is_being_sent(&connection, now);
            answers.end();
            assert_eq!(answers.is_over(&connection, now), expected, "{at} ms");
        }
    }

    #[test]
    fn a_connection_that_is_gone_is_forgotten() {
        let mut answers = Answers::default();
        answers.is_being_sent(&connection(1, 1), Instant::now());
        answers.end();
        answers.begin();
        answers.end();
        assert_eq!(answers.looks.len(), 0);
    }
}

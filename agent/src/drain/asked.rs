//! Connections that were asked to end: their server reads an end of file that no client has sent (`hitless_kernel::close_unused`).
//!
//! A server of HTTP/1 closes then, at once. One that has left that protocol on the connection, as for a websocket, or that looks at nothing
//! but what it sends, may not: it hears nothing any more, and what its client says is lost. Such a connection is reset, so that the client
//! connects again: as long as nothing is under way on it, for then nobody loses anything by it.

use std::time::{Duration, Instant};

use hitless_kernel::{Activity, ClosedReport, Connection, KernelError, classify};

use super::looks::Looks;

/// So long a server has to close.
pub(super) const LASTS: Duration = Duration::from_secs(1);
/// The same where nothing is under way. Servers of HTTP/1 need a few milliseconds; one that is stopped for a moment loses nothing by a
/// reset instead.
const AT_REST: Duration = Duration::from_millis(20);
/// The same of the first one, by which all others are judged: on a busy machine its server may not run for a while.
const FIRST_AT_REST: Duration = Duration::from_millis(100);
/// So much longer for each that was asked: it may close them one after the other.
const EACH: Duration = Duration::from_micros(120);
/// So long a server has to read what its client has said, which may have come right before it was asked.
const UNREAD: Duration = Duration::from_millis(300);
/// What passed so soon after a connection was seen to be asked may have passed before.
const SOON: Duration = Duration::from_millis(100);
/// Of more than so many none is tried first: that would take a crowd's time.
const MANY: usize = 1000;
/// A request may have come on the first one meanwhile: then others are tried, and so many at one look.
const TRIED: usize = 8;
/// So many are followed at once. They go within a second, by themselves or not, and make room for others.
const MOST: usize = 8192;

/// Since when each of them has been asked. Seen, not remembered: an agent that was restarted sees them, too.
#[derive(Default)]
pub(super) struct Asked {
    since: Looks<Instant>,
    /// So many were there at a time since there was nobody.
    most: usize,
    /// Which of those that are quiet are tried next.
    turn: usize,
    /// One of these was to be reset, so that their end says nothing of the server.
    is_reset: bool,
    servers: Servers,
}

/// What the pod's servers were seen to do when they were asked.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Servers {
    /// None has shown anything yet.
    #[default]
    Untried,
    /// All that were asked at a time have closed their connections.
    Close,
    /// One has not closed a connection on which nothing was under way, or has not read what came on it.
    Deaf,
}

impl Asked {
    /// Before a look at all connections.
    pub(super) fn begin(&mut self) {
        self.since.begin();
    }

    /// After it: those that are gone are forgotten.
    pub(super) fn end(&mut self) {
        self.since.end();
        self.most = self.most.max(self.since.len());
        if self.is_empty() {
            // Whoever was there at the look before has gone.
            let have_closed = self.since.kept() > 0 && !std::mem::take(&mut self.is_reset);
            if have_closed && self.servers == Servers::Untried {
                self.servers = Servers::Close;
            }
            self.most = 0;
        }
    }

    /// There was nobody at the last look.
    pub(super) fn is_empty(&self) -> bool {
        self.since.len() == 0
    }

    /// Asks these to end with `ask`. One shows first whether its server closes; if it does not, its client alone has lost what it said
    /// until that was certain.
    ///
    /// # Errors
    /// Those of `ask`.
    pub(super) fn ask(
        &mut self,
        all: &[Connection],
        mut ask: impl FnMut(&[Connection]) -> Result<ClosedReport, KernelError>,
    ) -> Result<ClosedReport, KernelError> {
        if self.servers != Servers::Untried || all.len() > MANY {
            return ask(all);
        }
        let mut report = ClosedReport::default();
        if !self.is_empty() {
            return Ok(report);
        }
        let quiet: Vec<&Connection> = all.iter().filter(|each| classify(each) != Activity::Busy).collect();
        // Not the same ones at each look.
        self.turn = self.turn.wrapping_add(TRIED);
        for one in quiet.iter().cycle().skip(self.turn % quiet.len().max(1)).take(TRIED.min(quiet.len())).copied() {
            report = ask(std::slice::from_ref(one))?;
            if report.closed > 0 {
                break;
            }
        }
        Ok(report)
    }

    /// Whether one that was asked, and has not ended, is to be reset. It has `lasts` at most.
    pub(super) fn is_overdue(&mut self, connection: &Connection, lasts: Duration, now: Instant) -> bool {
        let since = self.since.of(connection).unwrap_or(now);
        if self.since.kept() < MOST {
            self.since.keep(connection, since);
        }
        let asked_for = now.duration_since(since);
        let is_at_rest = is_at_rest(connection);
        let least = if self.servers == Servers::Untried { FIRST_AT_REST } else { AT_REST };
        let at_rest = least.max(AT_REST + EACH * u32::try_from(self.most).unwrap_or(u32::MAX)).min(LASTS);
        let own = match (is_at_rest, connection.rqueue > 0) {
            (true, _) => at_rest,
            (false, true) if self.servers == Servers::Deaf => at_rest,
            (false, true) => at_rest.max(UNREAD),
            (false, false) => LASTS,
        };
        let is_overdue = asked_for >= lasts.min(own) && !is_answer_going_on(connection, asked_for);
        self.is_reset |= is_overdue;
        // One on which something is under way may be closed once that is done.
        if is_overdue && asked_for >= own && (is_at_rest || connection.rqueue > 0) {
            self.servers = Servers::Deaf;
        }
        is_overdue
    }
}

/// Whether nothing is under way in either direction: the client has all that was sent to it, and has said nothing more.
fn is_at_rest(connection: &Connection) -> bool {
    connection.wqueue == 0 && matches!(classify(connection), Activity::Idle | Activity::Fresh)
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
    use crate::drain::looks;

    /// Milliseconds since data was sent and received last. All was acknowledged.
    fn connection(sent: u64, received: u64) -> Connection {
        let mut one = Connection { shut_for_reading: true, ..looks::connection(10, 10) };
        let [sent, received] = [sent, received].map(Duration::from_millis);
        one.info.iter_mut().for_each(|info| (info.last_data_sent, info.last_data_recv) = (sent, received));
        one
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
    fn where_nothing_is_under_way_a_server_closes_at_once_or_its_client_connects_again() {
        let idle = connection(5000, 5010);
        assert_eq!([99, 100].map(|after| is_overdue(after, &idle)), [false, true]);
        let unacknowledged = Connection { wqueue: 100, ..idle };
        assert_eq!([100, 999, 1000].map(|after| is_overdue(after, &unacknowledged)), [false, false, true]);
    }

    #[test]
    fn who_has_said_something_since_will_never_be_answered() {
        let unread = Connection { rqueue: 10, ..connection(5000, 10) };
        assert_eq!(
            [299, 300].map(|after| is_overdue(after, &unread)),
            [false, true],
            "it may be a request that is read yet"
        );
        assert_eq!(
            [999, 1000].map(|after| is_overdue(after, &connection(5000, 300))),
            [false, true],
            "a message without an answer"
        );
        assert!(is_overdue(1000, &connection(200, 300)), "what the server sends is no answer to what it does not hear");
    }

    /// How many of so many are asked next.
    fn next(asked: &mut Asked, all: usize) -> usize {
        let all: Vec<Connection> = (0..all).map(|_| connection(5000, 5010)).collect();
        let ask = |some: &[Connection]| Ok(ClosedReport { closed: some.len(), ..ClosedReport::default() });
        asked.ask(&all, ask).unwrap().closed
    }

    #[test]
    fn on_whom_a_request_has_come_meanwhile_shows_nothing() {
        let with = |cookie| Connection { cookie, ..connection(5000, 5010) };
        let busy = Connection { rqueue: 1, ..connection(5000, 10) };
        let mut tried = Vec::new();
        let report = |all: &[Connection]| {
            tried.extend(all.iter().map(|each| each.cookie));
            Ok(ClosedReport { closed: usize::from(all[0].cookie == 9), ..ClosedReport::default() })
        };
        Asked::default().ask(&[busy, with(8), with(9), with(10)], report).unwrap();
        assert_eq!((tried.last(), tried.contains(&7)), (Some(&9), false), "{tried:?}");
    }

    #[test]
    fn one_shows_first_whether_its_server_closes() {
        let start = Instant::now();
        let look = |asked: &mut Asked, after, connections: &[&Connection]| {
            asked.begin();
            let at = start + Duration::from_millis(after);
            for each in connections {
                asked.is_overdue(each, LASTS, at);
            }
            asked.end();
            next(asked, 7)
        };
        let one = connection(5000, 5010);
        assert_eq!([7, 0, 2000].map(|all| next(&mut Asked::default(), all)), [1, 0, 2000]);
        let mut asked = Asked::default();
        assert_eq!([look(&mut asked, 0, &[&one]), look(&mut asked, 5, &[])], [0, 7], "it has closed");
        let mut asked = Asked::default();
        assert_eq!(
            [look(&mut asked, 0, &[&one]), look(&mut asked, 100, &[&one])],
            [0, 7],
            "it is reset, as the others will be"
        );
        let next = Connection { cookie: 8, ..one };
        asked.begin();
        let others = [101, 120, 121].map(|after| asked.is_overdue(&next, LASTS, start + Duration::from_millis(after)));
        assert_eq!(others, [false; 3], "each look is the first one until it has ended");
        asked.end();
        asked.begin();
        let others = [141, 142].map(|after| asked.is_overdue(&next, LASTS, start + Duration::from_millis(after)));
        assert_eq!(others, [false, true], "and 20 ms are enough for them");
    }

    #[test]
    fn a_server_with_many_connections_closes_one_after_the_other() {
        let (mut asked, start) = (Asked::default(), Instant::now());
        let mut overdue = |after| {
            asked.begin();
            let at = start + Duration::from_millis(after);
            let all = (0..1000).map(|cookie| Connection { cookie, ..connection(5000, 5010) });
            let overdue = all.filter(|each| asked.is_overdue(each, LASTS, at)).count();
            asked.end();
            overdue
        };
        assert_eq!([0, 139, 140].map(&mut overdue), [0, 0, 1000]);
    }

    #[test]
    fn a_server_that_was_seen_not_to_close_gets_no_time_to_read() {
        let (mut asked, start) = (Asked::default(), Instant::now());
        let mut look = |after, connections: &[&Connection]| {
            asked.begin();
            let at = start + Duration::from_millis(after);
            let overdue: Vec<bool> = connections.iter().map(|each| asked.is_overdue(each, LASTS, at)).collect();
            asked.end();
            overdue
        };
        let (idle, unread) = (connection(5000, 5010), Connection { cookie: 8, rqueue: 10, ..connection(5000, 10) });
        assert_eq!(look(0, &[&idle, &unread]), [false, false]);
        assert_eq!(look(101, &[&idle, &unread]), [true, true]);
    }

    #[test]
    fn the_end_of_one_that_was_reset_says_nothing_of_its_server() {
        let (mut asked, start) = (Asked::default(), Instant::now());
        let look = |asked: &mut Asked, after, connections: &[Connection]| {
            asked.begin();
            for each in connections {
                asked.is_overdue(each, LASTS, start + Duration::from_millis(after));
            }
            asked.end();
            asked.servers == Servers::Untried
        };
        let unanswered = connection(5000, 300);
        assert!(look(&mut asked, 0, std::slice::from_ref(&unanswered)));
        assert!(look(&mut asked, 1000, &[unanswered]), "something was under way: it may be closed later");
        assert!(look(&mut asked, 1001, &[]), "and it was reset");
        assert_eq!(next(&mut asked, 7), 1, "the next one is tried again");
        let unread = Connection { rqueue: 10, ..connection(5000, 10) };
        assert!(look(&mut asked, 1100, std::slice::from_ref(&unread)));
        assert!(!look(&mut asked, 1400, &[unread]), "nobody has read it");
        assert!(asked.servers == Servers::Deaf);
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

//! What a load run has seen so far. These types are the JSON lines of the `load` binary, in both directions.
//!
//! Times named `…_ms` are milliseconds since the run began unless they are a length of time.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

/// The state of a run, live or final.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// No request is outstanding and none will be sent.
    #[serde(rename = "final")]
    pub finished: bool,
    /// When the run began, in milliseconds since 1970: adds to every `…_ms` below.
    pub started_unix_ms: u64,
    /// How long the run has lasted, in milliseconds.
    pub elapsed_ms: u64,
    /// Requests on connections of their own.
    pub fresh: ClassReport,
    /// Requests on kept-alive connections.
    pub keepalive: ClassReport,
    /// The longest time in which no request of either class was answered.
    pub longest_pause: Pause,
    /// Answers by version, the first word of the answer.
    pub versions: BTreeMap<String, Seen>,
    /// Answers by pod, the second word.
    pub pods: BTreeMap<String, Seen>,
    /// Answers by process, `<pod>/<start id>` from the second and third word: a restart of a container in place shows
    /// as a new one.
    pub instances: BTreeMap<String, Seen>,
    /// The first 100 requests whose first attempt failed.
    pub failures: Vec<Failure>,
}

/// One class of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// Requests that were due: answered, failed and outstanding.
    pub requests: u64,
    /// Requests with a good answer, at the first attempt or at the allowed retry.
    pub answered: u64,
    /// Requests without a good answer, after the retry that HTTP/1.1 allows (see [`crate::retry`]).
    pub failed: u64,
    /// Requests whose first attempt failed: what a client that never retries would have lost. Contains `failed`.
    pub failed_unretried: u64,
    /// Connections opened.
    pub opened: u64,
    /// Kept-alive connections that the server closed properly between two requests (or announced it would).
    pub reopened: u64,
    /// Kept-alive connections that were reset between two requests: harmless for this client, unkind of the server.
    pub idle_resets: u64,
    /// `failed` by what went wrong last.
    pub failed_kinds: BTreeMap<FailureKind, u64>,
    /// `failed_unretried` by what went wrong first.
    pub failed_unretried_kinds: BTreeMap<FailureKind, u64>,
    /// From the first failed request's due time to the last failure seen.
    pub failed_window: Option<Window>,
    /// From the first failed request's due time to the last one's: when it was too late, or too early, to ask.
    pub failed_due: Option<Window>,
    /// The same for first attempts.
    pub failed_unretried_window: Option<Window>,
    /// Of good answers.
    pub latency: Latency,
    /// The longest time in which no request of this class was answered.
    pub longest_pause: Pause,
}

/// Milliseconds from the moment a request was due (not sent: a client that was kept waiting is not left out) to the
/// last byte of its good answer. Percentiles are exact to 1 %, the maximum to 1 µs; all include up to 1 ms by which
/// the client's own timer is late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50_ms: f64,
    /// 99 of 100 answers were quicker.
    pub p99_ms: f64,
    /// 999 of 1000 answers were quicker.
    pub p999_ms: f64,
    /// The slowest answer.
    pub max_ms: f64,
}

/// A time without a good answer, never shorter than the distance between two requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// How long, in milliseconds.
    pub length_ms: u64,
    /// When it began: the good answer before it.
    pub at_ms: u64,
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Beginning.
    pub first_ms: u64,
    /// End.
    pub last_ms: u64,
}

/// How often and when something answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Good answers.
    pub answers: u64,
    /// When the first of them arrived.
    pub first_ms: u64,
    /// When the last of them arrived.
    pub last_ms: u64,
}

/// One request whose first attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// When the request was due.
    pub due_ms: u64,
    /// When the failure was seen.
    pub seen_ms: u64,
    /// On which connections.
    pub class: ConnectionClass,
    /// What the first attempt met.
    pub kind: FailureKind,
    /// The allowed retry was answered, so the request counts as answered.
    pub recovered: bool,
    /// The pod that answered on this connection before, if any did.
    pub pod: Option<String>,
}

/// Fresh or kept alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionClass {
    /// One connection for one request.
    Fresh,
    /// One connection for many requests, one after the other.
    Keepalive,
}

/// What a client sees when a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// Nobody listens.
    Refused,
    /// The connection was reset.
    Reset,
    /// The connection was closed before the answer was complete.
    Eof,
    /// No complete answer in time.
    Timeout,
    /// An answer that is not 2xx.
    BadStatus,
    /// An answer that is not HTTP/1.1 with a known length.
    Malformed,
    /// No route, or the network said so.
    Unreachable,
    /// The client itself lacked something (file descriptors, ports): the run proves nothing.
    Local,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Refused,
        Self::Reset,
        Self::Eof,
        Self::Timeout,
        Self::BadStatus,
        Self::Malformed,
        Self::Unreachable,
        Self::Local,
    ];
}

impl From<&io::Error> for FailureKind {
    fn from(error: &io::Error) -> Self {
        use io::ErrorKind as E;
        match error.kind() {
            E::ConnectionRefused => Self::Refused,
            E::ConnectionReset | E::ConnectionAborted | E::BrokenPipe => Self::Reset,
            E::UnexpectedEof => Self::Eof,
            E::TimedOut => Self::Timeout,
            E::HostUnreachable | E::NetworkUnreachable | E::NetworkDown => Self::Unreachable,
            _ => Self::Local,
        }
    }
}

impl Report {
    /// Requests of both classes.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.fresh.requests + self.keepalive.requests
    }

    /// Failed requests of both classes, after the allowed retry.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.fresh.failed + self.keepalive.failed
    }

    /// Requests of both classes whose first attempt failed.
    #[must_use]
    pub fn failed_unretried(&self) -> u64 {
        self.fresh.failed_unretried + self.keepalive.failed_unretried
    }
}

impl ClassReport {
    /// Requests that are due and neither answered nor failed.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.requests.saturating_sub(self.answered + self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_its_json_line() {
        let mut report = Report { finished: true, started_unix_ms: 1_764_000_000_000, ..Report::default() };
        report.fresh.failed_kinds.insert(FailureKind::BadStatus, 2);
        report.fresh.latency.p99_ms = 1.25;
        report.keepalive.failed_window = Some(Window { first_ms: 1, last_ms: 9 });
        report.versions.insert("v1".to_owned(), Seen { answers: 3, first_ms: 0, last_ms: 4 });
        let line = serde_json::to_string(&report).unwrap();
        assert!(line.contains(r#""final":true"#) && line.contains(r#""bad-status":2"#), "{line}");
        assert_eq!(serde_json::from_str::<Report>(&line).unwrap(), report);
    }
}

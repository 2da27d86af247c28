//! Counting: what the requests of a run report, and the [`Report`] made of it at any moment.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::histogram::Histogram;
use crate::{ClassReport, ConnectionClass, Failure, FailureKind, Pause, Report, Seen, Window};

const MAX_FAILURES_LISTED: usize = 100;
/// Names come from whatever answers, so their number and length are bounded.
const MAX_NAMES: usize = 512;
const MAX_NAME_CHARS: usize = 128;

/// What an answer says about its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answerer {
    pub(crate) version: String,
    pub(crate) pod: String,
    pub(crate) instance: String,
}

impl Answerer {
    /// Reads `<version> <pod> <start id>`; words that are missing are `-`.
    pub(crate) fn parse(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let mut words = text.split_ascii_whitespace().map(|word| word.chars().take(MAX_NAME_CHARS).collect::<String>());
        let mut word = || words.next().unwrap_or_else(|| "-".to_owned());
        let (version, pod) = (word(), word());
        let instance = format!("{pod}/{}", word());
        Self { version, pod, instance }
    }
}

/// The first attempt of a request that did not succeed at once.
#[derive(Clone, Debug)]
pub(crate) struct FirstFailure {
    pub(crate) kind: FailureKind,
    pub(crate) seen: Instant,
    pub(crate) pod: Option<String>,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) class: ConnectionClass,
    pub(crate) due: Instant,
    pub(crate) first_failure: Option<FirstFailure>,
    pub(crate) result: Result<Answerer, FailureKind>,
}

/// Something that happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEvent {
    Opened,
    ClosedBetweenRequests,
    ResetBetweenRequests,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    started: Instant,
    started_unix: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    finished: Option<Instant>,
    fresh: Tally,
    keepalive: Tally,
    pause: PauseMeter,
    versions: BTreeMap<String, Seen>,
    pods: BTreeMap<String, Seen>,
    instances: BTreeMap<String, Seen>,
    failures: Vec<Failure>,
}

#[derive(Debug)]
struct Tally {
    counts: ClassReport,
    latency: Histogram,
    pause: PauseMeter,
}

/// The longest time since a good answer.
#[derive(Clone, Copy, Debug, Default)]
struct PauseMeter {
    last_good_ms: u64,
    longest: Pause,
}

impl Recorder {
    pub(crate) fn new(started: Instant) -> Self {
        let started_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started, started_unix, state: Mutex::new(State::new()) }
    }

    pub(crate) fn due(&self, class: ConnectionClass) {
        self.state().tally(class).counts.requests += 1;
    }

    pub(crate) fn connection(&self, class: ConnectionClass, event: ConnectionEvent) {
        let mut state = self.state();
        let counts = &mut state.tally(class).counts;
        match event {
            ConnectionEvent::Opened => counts.opened += 1,
            ConnectionEvent::ClosedBetweenRequests => counts.reopened += 1,
            ConnectionEvent::ResetBetweenRequests => counts.idle_resets += 1,
        }
    }

    pub(crate) fn ended(&self, outcome: Outcome) {
        let now = Instant::now();
        let (now_ms, due_ms) = (self.ms(now), self.ms(outcome.due));
        let mut state = self.state();
        if let Some(first) = &outcome.first_failure {
            let failure = Failure {
                due_ms,
                seen_ms: self.ms(first.seen),
                class: outcome.class,
                kind: first.kind,
                recovered: outcome.result.is_ok(),
                pod: first.pod.clone(),
            };
            state.first_attempt_failed(failure);
        }
        match outcome.result {
            Ok(answerer) => state.answered(outcome.class, now.duration_since(outcome.due), now_ms, answerer),
            Err(kind) => state.failed(outcome.class, kind, due_ms, now_ms),
        }
    }

    pub(crate) fn finish(&self) {
        self.state().finished = Some(Instant::now());
    }

    pub(crate) fn report(&self) -> Report {
        let state = self.state();
        let now = state.finished.unwrap_or_else(Instant::now);
        let now_ms = self.ms(now);
        let (fresh, keepalive) = (state.fresh.report(now_ms), state.keepalive.report(now_ms));
        let waiting = fresh.outstanding() + keepalive.outstanding() > 0;
        Report {
            finished: state.finished.is_some(),
            started_unix_ms: whole_ms(self.started_unix),
            elapsed_ms: now_ms,
            longest_pause: state.pause.at(now_ms, waiting),
            fresh,
            keepalive,
            versions: state.versions.clone(),
            pods: state.pods.clone(),
            instances: state.instances.clone(),
            failures: state.failures.clone(),
        }
    }

    fn ms(&self, moment: Instant) -> u64 {
        whole_ms(moment.saturating_duration_since(self.started))
    }

    /// Counters stay meaningful when a thread panicked between two of them, so a poisoned lock is used on.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new() -> Self {
        Self {
            finished: None,
            fresh: Tally::new(),
            keepalive: Tally::new(),
            pause: PauseMeter::default(),
            versions: BTreeMap::new(),
            pods: BTreeMap::new(),
            instances: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    fn tally(&mut self, class: ConnectionClass) -> &mut Tally {
        match class {
            ConnectionClass::Fresh => &mut self.fresh,
            ConnectionClass::Keepalive => &mut self.keepalive,
        }
    }

    fn first_attempt_failed(&mut self, failure: Failure) {
        let counts = &mut self.tally(failure.class).counts;
        counts.failed_unretried += 1;
        *counts.failed_unretried_kinds.entry(failure.kind).or_default() += 1;
        widen(&mut counts.failed_unretried_window, failure.due_ms, failure.seen_ms);
        if self.failures.len() < MAX_FAILURES_LISTED {
            self.failures.push(failure);
        }
    }

    fn answered(&mut self, class: ConnectionClass, latency: Duration, now_ms: u64, answerer: Answerer) {
        self.pause.good(now_ms);
        let tally = self.tally(class);
        tally.counts.answered += 1;
        tally.latency.record(latency);
        tally.pause.good(now_ms);
        see(&mut self.versions, answerer.version, now_ms);
        see(&mut self.pods, answerer.pod, now_ms);
        see(&mut self.instances, answerer.instance, now_ms);
    }

    fn failed(&mut self, class: ConnectionClass, kind: FailureKind, due_ms: u64, now_ms: u64) {
        self.pause.bad(now_ms);
        let tally = self.tally(class);
        tally.pause.bad(now_ms);
        tally.counts.failed += 1;
        *tally.counts.failed_kinds.entry(kind).or_default() += 1;
        widen(&mut tally.counts.failed_window, due_ms, now_ms);
        widen(&mut tally.counts.failed_due, due_ms, due_ms);
    }
}

impl Tally {
    fn new() -> Self {
        Self { counts: ClassReport::default(), latency: Histogram::new(), pause: PauseMeter::default() }
    }

    fn report(&self, now_ms: u64) -> ClassReport {
        let waiting = self.counts.outstanding() > 0;
        ClassReport {
            latency: self.latency.latency(),
            longest_pause: self.pause.at(now_ms, waiting),
            ..self.counts.clone()
        }
    }
}

impl PauseMeter {
    fn good(&mut self, now_ms: u64) {
        self.bad(now_ms);
        self.last_good_ms = now_ms;
    }

    fn bad(&mut self, now_ms: u64) {
        self.longest = self.at(now_ms, true);
    }

    /// The longest pause up to now; the one that is going on counts while a request waits for its end.
    fn at(self, now_ms: u64, waiting: bool) -> Pause {
        let current = Pause { length_ms: now_ms.saturating_sub(self.last_good_ms), at_ms: self.last_good_ms };
        if waiting && current.length_ms > self.longest.length_ms { current } else { self.longest }
    }
}

fn widen(window: &mut Option<Window>, first_ms: u64, last_ms: u64) {
    let old = window.unwrap_or(Window { first_ms, last_ms });
    *window = Some(Window { first_ms: old.first_ms.min(first_ms), last_ms: old.last_ms.max(last_ms) });
}

fn see(names: &mut BTreeMap<String, Seen>, name: String, now_ms: u64) {
    let name = if names.len() < MAX_NAMES || names.contains_key(&name) { name } else { "(others)".to_owned() };
    let seen = names.entry(name).or_insert(Seen { answers: 0, first_ms: now_ms, last_ms: now_ms });
    seen.answers += 1;
    seen.last_ms = now_ms;
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

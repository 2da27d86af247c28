//! What the agent counts (docs/metrics.md).

use hitless_api::{Outcome, TransitionResult, reasons};
use hitless_runtime::write::Writes;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: String,
    reason: &'static str,
}

impl Labels {
    fn of(outcome: Outcome, reason: &'static str) -> Self {
        Self { outcome: format!("{outcome:?}"), reason }
    }
}

/// A reason that is known by name, [`reasons::OTHER`], or none of a cancelled operation: so many series there are, and no more.
fn known(outcome: Outcome, reason: &str) -> &'static str {
    let mut all = reasons::results().filter(|(of, _)| *of == outcome).map(|(_, name)| name);
    let otherwise = if outcome == Outcome::Cancelled { "" } else { reasons::OTHER };
    all.find(|name| *name == reason).unwrap_or(otherwise)
}

/// Why the endpoint refuses.
const REFUSALS: [&str; 5] = ["body", "connections", "rate", "streams", "waits"];
/// How connections end that do not end by themselves: number of a report, and the label.
const ENDS: [(&str, &str); 3] = [
    (TransitionResult::CLOSED, "closed"),
    (TransitionResult::DESTROYED, "destroyed"),
    (TransitionResult::GIVEN_UP, "given_up"),
];
/// What agents write to.
const RESOURCES: [&str; 3] = ["nodetransitions/status", "pods", "pods/status"];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    how: &'static str,
}

/// Upper bounds in seconds. A drain ends after seconds to minutes,
const DRAIN: [f64; 9] = [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// a container is away for tenths of a second to a minute. 2.5 and 4 are what a Hold bridges by default and at most.
const GAP: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 4.0, 8.0, 15.0, 60.0];

/// What the endpoint has refused for want of room. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Family<RefusalLabels, Counter>);

impl Refusals {
    /// One more.
    pub fn count(&self, reason: &'static str) {
        self.0.get_or_create(&RefusalLabels { reason }).inc();
    }
}

/// Counters of the agent. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Writes to the API server.
    pub writes: Writes,
    /// Operations that have not ended.
    pub live: Gauge,
    /// What the endpoint has refused.
    pub refusals: Refusals,
    ended: Family<Labels, Counter>,
    drain: Histogram,
    gap: Histogram,
    pause: Histogram,
    connections: Family<EndLabels, Counter>,
}

impl Metrics {
    /// Counters that `registry` shows.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            writes: Writes::register(registry),
            live: Gauge::default(),
            refusals: Refusals::default(),
            ended: Family::default(),
            drain: Histogram::new(DRAIN),
            gap: Histogram::new(GAP),
            pause: Histogram::new(GAP),
            connections: Family::default(),
        };
        registry.register("hitless_transitions", "Operations that have not ended", metrics.live.clone());
        registry.register("hitless_transitions_ended", "Operations that have ended", metrics.ended.clone());
        let words = "Time from the order to leave service to the patch of the containers";
        registry.register("hitless_drain_seconds", words, metrics.drain.clone());
        let words = "Time from the patch of the containers until the new processes listen";
        registry.register("hitless_gap_seconds", words, metrics.gap.clone());
        let words = "Time for which the client of a Hold waited that waited longest";
        registry.register("hitless_longest_pause_seconds", words, metrics.pause.clone());
        let words = "Connections that did not end by themselves before the containers were replaced";
        registry.register("hitless_connections_ended", words, metrics.connections.clone());
        let words = "Connections and requests that the endpoint has refused";
        registry.register("hitless_endpoint_refusals", words, metrics.refusals.0.clone());
        metrics.begin();
        metrics
    }

    /// Everything that is known by name is there from the start: an alert on a counter that is born with its first event has nothing to
    /// compare it with.
    fn begin(&self) {
        self.writes.expect(&RESOURCES);
        for (outcome, reason) in reasons::results() {
            drop(self.ended.get_or_create(&Labels::of(outcome, reason)));
        }
        for (_, how) in ENDS {
            drop(self.connections.get_or_create(&EndLabels { how }));
        }
        for reason in REFUSALS {
            drop(self.refusals.0.get_or_create(&RefusalLabels { reason }));
        }
    }

    /// An operation has ended. Reasons are our own words but for cancelled ones, where the controller's are left out.
    pub fn ended(&self, result: &TransitionResult) {
        let labels = Labels::of(result.outcome, known(result.outcome, &result.reason));
        self.ended.get_or_create(&labels).inc();
        let number = |name: &str| result.report.get(name).and_then(|number| u32::try_from(*number).ok());
        let times = [
            (TransitionResult::DRAIN, &self.drain),
            (TransitionResult::GAP, &self.gap),
            (TransitionResult::LONGEST_PAUSE, &self.pause),
        ];
        for (name, histogram) in times {
            if let Some(milliseconds) = number(name) {
                histogram.observe(f64::from(milliseconds) / 1000.0);
            }
        }
        for (name, how) in ENDS {
            if let Some(count) = number(name) {
                self.connections.get_or_create(&EndLabels { how }).inc_by(count.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_operations_numbers_are_seen_by_those_who_watch_the_node() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let report = BTreeMap::from([
            (TransitionResult::DRAIN.to_owned(), 1500),
            (TransitionResult::GAP.to_owned(), 240),
            (TransitionResult::GIVEN_UP.to_owned(), 2),
        ]);
        metrics.ended(&TransitionResult { outcome: Outcome::Done, reason: "Done".to_owned(), report });
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"hitless_transitions_ended_total{outcome="Done",reason="Done"} 1"#,
            r#"hitless_drain_seconds_bucket{le="2.0"} 1"#,
            "hitless_drain_seconds_sum 1.5",
            r#"hitless_gap_seconds_bucket{le="0.25"} 1"#,
            "hitless_longest_pause_seconds_count 0",
            r#"hitless_connections_ended_total{how="given_up"} 2"#,
        ] {
            assert!(text.lines().any(|each| each == line), "no {line} in:\n{text}");
        }
    }

    #[test]
    fn what_has_not_happened_yet_is_there_as_zero_and_what_is_not_known_by_name_is_one_series() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let first = text();
        for line in [
            r#"hitless_transitions_ended_total{outcome="Failed",reason="NotReplaced"} 0"#,
            r#"hitless_transitions_ended_total{outcome="RolledBack",reason="CrashLoopBackOff"} 0"#,
            r#"hitless_transitions_ended_total{outcome="RolledBack",reason="Other"} 0"#,
            r#"hitless_transitions_ended_total{outcome="Cancelled",reason=""} 0"#,
            r#"hitless_connections_ended_total{how="destroyed"} 0"#,
            r#"hitless_endpoint_refusals_total{reason="rate"} 0"#,
            r#"hitless_api_writes_total{resource="pods/status",outcome="denied"} 0"#,
        ] {
            assert!(first.lines().any(|each| each == line), "no {line} in:\n{first}");
        }
        for reason in ["SomethingNew", "SomethingElse"] {
            let reason = reason.to_owned();
            metrics.ended(&TransitionResult { outcome: Outcome::Failed, reason, report: BTreeMap::new() });
        }
        let reason = "the controller's words".to_owned();
        metrics.ended(&TransitionResult { outcome: Outcome::Cancelled, reason, report: BTreeMap::new() });
        let then = text();
        assert!(then.contains(r#"{outcome="Failed",reason="Other"} 2"#), "{then}");
        assert!(then.contains(r#"{outcome="Cancelled",reason=""} 1"#), "{then}");
        assert_eq!(first.lines().count(), then.lines().count(), "no series came");
    }
}

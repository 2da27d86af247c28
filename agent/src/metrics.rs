//! What the agent counts (docs/metrics.md).

use hitless_api::{Outcome, TransitionResult};
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
    reason: String,
}

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
        metrics
    }

    /// An operation has ended. Reasons are our own words but for cancelled ones, where the controller's are left out.
    pub fn ended(&self, result: &TransitionResult) {
        let reason = if result.outcome == Outcome::Cancelled { "" } else { &result.reason };
        let labels = Labels { outcome: format!("{:?}", result.outcome), reason: reason.to_owned() };
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
        let ends = [
            (TransitionResult::CLOSED, "closed"),
            (TransitionResult::DESTROYED, "destroyed"),
            (TransitionResult::GIVEN_UP, "given_up"),
        ];
        for (name, how) in ends {
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
        metrics.ended(&TransitionResult { outcome: Outcome::Done, reason: "Verified".to_owned(), report });
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"hitless_transitions_ended_total{outcome="Done",reason="Verified"} 1"#,
            r#"hitless_drain_seconds_bucket{le="2.0"} 1"#,
            "hitless_drain_seconds_sum 1.5",
            r#"hitless_gap_seconds_bucket{le="0.25"} 1"#,
            "hitless_longest_pause_seconds_count 0",
            r#"hitless_connections_ended_total{how="given_up"} 2"#,
        ] {
            assert!(text.lines().any(|each| each == line), "no {line} in:\n{text}");
        }
    }
}

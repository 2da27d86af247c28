//! What the controller counts (docs/metrics.md).

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use hitless_rollout::round::Round;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    stage: &'static str,
}

/// The controller's metrics. Clones share the values.
#[derive(Clone, Debug)]
pub struct Metrics {
    rounds: Counter,
    seconds: Histogram,
    leading: Gauge,
    waiting: Family<Reason, Gauge>,
    workloads: Family<StageLabels, Gauge>,
    left_out: Gauge,
}

impl Metrics {
    /// Metrics that `registry` shows.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            rounds: Counter::default(),
            seconds: Histogram::new([0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5]),
            leading: Gauge::default(),
            waiting: Family::default(),
            workloads: Family::default(),
            left_out: Gauge::default(),
        };
        registry.register("hitless_rounds", "Decisions about the whole cluster", metrics.rounds.clone());
        registry.register("hitless_round_seconds", "Time that a decision took", metrics.seconds.clone());
        registry.register("hitless_leading", "1 if this process leads", metrics.leading.clone());
        registry.register("hitless_waiting_pods", "Pods that wish an operation and wait", metrics.waiting.clone());
        let words = "Workloads that have opted in, by where they are";
        registry.register("hitless_workloads", words, metrics.workloads.clone());
        let words = "Namespaces about which nothing is decided, because they can't be read";
        registry.register("hitless_namespaces_left_out", words, metrics.left_out.clone());
        metrics
    }

    /// Who does not lead decides nothing: what it has decided before is not true any more.
    pub(crate) fn leads(&self, leading: bool) {
        self.leading.set(i64::from(leading));
        if !leading {
            self.waiting.clear();
            self.workloads.clear();
            self.left_out.set(0);
        }
    }

    pub(crate) fn left_out(&self, namespaces: usize) {
        self.left_out.set(i64::try_from(namespaces).unwrap_or(i64::MAX));
    }

    pub(crate) fn decided(&self, round: &Round, took: Duration) {
        self.rounds.inc();
        self.seconds.observe(took.as_secs_f64());
        self.waiting.clear();
        for waiting in round.verdicts.iter().filter_map(|verdict| verdict.waiting.as_ref()) {
            self.waiting.get_or_create(&Reason { reason: waiting.reason() }).inc();
        }
        self.workloads.clear();
        for (stage, count) in &round.stages {
            self.workloads.get_or_create(&StageLabels { stage }).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_halted_rollout_is_seen_until_another_controller_leads() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        metrics.leads(true);
        let stages = BTreeMap::from([("Halted", 1), ("Idle", 7)]);
        metrics.decided(&Round { stages, ..Round::default() }, Duration::ZERO);
        assert!(text().contains("hitless_workloads{stage=\"Halted\"} 1"), "{}", text());
        metrics.decided(&Round { stages: BTreeMap::from([("Idle", 8)]), ..Round::default() }, Duration::ZERO);
        assert!(!text().contains("Halted") && text().contains("hitless_workloads{stage=\"Idle\"} 8"), "{}", text());
        metrics.leads(false);
        assert!(!text().contains("stage="), "{}", text());
    }
}

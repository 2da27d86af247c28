//! What the controller counts (docs/metrics.md).

mod by_workload;

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use hitless_api::reasons;
use hitless_rollout::round::Round;
use hitless_rollout::snapshot::Snapshot;
use hitless_workloads::Stage;
use jiff::Timestamp;

use by_workload::Named;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    stage: &'static str,
}

/// What controllers write to.
pub const RESOURCES: [&str; 10] = [
    "daemonsets",
    "deployments",
    "events",
    "leases",
    "nodetransitions",
    "pods",
    "replicasets",
    "services",
    "statefulsets",
    "transitionledgers",
];

/// The controller's metrics.
#[derive(Debug)]
pub struct Metrics {
    rounds: Counter,
    seconds: Histogram,
    leading: Gauge,
    waiting: Family<Reason, Gauge>,
    workloads: Family<StageLabels, Gauge>,
    left_out: Gauge,
    named: Named,
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
            named: Named::register(registry),
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
    pub(crate) fn leads(&mut self, leading: bool) {
        self.leading.set(i64::from(leading));
        if !leading {
            self.waiting.clear();
            self.workloads.clear();
            self.left_out.set(0);
            self.named.end_of_term();
        }
    }

    pub(crate) fn left_out(&self, namespaces: usize) {
        self.left_out.set(i64::try_from(namespaces).unwrap_or(i64::MAX));
    }

    pub(crate) fn decided(&mut self, snapshot: &Snapshot, round: &Round, took: Duration, now: Timestamp) {
        self.rounds.inc();
        self.seconds.observe(took.as_secs_f64());
        self.waiting.clear();
        for reason in reasons::waits() {
            drop(self.waiting.get_or_create(&Reason { reason }));
        }
        for waiting in round.verdicts.iter().filter_map(|verdict| verdict.waiting.as_ref()) {
            self.waiting.get_or_create(&Reason { reason: waiting.reason() }).inc();
        }
        self.workloads.clear();
        for stage in Stage::NAMES {
            drop(self.workloads.get_or_create(&StageLabels { stage }));
        }
        for (stage, count) in &round.stages {
            self.workloads.get_or_create(&StageLabels { stage }).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        self.named.decided(snapshot, round, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_halted_rollout_is_seen_until_another_controller_leads() {
        let mut registry = Registry::default();
        let mut metrics = Metrics::register(&mut registry);
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        metrics.leads(true);
        let decided = |metrics: &mut Metrics, stages: &[(&'static str, usize)]| {
            let round = Round { stages: stages.iter().copied().collect(), ..Round::default() };
            metrics.decided(&Snapshot::default(), &round, Duration::ZERO, Timestamp::UNIX_EPOCH);
        };
        decided(&mut metrics, &[("Halted", 1), ("Idle", 7)]);
        assert!(text().contains("hitless_workloads{stage=\"Halted\"} 1"), "{}", text());
        decided(&mut metrics, &[("Idle", 8)]);
        for line in ["hitless_workloads{stage=\"Halted\"} 0", "hitless_workloads{stage=\"Idle\"} 8"] {
            assert!(text().contains(line), "{}", text());
        }
        assert!(text().contains("hitless_waiting_pods{reason=\"ImageNotFetched\"} 0"), "{}", text());
        metrics.leads(false);
        assert!(!text().contains("stage="), "{}", text());
    }
}

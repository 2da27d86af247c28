//! What the controller counts.

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

/// The controller's metrics. Clones share the values.
#[derive(Clone, Debug)]
pub struct Metrics {
    rounds: Counter,
    seconds: Histogram,
    leading: Gauge,
    waiting: Family<Reason, Gauge>,
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
        };
        registry.register("hitless_rounds", "Decisions about the whole cluster", metrics.rounds.clone());
        registry.register("hitless_round_seconds", "Time that a decision took", metrics.seconds.clone());
        registry.register("hitless_leading", "1 if this process leads", metrics.leading.clone());
        registry.register("hitless_waiting_pods", "Pods that wish an operation and wait", metrics.waiting.clone());
        metrics
    }

    pub(crate) fn leads(&self, leading: bool) {
        self.leading.set(i64::from(leading));
    }

    pub(crate) fn decided(&self, round: &Round, took: Duration) {
        self.rounds.inc();
        self.seconds.observe(took.as_secs_f64());
        self.waiting.clear();
        for waiting in round.verdicts.iter().filter_map(|verdict| verdict.waiting.as_ref()) {
            self.waiting.get_or_create(&Reason { reason: waiting.reason() }).inc();
        }
    }
}

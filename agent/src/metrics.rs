//! Counters of the agent.

use hitless_api::Outcome;
use hitless_runtime::write::Writes;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
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
        };
        registry.register("hitless_transitions", "Operations that have not ended", metrics.live.clone());
        registry.register("hitless_transitions_ended", "Operations that have ended", metrics.ended.clone());
        let words = "Connections and requests that the endpoint has refused";
        registry.register("hitless_endpoint_refusals", words, metrics.refusals.0.clone());
        metrics
    }

    /// An operation has ended. Reasons are our own words but for cancelled ones, where the controller's are left out.
    pub fn ended(&self, outcome: Outcome, reason: &str) {
        let reason = if outcome == Outcome::Cancelled { "" } else { reason };
        self.ended.get_or_create(&Labels { outcome: format!("{outcome:?}"), reason: reason.to_owned() }).inc();
    }
}

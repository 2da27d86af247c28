//! Counters of all watches of a process.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    kind: &'static str,
}

/// Interrupted watches and objects that could not be used. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    interrupted: Family<Labels, Counter>,
    unparsable: Family<Labels, Counter>,
    unreadable: Family<Labels, Gauge>,
}

impl Metrics {
    /// Counters that `registry` shows.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("hitless_watch_errors", "Watches interrupted by an error", metrics.interrupted.clone());
        registry.register(
            "hitless_unparsable_objects",
            "Objects from the API server skipped because they do not parse",
            metrics.unparsable.clone(),
        );
        registry.register(
            "hitless_unreadable",
            "1: objects of this kind are defined and cannot be listed, so nothing is done for them",
            metrics.unreadable.clone(),
        );
        metrics
    }

    pub(super) fn unreadable(&self, kind: &'static str, is: bool) {
        self.unreadable.get_or_create(&Labels { kind }).set(i64::from(is));
    }

    pub(super) fn failed(&self, kind: &'static str) {
        self.interrupted.get_or_create(&Labels { kind }).inc();
    }

    pub(super) fn unparsable(&self, kind: &'static str) {
        self.unparsable.get_or_create(&Labels { kind }).inc();
    }
}

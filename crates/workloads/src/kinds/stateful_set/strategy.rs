//! What the owner of a StatefulSet wants of its update.

use serde_json::Value;

use super::StatefulSet;
use crate::kinds::on_delete;

impl StatefulSet<'_> {
    fn rolling_update(&self) -> Value {
        on_delete::wanted(self.object, &self.body.strategy)["rollingUpdate"].take()
    }

    /// `partition` of the owner's strategy: so many pods, the first ones, keep their version.
    pub(super) fn partition(&self) -> i32 {
        self.rolling_update()["partition"].as_i64().and_then(|count| count.try_into().ok()).unwrap_or_default()
    }

    /// How many pods may be away at a time: `maxUnavailable` of the owner's strategy, a percentage rounded down, at least one, as
    /// the StatefulSet controller has it; else one.
    pub(super) fn at_a_time(&self) -> usize {
        let replicas = u64::try_from(self.body.replicas).unwrap_or_default();
        let limit = match &self.rolling_update()["maxUnavailable"] {
            Value::String(text) => {
                let percent =
                    text.strip_suffix('%').and_then(|percent| percent.parse::<u64>().ok()).unwrap_or_default();
                replicas.saturating_mul(percent) / 100
            }
            other => other.as_u64().unwrap_or(1),
        };
        usize::try_from(limit.max(1)).unwrap_or(usize::MAX)
    }
}

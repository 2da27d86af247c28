//! What the owner of a DaemonSet wants of its update.

use serde_json::Value;

use super::DaemonSet;
use crate::kinds::on_delete;

impl DaemonSet<'_> {
    /// How many nodes may be without an available pod: `maxUnavailable` of the owner's strategy, a percentage rounded up, as the
    /// DaemonSet controller has it, else one. An owner who wants a surge instead gets one at a time.
    pub(super) fn max_unavailable(&self) -> u32 {
        let wanted = on_delete::wanted(self.object, &self.body.strategy);
        let limit = match &wanted["rollingUpdate"]["maxUnavailable"] {
            Value::String(text) => {
                let percent =
                    text.strip_suffix('%').and_then(|percent| percent.parse::<u32>().ok()).unwrap_or_default();
                self.body.status.desired().saturating_mul(percent).div_ceil(100)
            }
            other => other.as_u64().and_then(|count| count.try_into().ok()).unwrap_or(1),
        };
        limit.max(1)
    }
}

//! `spec.updateStrategy` of StatefulSets and DaemonSets.

use serde_json::Value;

/// Whether the native controller leaves pods alone that are not up to date.
pub(crate) fn is_on_delete(strategy: &Value) -> bool {
    strategy["type"] == "OnDelete"
}

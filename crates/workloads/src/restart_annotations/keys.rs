//! Keys of annotations that people and their tools change for a restart.

use hitless_api::names::{PREFIX, annotations as names};

/// What a change of a restart annotation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// Start again, whatever for.
    Restart,
    /// Configuration has changed that something in the pod reads. Who that is nobody has said.
    ConfigChanged,
    /// The same, by hitless, which knows who reads what has changed (docs/contract.md#config-reload).
    Reload,
}

/// Keys that people and their tools change for a restart and nothing else.
pub(crate) const KEYS: [(&str, Says); 3] =
    [(names::KUBECTL_RESTARTED_AT, Says::Restart), ("rollme", Says::Restart), (names::CONFIG, Says::Reload)];
/// And beginnings of such keys: Helm's habit, Reloader, Keel.
pub(crate) const PREFIXES: [(&str, Says); 3] =
    [("checksum/", Says::ConfigChanged), ("reloader.stakater.com/", Says::ConfigChanged), ("keel.sh/", Says::Restart)];

/// Whether hitless itself reads this annotation from pods: it would go on with the old value.
pub(crate) fn is_read_here(key: &str) -> bool {
    key.starts_with(PREFIX) && key != names::CONFIG || key == names::SKIP_RULES
}

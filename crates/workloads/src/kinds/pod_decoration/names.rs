//! Labels of pods that have decorations.

/// Beginning of a pod's labels that name the revision of each decoration that it has; the decoration's name follows.
pub(crate) const LABEL: &str = "poddecoration.kusionstack.io/pd-";

/// The pod's label that names the revision of this decoration.
pub(crate) fn label(name: &str) -> String {
    format!("{LABEL}{name}")
}

/// A label that is a mark, among labels that somebody else writes.
pub(crate) fn mark_among<'a>(mut names: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    names.find(|name| name.starts_with(LABEL)).map(String::as_str)
}

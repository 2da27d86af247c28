//! Which state of an object was seen.

/// uid and resourceVersion that a write is conditional on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

//! How pods of a set get another version, which of them, and what becomes of their claims.

/// How a pod gets another version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpgradePolicy {
    /// In place where that can be, else as a new pod.
    #[default]
    InPlaceIfPossible,
    /// In place or not at all.
    InPlaceOnly,
    /// As a new pod.
    Recreate,
    /// A new pod is there before the old one goes.
    Replace,
}

/// Which pods are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All but this number.
    Partition(usize),
    /// Those with this label.
    ByLabel(&'static str),
}

/// When claims outlive what they were made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepsClaims {
    /// The set.
    pub when_deleted: bool,
    /// Their instance id.
    pub when_scaled: bool,
}

//! A template that a workload has had, and the write that goes back to it.

use std::fmt;

use crate::write::Write;

/// A template that a workload has had, as people are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// As `kubectl rollout history` counts; `None`: it has no number yet.
    pub number: Option<u64>,
    /// Images of its containers.
    pub images: Vec<String>,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "revision {number}")?,
            None => f.write_str("an earlier revision")?,
        }
        write!(f, " ({})", self.images.join(", "))
    }
}

/// What its owner writes to go back, and whereto.
#[derive(Clone, Debug, PartialEq)]
pub struct Undo {
    /// Gives the workload the template of that version.
    pub write: Write,
    /// The version.
    pub to: Version,
}

/// The version that the workload's template asks for, where that is one that it has had before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayBack {
    /// The version.
    pub to: Version,
    /// The version that was left for it was judged bad.
    pub from_bad: bool,
}

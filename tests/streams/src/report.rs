//! What the clients have seen. This is the JSON line of the `streams` binary, in both directions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Kind;

/// The streams of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// None is open and none will be opened.
    #[serde(rename = "final")]
    pub finished: bool,
    /// Opened, by kind.
    pub opened: BTreeMap<Kind, u64>,
    /// Ended by the client when it had planned to, by kind.
    pub completed: BTreeMap<Kind, u64>,
    /// When the last of these ended, in microseconds since 1970; 0 if none has.
    pub last_end_unix_us: u64,
    /// Not to be opened, or ended by somebody else.
    pub cut: Vec<Cut>,
}

/// A stream that did not last as long as its client had planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// What it was.
    pub kind: Kind,
    /// How long it lasted, in milliseconds.
    pub lasted_ms: u64,
    /// How long it was meant to last, in milliseconds.
    pub planned_ms: u64,
    /// What the client saw.
    pub why: String,
}

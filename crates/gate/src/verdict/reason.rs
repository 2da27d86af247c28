//! Yes or no, and why.

use std::fmt;

use serde::Serialize;

use super::{Allows, Denies};

/// Why a rule says yes or no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict")]
pub enum Reason {
    /// The rule has no objection.
    #[serde(rename = "Allowed")]
    Allows(Allows),
    /// The pod has to wait.
    #[serde(rename = "Denied")]
    Denies(Denies),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allows(because) => because.fmt(f),
            Self::Denies(because) => because.fmt(f),
        }
    }
}

impl From<Allows> for Reason {
    fn from(because: Allows) -> Self {
        Self::Allows(because)
    }
}

impl From<Denies> for Reason {
    fn from(because: Denies) -> Self {
        Self::Denies(because)
    }
}

impl From<Result<Allows, Denies>> for Reason {
    fn from(answer: Result<Allows, Denies>) -> Self {
        answer.map_or_else(Self::Denies, Self::Allows)
    }
}

impl PartialEq<Allows> for Reason {
    fn eq(&self, other: &Allows) -> bool {
        matches!(self, Self::Allows(because) if because == other)
    }
}

impl PartialEq<Denies> for Reason {
    fn eq(&self, other: &Denies) -> bool {
        matches!(self, Self::Denies(because) if because == other)
    }
}

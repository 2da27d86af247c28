//! Where `kubectl hitless undo` and `cancel` lead, for all kinds (docs/contract.md 20).

use std::fmt;

use crate::kind::Kind;
use crate::object::Object;
use crate::world::World;
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

/// Goes back to the revision with this number, or else to the one before.
///
/// Who goes back twice in a row does not mean the version before the one that he has just gone back to. Without a number nothing is
/// written while the workload is on a way back already, nor where it has come back from a version that was judged bad.
///
/// # Errors
/// Why it does not go back, as a clause for people.
pub fn undo(
    kind: &dyn Kind,
    root: &Object,
    world: &World<'_>,
    to_revision: Option<u64>,
    is_under_way: bool,
) -> Result<Undo, String> {
    let undo = kind.undo(root, world, to_revision);
    let back = kind.way_back(root, world).filter(|back| is_under_way || back.from_bad);
    match back.filter(|_| to_revision.is_none()) {
        None => undo,
        Some(back) => Err(already(root, &back, is_under_way, undo.ok())),
    }
}

fn already(root: &Object, back: &WayBack, is_under_way: bool, other: Option<Undo>) -> String {
    let on = root.id.arguments();
    let text = if is_under_way {
        format!(
            "it goes back to {} already, so it is left as it is; see it end with: kubectl hitless wait {on}",
            back.to
        )
    } else {
        format!("it is back at {} already, because the version that it had then was judged bad", back.to)
    };
    match other.and_then(|other| Some((other.to.number?, other.to))) {
        Some((number, other)) => {
            format!("{text}; to get {other}: kubectl hitless undo {on} --to-revision {number}")
        }
        None => text,
    }
}

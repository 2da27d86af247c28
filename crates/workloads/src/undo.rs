//! Where `kubectl hitless undo` and `cancel` lead, for all kinds (docs/contract.md#whose-hold).

use crate::kind::Kind;
use crate::object::Object;
use crate::version::{Undo, WayBack};
use crate::world::World;

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

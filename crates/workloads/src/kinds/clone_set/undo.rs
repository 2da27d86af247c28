//! What its owner writes to go back to an earlier template. The controller keeps them whole.

use super::CloneSet;
use crate::halted;
use crate::revision::Revision;
use crate::revision::history::History;
use crate::version::{Undo, Version};
use crate::world::World;
use crate::write::Write;

/// The template of the revision with this number, or of the newest other one.
pub(super) fn undo(set: CloneSet<'_>, world: &World<'_>, to_revision: Option<u64>) -> Result<Undo, String> {
    let history = History::of(set.object, world);
    let own = set.body.template.revision();
    let number = |revision: &Revision<'_>| u64::try_from(revision.body.number).ok();
    let others: Vec<(u64, Revision<'_>)> = history
        .iter()
        .filter(|(_, revision)| revision.body.shape.revision != own)
        .filter_map(|(_, revision)| Some((number(&revision)?, revision)))
        .collect();
    let (number, revision) = match to_revision {
        Some(wanted) => others
            .iter()
            .find(|(number, _)| *number == wanted)
            .ok_or_else(|| halted::unknown_revision(wanted, others.iter().map(|(number, _)| *number)))?,
        None => others.iter().max_by_key(|(number, _)| *number).ok_or(halted::NO_OTHER)?,
    };
    let images = revision.body.shape.images.values().cloned().collect();
    let template = revision.body.template.as_deref().cloned().ok_or(halted::NO_OTHER)?;
    let write = Write::patch("undo", set.object, |patch| patch.replace(&["spec", "template"], template));
    Ok(Undo { write, to: Version { number: Some(*number), images } })
}

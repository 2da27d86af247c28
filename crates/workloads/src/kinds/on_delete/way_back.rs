//! Earlier templates, and the one that was judged bad: what their owner writes to get them. The native controllers keep them as
//! ControllerRevisions.

use hitless_api::names::annotations;

use super::Subject;
use crate::halted::{self, Halted};
use crate::object::Object;
use crate::shape::Shape;
use crate::template::Template;
use crate::version::{Undo, Version, WayBack};
use crate::world::World;
use crate::write::Write;

/// The version of the template, if it was asked for before another one was: the native controllers keep a revision as it was made,
/// and give it a new number when it is asked for again.
pub(in crate::kinds) fn way_back(root: &Object, template: &Template, world: &World<'_>) -> Option<WayBack> {
    let revisions = world.children(&root.id.uid).iter().filter_map(|child| child.controller_revision());
    let (same, others): (Vec<_>, Vec<_>) =
        revisions.partition(|revision| revision.body.shape.revision == template.revision());
    let newest = same.iter().max_by_key(|revision| revision.body.number)?;
    let made = same.iter().filter_map(|revision| revision.created).min();
    let from_bad = Halted::is_left_for(root, template.revision());
    let is_earlier = from_bad || made.is_some_and(|made| others.iter().any(|other| other.created > Some(made)));
    let number = u64::try_from(newest.body.number).ok()?;
    is_earlier.then(|| WayBack { to: version(number, &newest.body.shape), from_bad })
}

fn version(number: u64, shape: &Shape) -> Version {
    Version { number: Some(number), images: shape.images.values().cloned().collect() }
}

impl<'a> Subject<'a> {
    /// The template that was judged bad once more, without the mark.
    pub(in crate::kinds) fn retry(&self) -> Result<Write, String> {
        let halted = Halted::of(self.object).ok_or(halted::NOT_HALTED)?;
        if halted.revision == self.template.revision() {
            return Ok(halted::forget(self.object));
        }
        let bad = self.numbered().find(|(_, shape)| shape.revision == halted.revision);
        let (number, bad) = bad.ok_or_else(|| {
            format!(
                "the native controller does not keep revision {} any more; apply its manifest again",
                halted.revision
            )
        })?;
        self.reshape("retry", number, bad, true)
    }

    /// Its revisions, as `kubectl rollout history` counts them.
    fn numbered(&self) -> impl Iterator<Item = (u64, &'a Shape)> {
        self.revisions.values().filter_map(|(number, shape)| Some((u64::try_from(*number).ok()?, *shape)))
    }

    /// The template of an earlier revision. The native controllers number them.
    pub(in crate::kinds) fn undo(&self, to_revision: Option<u64>) -> Result<Undo, String> {
        let others: Vec<(u64, &Shape)> =
            self.numbered().filter(|(_, shape)| shape.revision != self.template.revision()).collect();
        let bad = Halted::of(self.object).map(|halted| halted.revision);
        let &(number, shape) = match to_revision {
            Some(wanted) => others
                .iter()
                .find(|(number, _)| *number == wanted)
                .ok_or_else(|| halted::unknown_revision(wanted, others.iter().map(|(number, _)| *number)))?,
            None => others
                .iter()
                .filter(|(_, shape)| bad.as_deref() != Some(&shape.revision))
                .max_by_key(|(number, _)| *number)
                .ok_or(halted::NO_OTHER)?,
        };
        Ok(Undo { write: self.reshape("undo", number, shape, false)?, to: version(number, shape) })
    }

    /// Gives the object the template of that shape. Of an earlier revision only what can be changed in a running pod is known here.
    fn reshape(&self, verb: &'static str, number: u64, shape: &Shape, forget_halt: bool) -> Result<Write, String> {
        if shape.fixed != self.template.shape().fixed {
            return Err(format!(
                "{} differs in more than images, labels and annotations; use: kubectl rollout undo {} --to-revision={number}",
                version(number, shape),
                self.object.id.arguments()
            ));
        }
        let template = self.template.reshaped(shape);
        Ok(Write::patch(verb, self.object, |patch| {
            let patch = patch.replace(&["spec", "template"], template);
            if forget_halt { patch.remove(&["metadata", "annotations", annotations::HALTED]) } else { patch }
        }))
    }
}

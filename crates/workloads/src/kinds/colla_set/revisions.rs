//! The templates that a CollaSet has had.

use std::collections::BTreeSet;

use hitless_api::digest;
use serde_json::{Value, json};

use super::{CollaSet, claim, naming, owner};
use crate::kinds::revision::history::History;
use crate::kinds::revision::{CONTROLLER_REVISION, Revision};
use crate::shape::Shape;
use crate::world::World;
use crate::write::Write;

/// The ControllerRevisions of one CollaSet. One is of a template and of claim templates.
pub(super) struct Revisions<'a> {
    set: CollaSet<'a>,
    history: History<'a>,
}

impl<'a> Revisions<'a> {
    pub(super) fn of(set: CollaSet<'a>, world: &World<'a>) -> Self {
        Self { set, history: History::of(set.object, world) }
    }

    /// That of the template: of several equal ones the newest.
    pub(super) fn target(&self) -> Option<Revision<'a>> {
        self.history.newest_of(&self.set.body.template, |each| self.is_of_same_claims(each))
    }

    pub(super) fn shape(&self, name: &str) -> Option<&'a Shape> {
        self.history.get(name).map(|each| &each.body.shape)
    }

    /// Whether the revision has the claim templates that the CollaSet has.
    pub(super) fn has_same_claims(&self, name: &str) -> bool {
        self.history.get(name).is_some_and(|each| self.is_of_same_claims(each))
    }

    fn is_of_same_claims(&self, revision: Revision<'_>) -> bool {
        claim::normal(&revision.body.claims) == claim::normal(&self.set.body.claims)
    }

    /// Claim templates of a revision.
    pub(super) fn claims(&self, name: &str) -> Option<&'a [Value]> {
        self.history.get(name).map(|each| each.body.claims.as_slice())
    }

    /// Claim templates of all revisions but this one.
    pub(super) fn other_claims(&self, name: &str) -> impl Iterator<Item = &'a Value> {
        self.history.iter().filter(move |(other, _)| *other != name).flat_map(|(_, each)| &each.body.claims)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.history.get(name).is_some()
    }

    /// Template of the pods of a revision.
    pub(super) fn template(&self, name: &str) -> Option<&'a Value> {
        self.history.template(name)
    }

    /// Makes the one of the template. Its name follows from the template, so it is made once.
    pub(super) fn create(&self) -> Write {
        let id = &self.set.object.id;
        let (template, claims) = (&self.set.body.template, &self.set.body.claims);
        let hash = if claims.is_empty() {
            template.revision().to_owned()
        } else {
            digest::short(&json!([template.revision(), claim::normal(claims)]))
        };
        let metadata = json!({
            "name": naming::revision(&id.name, &hash),
            "namespace": id.namespace,
            "labels": template.content()["metadata"]["labels"],
            "ownerReferences": [owner(self.set)],
        });
        let mut object = self.history.create(&metadata, template);
        if !claims.is_empty() {
            object["data"]["spec"]["volumeClaimTemplates"] = json!(claims);
        }
        Write::create("create-revision", &CONTROLLER_REVISION.group_kind, object)
    }

    pub(super) fn renumber(&self, target: Revision<'_>) -> Option<Write> {
        self.history.renumber(target)
    }

    pub(super) fn prune(&self, used: &BTreeSet<&str>) -> Option<Write> {
        self.history.prune(self.set.body.history_limit, |name| used.contains(name))
    }
}

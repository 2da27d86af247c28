//! The templates that a set has had.

use std::collections::BTreeSet;

use hitless_api::digest;
use serde_json::{Value, json};

use super::spec::Spec;
use super::{claim, naming};
use crate::revision::history::History;
use crate::revision::{CONTROLLER_REVISION, Revision};
use crate::shape::Shape;
use crate::world::World;
use crate::write::Write;

/// The ControllerRevisions of one set. One is of a template and of claim templates.
pub(crate) struct Revisions<'a> {
    spec: Spec<'a>,
    history: History<'a>,
}

impl<'a> Revisions<'a> {
    pub(crate) fn of(spec: Spec<'a>, world: &World<'a>) -> Self {
        Self { spec, history: History::of(spec.object, world) }
    }

    /// That of the template: of several equal ones the newest.
    pub(crate) fn target(&self) -> Option<Revision<'a>> {
        self.history.newest_of(self.spec.template, |each| self.is_of_same_claims(each))
    }

    pub(crate) fn shape(&self, name: &str) -> Option<&'a Shape> {
        self.history.get(name).map(|each| &each.body.shape)
    }

    /// Whether the revision has the claim templates that the set has.
    pub(super) fn has_same_claims(&self, name: &str) -> bool {
        self.history.get(name).is_some_and(|each| self.is_of_same_claims(each))
    }

    fn is_of_same_claims(&self, revision: Revision<'_>) -> bool {
        !self.spec.has_claims_in_revisions || claim::normal(&revision.body.claims) == claim::normal(self.spec.claims)
    }

    /// Claim templates of a revision, or the set's.
    pub(super) fn claims(&self, name: &str) -> &'a [Value] {
        let known = self.history.get(name).filter(|_| self.spec.has_claims_in_revisions);
        known.map_or(self.spec.claims, |each| each.body.claims.as_slice())
    }

    /// Claim templates of all revisions but this one.
    pub(super) fn other_claims(&self, name: &str) -> impl Iterator<Item = &'a Value> {
        self.history.iter().filter(move |(other, _)| *other != name).flat_map(|(_, each)| &each.body.claims)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.history.get(name).is_some()
    }

    /// Template of the pods of a revision.
    pub(crate) fn template(&self, name: &str) -> Option<&'a Value> {
        self.history.template(name)
    }

    /// The same, or the set's own.
    pub(crate) fn template_or_own(&self, name: &str) -> &'a Value {
        self.template(name).unwrap_or(self.spec.template.content())
    }

    /// Makes the one of the template. Its name follows from the template, so it is made once.
    pub(crate) fn create(&self) -> Write {
        let id = &self.spec.object.id;
        let template = self.spec.template;
        let claims = if self.spec.has_claims_in_revisions { self.spec.claims } else { &[] };
        let hash = if claims.is_empty() {
            template.revision().to_owned()
        } else {
            digest::short(&json!([template.revision(), claim::normal(claims)]))
        };
        let metadata = json!({
            "name": naming::revision(&id.name, &hash),
            "namespace": id.namespace,
            "labels": template.content()["metadata"]["labels"],
            "ownerReferences": [self.spec.owner()],
        });
        let mut object = self.history.create(&metadata, template);
        if !claims.is_empty() {
            object["data"]["spec"]["volumeClaimTemplates"] = json!(claims);
        }
        Write::create("create-revision", &CONTROLLER_REVISION.group_kind, object)
    }

    pub(crate) fn renumber(&self, target: Revision<'_>) -> Option<Write> {
        self.history.renumber(target)
    }

    pub(crate) fn prune(&self, used: &BTreeSet<&str>) -> Option<Write> {
        self.history.prune(self.spec.history_limit, |name| used.contains(name))
    }
}

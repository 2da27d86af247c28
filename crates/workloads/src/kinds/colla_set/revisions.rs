//! The templates that a CollaSet has had, as ControllerRevisions.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::{JsonPatch, digest};
use serde_json::{Value, json};

use super::{CollaSet, claims, naming, owner};
use crate::kinds::revision::{CONTROLLER_REVISION, Revision};
use crate::template::Shape;
use crate::world::World;
use crate::write::Write;

/// The ControllerRevisions of one CollaSet, by name.
pub(super) struct Revisions<'a> {
    set: CollaSet<'a>,
    by_name: BTreeMap<&'a str, Revision<'a>>,
}

impl<'a> Revisions<'a> {
    pub(super) fn of(set: CollaSet<'a>, world: &World<'a>) -> Self {
        let children = world.children(&set.object.id.uid).iter();
        let revisions = children.filter_map(|object| object.controller_revision());
        Self { set, by_name: revisions.map(|each| (each.object.id.name.as_str(), each)).collect() }
    }

    /// That of the template: of several equal ones the newest.
    pub(super) fn target(&self) -> Option<Revision<'a>> {
        let template = self.set.body.template.revision();
        let is_same = |each: &&Revision<'a>| each.body.shape.revision == template && self.is_of_same_claims(each);
        let same = self.by_name.values().filter(is_same);
        same.max_by_key(|each| each.body.number).copied()
    }

    pub(super) fn shape(&self, name: &str) -> Option<&'a Shape> {
        self.by_name.get(name).map(|each| &each.body.shape)
    }

    /// Whether the revision has the claim templates that the CollaSet has.
    pub(super) fn has_same_claims(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|each| self.is_of_same_claims(each))
    }

    fn is_of_same_claims(&self, revision: &Revision<'a>) -> bool {
        claims::normal(&revision.body.claims) == claims::normal(&self.set.body.claims)
    }

    /// Claim templates of a revision.
    pub(super) fn claims(&self, name: &str) -> Option<&'a [Value]> {
        self.by_name.get(name).map(|each| each.body.claims.as_slice())
    }

    /// Claim templates of all revisions but this one.
    pub(super) fn other_claims(&self, name: &str) -> impl Iterator<Item = &'a Value> {
        self.by_name.iter().filter(move |(other, _)| **other != name).flat_map(|(_, each)| &each.body.claims)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Template of the pods of a revision.
    pub(super) fn template(&self, name: &str) -> Option<&'a Value> {
        self.by_name.get(name)?.body.template.as_deref()
    }

    fn newest(&self) -> i64 {
        self.by_name.values().map(|each| each.body.number).max().unwrap_or_default()
    }

    /// Makes the one of the template. Its name follows from the template, so it is made once.
    pub(super) fn create(&self) -> Write {
        let id = &self.set.object.id;
        let claims = &self.set.body.claims;
        let template = self.set.body.template.revision();
        let hash = if claims.is_empty() {
            template.to_owned()
        } else {
            digest::short(&json!([template, claims::normal(claims)]))
        };
        let name = naming::revision(&id.name, &hash);
        let mut template = Value::clone(self.set.body.template.content());
        template["$patch"] = "replace".into();
        let labels = template["metadata"]["labels"].clone();
        let mut object = json!({
            "apiVersion": CONTROLLER_REVISION.api_version(), "kind": "ControllerRevision",
            "metadata": {"name": name, "namespace": id.namespace, "labels": labels, "ownerReferences": [owner(self.set)]},
            "revision": self.newest() + 1,
            "data": {"spec": {"template": template}},
        });
        if !claims.is_empty() {
            object["data"]["spec"]["volumeClaimTemplates"] = json!(claims);
        }
        Write::create("create-revision", &CONTROLLER_REVISION.group_kind, object)
    }

    /// A template that comes again is the newest revision again.
    pub(super) fn renumber(&self, target: Revision<'_>) -> Option<Write> {
        let newest = self.newest();
        (target.body.number < newest).then(|| {
            let number = newest + 1;
            Write::patch("renumber-revision", target.object, |patch: JsonPatch| patch.replace(&["revision"], number))
        })
    }

    /// The oldest that nobody uses, beyond those that the owner wants kept. One at a time.
    pub(super) fn prune(&self, used: &BTreeSet<&str>) -> Option<Write> {
        let unused = self.by_name.values().filter(|each| !used.contains(each.object.id.name.as_str()));
        let unused: Vec<_> = unused.collect();
        if unused.len() <= self.set.body.history_limit {
            return None;
        }
        let oldest = unused.into_iter().min_by_key(|each| each.body.number)?;
        Some(Write::delete("delete-revision", oldest.object))
    }
}

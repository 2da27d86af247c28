//! PersistentVolumeClaims of a set: one for each instance id and template.
//!
//! A claim is deleted only where its id is given up (`scale_in` in the journal), or where every pod is available with a later
//! template, and has another one. Nothing is deleted because nobody is known to need it: what a cache does not show may be there.
//!
//! A claim that outlives its set (`whenDeleted: Retain`) has no owner, as those of StatefulSets: the garbage collector acts on
//! all that has one as soon as the set is deleted in the foreground, or its definition is, before any finalizer goes. The label
//! [`labels::CLAIM_OF`] says whose it is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitless_api::names::labels;
use hitless_api::{GroupKind, JsonPatch, selector};
use serde_json::{Value, json};

use super::claim::{hash, name_of};
use super::naming::ClaimFor;
use super::spec::Spec;
use super::tell::normal;
use crate::kind::Resource;
use crate::object::{Body, Object};
use crate::world::World;
use crate::write::Write;

pub(crate) const CLAIM: Resource = Resource {
    group_kind: GroupKind::new("", "PersistentVolumeClaim"),
    version: "v1",
    plural: "persistentvolumeclaims",
    is_namespaced: true,
    optional: false,
    verbs: &["create", "patch", "delete"],
    why: "those of its pods",
    uninstall_verbs: &[],
    uninstall_why: "",
};

/// So many claims are named in an Event.
const NAMED: usize = 10;
const OWNERS: [&str; 2] = ["metadata", "ownerReferences"];

pub(super) fn label<'o>(claim: &'o Object, key: &str) -> &'o str {
    claim.labels.get(key).map_or("", String::as_str)
}

/// What a pod that is made needs of claims.
#[derive(Default)]
pub(super) struct Needed {
    /// Name of the template, name of the claim.
    pub(super) mounts: Vec<(String, String)>,
    /// Claims that are made or taken on before.
    pub(super) writes: Vec<Write>,
}

/// The claims of one set.
pub(crate) struct Claims<'a> {
    spec: Spec<'a>,
    own: Vec<&'a Object>,
    /// Those that are not being deleted, by the instance id that their label says.
    by_id: BTreeMap<&'a str, Vec<&'a Object>>,
}

impl<'a> Claims<'a> {
    pub(crate) fn of(spec: Spec<'a>, world: &World<'a>) -> Self {
        let is_claim =
            |object: &&&Object| matches!(object.body, Body::Claim(_)) && object.id.namespace == spec.namespace();
        let own: Vec<&'a Object> = world.children(&spec.object.id.uid).iter().filter(is_claim).copied().collect();
        let mut by_id: BTreeMap<&'a str, Vec<&'a Object>> = BTreeMap::new();
        for claim in own.iter().copied().filter(|claim| !claim.deleting) {
            by_id.entry(label(claim, spec.names.instance_id)).or_default().push(claim);
        }
        Self { spec, own, by_id }
    }

    /// Those of an id that are not being deleted.
    pub(crate) fn of_id(&self, id: i32) -> impl Iterator<Item = &'a Object> + '_ {
        self.by_id.get((self.spec.names.id_text)(id).as_str()).into_iter().flatten().copied()
    }

    /// What the pod of this id mounts. Nothing: it has to wait for the end of an earlier claim.
    pub(super) fn needed(
        &self,
        (id, pod): (i32, &str),
        templates: &[Value],
        outdated: &BTreeSet<String>,
        world: &World<'a>,
    ) -> Option<Needed> {
        let mut needed = Needed::default();
        for template in templates {
            let (name, hash) = (name_of(template), hash(template));
            let is_it = |claim: &&Object| {
                let known = label(claim, self.spec.names.claim_hash);
                // Who else made it may have computed the hash in another way.
                label(claim, self.spec.names.claim_template) == name && (known == hash || !outdated.contains(known))
            };
            let own_name = self.name(pod, name, &hash);
            // Upstream's own manager writes no such labels.
            let is_named = |claim: &&Object| claim.id.name == own_name;
            let mut own: Vec<&Object> = self.of_id(id).filter(|claim| is_it(claim) || is_named(claim)).collect();
            own.sort_by_key(|claim| (label(claim, self.spec.names.claim_hash) != hash, &claim.id.name));
            let claim = if let Some(claim) = own.first() {
                claim.id.name.clone()
            } else if let Some(kept) = self.kept((id, &hash), is_it, world) {
                needed.writes.push(self.take_on(kept, id));
                kept.id.name.clone()
            } else {
                let claim = own_name;
                if world.part(&CLAIM.group_kind, self.spec.namespace(), &claim).is_some() {
                    return None;
                }
                needed.writes.push(self.create(id, template, &claim, &hash));
                claim
            };
            needed.mounts.push((name.to_owned(), claim));
        }
        Some(needed)
    }

    fn name(&self, pod: &str, template: &str, hash: &str) -> String {
        let set = &self.spec.object.id;
        (self.spec.names.claim)(&ClaimFor { set: &set.name, uid: &set.uid, pod, template, hash })
    }

    /// One that an earlier set of the same selector has left behind, the newest of the same template first.
    fn kept(&self, (id, hash): (i32, &str), is_it: impl Fn(&&Object) -> bool, world: &World<'a>) -> Option<&'a Object> {
        let id = (self.spec.names.id_text)(id);
        let is_free = |claim: &&&Object| {
            label(claim, self.spec.names.instance_id) == id
                && !claim.deleting
                && !claim.labels.contains_key(self.spec.names.orphaned)
                && claim.labels.contains_key(self.spec.names.claim_hash)
                && selector::read(self.spec.selector).is_ok_and(|own| own.matches(&claim.labels))
        };
        let all = world.unowned_claims(self.spec.namespace()).iter();
        let all = all.filter(is_free).copied().filter(|claim| is_it(claim));
        all.min_by_key(|claim| {
            (label(claim, self.spec.names.claim_hash) != hash, Reverse(claim.created), &claim.id.name)
        })
    }

    fn create(&self, id: i32, template: &Value, name: &str, hash: &str) -> Write {
        let meta = &template["metadata"];
        let mut labels = meta["labels"].as_object().cloned().unwrap_or_default();
        let equal = self.spec.selector.match_labels.iter().flatten();
        labels.extend(equal.map(|(key, value)| (key.clone(), value.as_str().into())));
        let names = self.spec.names;
        labels.extend(names.claim_labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())));
        let own = [
            (names.instance_id, (names.id_text)(id)),
            (names.claim_template, name_of(template).to_owned()),
            (names.claim_hash, hash.to_owned()),
            (labels::CLAIM_OF, self.spec.object.id.uid.clone()),
        ];
        labels.extend(own.map(|(key, value)| (key.to_owned(), value.into())));
        let owners = if self.outlive_the_set() { Value::Null } else { json!([self.spec.owner()]) };
        let object = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self.spec.namespace(), "labels": labels,
                "annotations": meta["annotations"], "ownerReferences": owners},
            "spec": template["spec"],
        });
        Write::create("create-claim", &CLAIM.group_kind, object)
    }

    fn outlive_the_set(&self) -> bool {
        self.spec.keeps_claims.when_deleted
    }

    fn is_owned(&self, claim: &Object) -> bool {
        claim.is_owned_by(self.spec.object)
    }

    /// It has an owner or none, as the set says, and says whose it is.
    fn owned(&self, claim: &Object, patch: JsonPatch) -> JsonPatch {
        let patch = match (self.is_owned(claim), self.outlive_the_set()) {
            (true, true) => self.disowned(claim, patch),
            (false, false) if owners(claim).is_empty() => patch.add(&OWNERS, json!([self.spec.owner()])),
            (false, false) => patch.add(&["metadata", "ownerReferences", "-"], self.spec.owner()),
            (true, false) | (false, true) => patch,
        };
        patch.add(&["metadata", "labels", labels::CLAIM_OF], self.spec.object.id.uid.as_str())
    }

    /// Others that own it stay.
    fn disowned(&self, claim: &Object, patch: JsonPatch) -> JsonPatch {
        let uid = self.spec.object.id.uid.as_str();
        match owners(claim).iter().position(|owner| owner == uid) {
            None => patch,
            Some(_) if owners(claim).len() == 1 => patch.remove(&OWNERS),
            Some(place) => {
                let place = place.to_string();
                let entry = ["metadata", "ownerReferences", place.as_str()];
                patch.test(&[&entry[..], &["uid"]].concat(), uid).remove(&entry)
            }
        }
    }

    pub(super) fn take_on(&self, claim: &Object, id: i32) -> Write {
        let is_marked = claim.labels.contains_key(self.spec.names.orphaned);
        Write::patch("take-claim-on", claim, |patch| {
            let patch = self
                .owned(claim, patch)
                .add(&["metadata", "labels", self.spec.names.instance_id], (self.spec.names.id_text)(id));
            if is_marked { patch.remove(&["metadata", "labels", self.spec.names.orphaned]) } else { patch }
        })
    }

    /// Gives those an owner, or takes it off, whose set has changed its mind, or which an earlier version of ours has made.
    pub(crate) fn ownership(&self) -> Vec<Write> {
        let uid = &self.spec.object.id.uid;
        let differs = |claim: &&&Object| {
            let is_right = self.is_owned(claim) != self.outlive_the_set() && label(claim, labels::CLAIM_OF) == uid;
            !is_right && !claim.deleting
        };
        let verb = if self.outlive_the_set() { "let-claim-go" } else { "own-claim" };
        let differ = self.own.iter().filter(differs);
        differ.map(|claim| Write::patch(verb, claim, |patch| self.owned(claim, patch))).collect()
    }

    /// Lets it go with its pod: no set takes it on but with that.
    pub(crate) fn orphan(&self, claim: &Object) -> Write {
        let says_whose = claim.labels.contains_key(labels::CLAIM_OF);
        Write::patch("let-claim-go", claim, |patch| {
            let patch = self.disowned(claim, patch).add(&["metadata", "labels", self.spec.names.orphaned], "true");
            if says_whose { patch.remove(&["metadata", "labels", labels::CLAIM_OF]) } else { patch }
        })
    }

    /// All that are ours.
    pub(super) fn own(&self) -> &[&'a Object] {
        &self.own
    }

    /// What is lost when the set goes.
    pub(crate) fn lost(&self) -> Option<String> {
        let own: Vec<&str> =
            self.own.iter().filter(|claim| !claim.deleting).map(|claim| claim.id.name.as_str()).collect();
        if own.is_empty() || self.spec.keeps_claims.when_deleted {
            return None;
        }
        Some(format!(
            "its claims and their data go with it (whenDeleted: Delete): {}; with whenDeleted: Retain they stay",
            listed(own.into_iter())
        ))
    }

    pub(super) fn delete(claim: &Object) -> Write {
        Write::delete("delete-claim", claim)
    }
}

fn owners(claim: &Object) -> &[String] {
    match &claim.body {
        Body::Claim(body) => &body.owners,
        _ => &[],
    }
}

fn listed<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let first = names.take(NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

/// The same deletions; the first one tells of all of them, and why: each is a write.
pub(super) fn told(spec: &Spec<'_>, mut deletions: Vec<Write>, why: &str) -> Vec<Write> {
    let text =
        format!("deletes claims and their data: {}; {why}", listed(deletions.iter().map(|write| &*write.on.name)));
    if let Some(first) = deletions.first_mut() {
        first.tells = Some(normal(spec, spec.names.reasons.claims_deleted, text));
    }
    deletions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_serializer_adds_is_no_change() {
        let plain = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
        let mut written = plain.clone();
        written["metadata"]["creationTimestamp"] = Value::Null;
        written["status"] = json!({});
        assert_eq!(hash(&plain), hash(&written));
        let mut other = plain.clone();
        other["spec"]["storageClassName"] = json!("fast");
        assert_ne!(hash(&plain), hash(&other));
    }
}

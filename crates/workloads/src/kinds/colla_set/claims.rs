//! PersistentVolumeClaims of a CollaSet: one for each instance id and template.
//!
//! A claim is deleted only where its id is given up (`ScaleIn` in the ResourceContext), or where every pod is available with a later
//! template, and has another one. Nothing is deleted because nobody is known to need it: what a cache does not show may be there.
//!
//! A claim that outlives its CollaSet (`whenDeleted: Retain`) has no owner, as those of StatefulSets: the garbage collector acts on
//! all that has one as soon as the CollaSet is deleted in the foreground, or its definition is, before any finalizer goes. The label
//! [`labels::CLAIM_OF`] says whose it is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitless_api::event::{EventNote, Severity};
use hitless_api::names::labels;
use hitless_api::pod::PodView;
use hitless_api::{JsonPatch, selector};
use serde_json::{Value, json};

use super::claim::{hash, name_of};
use super::plan::Work;
use super::roster::Instance;
use super::{CLAIM, COLLA_SET, CollaSet, names, naming, owner};
use crate::object::{Body, Object};
use crate::plan::note;
use crate::world::World;
use crate::write::Write;

/// So many claims are named in an Event.
const NAMED: usize = 10;
const OWNERS: [&str; 2] = ["metadata", "ownerReferences"];

fn label<'o>(claim: &'o Object, key: &str) -> &'o str {
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

/// The claims of one CollaSet.
pub(super) struct Claims<'a> {
    set: CollaSet<'a>,
    own: Vec<&'a Object>,
    /// Those that are not being deleted, by the instance id that their label says.
    by_id: BTreeMap<&'a str, Vec<&'a Object>>,
}

impl<'a> Claims<'a> {
    pub(super) fn of(set: CollaSet<'a>, world: &World<'a>) -> Self {
        let is_claim =
            |object: &&&Object| matches!(object.body, Body::Claim(_)) && object.id.namespace == set.object.id.namespace;
        let own: Vec<&'a Object> = world.children(&set.object.id.uid).iter().filter(is_claim).copied().collect();
        let mut by_id: BTreeMap<&'a str, Vec<&'a Object>> = BTreeMap::new();
        for claim in own.iter().copied().filter(|claim| !claim.deleting) {
            by_id.entry(label(claim, names::INSTANCE_ID)).or_default().push(claim);
        }
        Self { set, own, by_id }
    }

    /// Those of an id that are not being deleted.
    pub(super) fn of_id(&self, id: i32) -> impl Iterator<Item = &'a Object> + '_ {
        self.by_id.get(id.to_string().as_str()).into_iter().flatten().copied()
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
                let known = label(claim, names::CLAIM_HASH);
                // Who else made it may have computed the hash in another way.
                label(claim, names::CLAIM_TEMPLATE) == name && (known == hash || !outdated.contains(known))
            };
            let mut own: Vec<&Object> = self.of_id(id).filter(is_it).collect();
            own.sort_by_key(|claim| (label(claim, names::CLAIM_HASH) != hash, &claim.id.name));
            let claim = if let Some(claim) = own.first() {
                claim.id.name.clone()
            } else if let Some(kept) = self.kept((id, &hash), is_it, world) {
                needed.writes.push(self.take_on(kept, id));
                kept.id.name.clone()
            } else {
                let claim = naming::claim(&self.set.object.id.name, &self.set.object.id.uid, pod, name, &hash);
                if world.part(&CLAIM.group_kind, &self.set.object.id.namespace, &claim).is_some() {
                    return None;
                }
                needed.writes.push(self.create(id, template, &claim, &hash));
                claim
            };
            needed.mounts.push((name.to_owned(), claim));
        }
        Some(needed)
    }

    /// One that an earlier CollaSet of the same selector has left behind, the newest of the same template first.
    fn kept(&self, (id, hash): (i32, &str), is_it: impl Fn(&&Object) -> bool, world: &World<'a>) -> Option<&'a Object> {
        let id = id.to_string();
        let is_free = |claim: &&&Object| {
            label(claim, names::INSTANCE_ID) == id
                && !claim.deleting
                && !claim.labels.contains_key(names::ORPHANED)
                && claim.labels.contains_key(names::CLAIM_HASH)
                && selector::read(&self.set.body.label_selector).is_ok_and(|own| own.matches(&claim.labels))
        };
        let all = world.unowned_claims(&self.set.object.id.namespace).iter();
        let all = all.filter(is_free).copied().filter(|claim| is_it(claim));
        all.min_by_key(|claim| (label(claim, names::CLAIM_HASH) != hash, Reverse(claim.created), &claim.id.name))
    }

    fn create(&self, id: i32, template: &Value, name: &str, hash: &str) -> Write {
        let meta = &template["metadata"];
        let mut labels = meta["labels"].as_object().cloned().unwrap_or_default();
        let equal = self.set.body.label_selector.match_labels.iter().flatten();
        labels.extend(equal.map(|(key, value)| (key.clone(), value.as_str().into())));
        let own = [
            (names::CONTROL, "true".to_owned()),
            (names::INSTANCE_ID, id.to_string()),
            (names::CLAIM_TEMPLATE, name_of(template).to_owned()),
            (names::CLAIM_HASH, hash.to_owned()),
            (labels::CLAIM_OF, self.set.object.id.uid.clone()),
        ];
        labels.extend(own.map(|(key, value)| (key.to_owned(), value.into())));
        let owners = if self.outlive_the_set() { Value::Null } else { json!([owner(self.set)]) };
        let object = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self.set.object.id.namespace, "labels": labels,
                "annotations": meta["annotations"], "ownerReferences": owners},
            "spec": template["spec"],
        });
        Write::create("create-claim", &CLAIM.group_kind, object)
    }

    fn outlive_the_set(&self) -> bool {
        self.set.body.keeps_claims.when_deleted
    }

    fn is_owned(&self, claim: &Object) -> bool {
        claim.is_owned_by(self.set.object)
    }

    /// It has an owner or none, as the CollaSet says, and says whose it is.
    fn owned(&self, claim: &Object, patch: JsonPatch) -> JsonPatch {
        let patch = match (self.is_owned(claim), self.outlive_the_set()) {
            (true, true) => self.disowned(claim, patch),
            (false, false) if owners(claim).is_empty() => patch.add(&OWNERS, json!([owner(self.set)])),
            (false, false) => patch.add(&["metadata", "ownerReferences", "-"], owner(self.set)),
            (true, false) | (false, true) => patch,
        };
        patch.add(&["metadata", "labels", labels::CLAIM_OF], self.set.object.id.uid.as_str())
    }

    /// Others that own it stay.
    fn disowned(&self, claim: &Object, patch: JsonPatch) -> JsonPatch {
        let uid = self.set.object.id.uid.as_str();
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

    fn take_on(&self, claim: &Object, id: i32) -> Write {
        let is_marked = claim.labels.contains_key(names::ORPHANED);
        Write::patch("take-claim-on", claim, |patch| {
            let patch = self.owned(claim, patch).add(&["metadata", "labels", names::INSTANCE_ID], id.to_string());
            if is_marked { patch.remove(&["metadata", "labels", names::ORPHANED]) } else { patch }
        })
    }

    /// Gives those an owner, or takes it off, whose CollaSet has changed its mind, or which an earlier version of ours has made.
    pub(super) fn ownership(&self) -> Vec<Write> {
        let uid = &self.set.object.id.uid;
        let differs = |claim: &&&Object| {
            let is_right = self.is_owned(claim) != self.outlive_the_set() && label(claim, labels::CLAIM_OF) == uid;
            !is_right && !claim.deleting
        };
        let verb = if self.outlive_the_set() { "let-claim-go" } else { "own-claim" };
        let differ = self.own.iter().filter(differs);
        differ.map(|claim| Write::patch(verb, claim, |patch| self.owned(claim, patch))).collect()
    }

    /// Lets it go with its pod: no CollaSet takes it on but with that.
    pub(super) fn orphan(&self, claim: &Object) -> Write {
        let says_whose = claim.labels.contains_key(labels::CLAIM_OF);
        Write::patch("let-claim-go", claim, |patch| {
            let patch = self.disowned(claim, patch).add(&["metadata", "labels", names::ORPHANED], "true");
            if says_whose { patch.remove(&["metadata", "labels", labels::CLAIM_OF]) } else { patch }
        })
    }

    /// All that are ours.
    pub(super) fn own(&self) -> &[&'a Object] {
        &self.own
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

/// Those that are not being deleted, by name.
fn by_name<'a>(claims: &[&'a Object]) -> BTreeMap<&'a str, &'a Object> {
    let there = claims.iter().copied().filter(|claim| !claim.deleting);
    there.map(|claim| (claim.id.name.as_str(), claim)).collect()
}

fn listed<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let first = names.take(NAMED).collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

/// The same deletions; the first one tells of all of them, and why: each is a write.
pub(super) fn told(set: CollaSet<'_>, mut deletions: Vec<Write>, why: &str) -> Vec<Write> {
    let text =
        format!("deletes claims and their data: {}; {why}", listed(deletions.iter().map(|write| &*write.on.name)));
    if let Some(first) = deletions.first_mut() {
        first.tells = Some(EventNote {
            action: "Scale",
            ..note(&set.object.id, COLLA_SET.version, Severity::Normal, "ClaimsDeleted", text)
        });
    }
    deletions
}

/// Why the claims of ids that are given up are deleted.
pub(super) const SCALED: &str = "fewer pods are wanted (whenScaled: Delete)";

impl<'a> Work<'a, '_> {
    /// Hashes of claim templates that the target does not have any more.
    pub(super) fn outdated_claims(&self) -> BTreeSet<String> {
        let wanted: BTreeSet<String> = self.set.body.claims.iter().map(hash).collect();
        self.revisions.other_claims(self.target).map(hash).filter(|hash| !wanted.contains(hash)).collect()
    }

    /// Claims of pods that are excluded or were included follow their pods; those of an earlier template go once all pods are available
    /// with others.
    pub(super) fn claim_writes(&self) -> (Vec<Write>, Vec<Write>) {
        let (mut follow, mut superseded) = (Vec::new(), Vec::new());
        let unowned = self.world.unowned_claims(&self.set.object.id.namespace);
        if self.claims.own().is_empty() && unowned.is_empty() {
            return (follow, superseded);
        }
        let outdated = self.outdated_claims();
        let (unowned, own) = (by_name(unowned), by_name(self.claims.own()));
        let goes = !self.set.body.keeps_claims.when_scaled && !outdated.is_empty() && self.is_through();
        for (id, instance) in &self.roster.instances {
            let Some(pod) = instance.pod else { continue };
            let text = id.to_string();
            let moved = self.made_for(pod, &own);
            let moved = moved.into_iter().filter(|claim| label(claim, names::INSTANCE_ID) != text);
            let taken_on = self.made_for(pod, &unowned).into_iter().chain(moved);
            follow.extend(taken_on.map(|claim| self.claims.take_on(claim, *id)));
            if goes {
                let is_old = |claim: &&Object| {
                    let is_mounted = pod.claims.iter().any(|mounted| mounted.claim == claim.id.name);
                    !is_mounted && outdated.contains(label(claim, names::CLAIM_HASH))
                };
                superseded.extend(self.claims.of_id(*id).filter(is_old).map(Claims::delete));
            }
        }
        let taken_on: BTreeSet<&str> = follow.iter().map(|write| write.on.name.as_str()).collect();
        let mut ownership = self.claims.ownership();
        ownership.retain(|write| !taken_on.contains(write.on.name.as_str()));
        follow.extend(ownership);
        let why = "all pods are available with those of the changed volumeClaimTemplates";
        (follow, told(self.set, superseded, why))
    }

    /// Those of these claims that a CollaSet has made for the pod. A claim that its template names as a volume like any other is its
    /// owner's, whatever labels it has.
    fn made_for(&self, pod: &PodView, claims: &BTreeMap<&str, &'a Object>) -> Vec<&'a Object> {
        let revision = pod.labels.get(labels::CONTROLLER_REVISION_HASH).map_or("", String::as_str);
        let templates = self.revisions.claims(revision).unwrap_or(&self.set.body.claims);
        let made = pod.claims.iter().filter_map(|mounted| {
            let claim = claims.get(mounted.claim.as_str()).copied()?;
            let is_of_template = templates.iter().any(|template| name_of(template) == mounted.volume)
                && label(claim, names::CLAIM_TEMPLATE) == mounted.volume
                && claim.labels.contains_key(names::INSTANCE_ID);
            is_of_template.then_some(claim)
        });
        made.collect()
    }

    /// Whether nothing is left to do, and every pod is available at the target: a version that can't work with a new volume has not
    /// taken the old one with it.
    fn is_through(&self) -> bool {
        let is_done = |instance: &Instance<'_>| {
            instance.pod.is_some_and(|pod| {
                let uid = &pod.id.uid;
                let is_operated = self.world.operating.contains(uid) || self.world.left.contains(uid);
                let is_available = pod.available() && !self.world.recently_ready.contains_key(uid.as_str());
                self.is_at_target(pod) && is_available && !is_operated
            })
        };
        self.behind.is_empty()
            && self.wishes.is_empty()
            && self.removed.is_empty()
            && self.count() >= self.set.body.replicas
            && self.roster.instances.values().all(is_done)
    }

    /// What is lost when the CollaSet goes.
    pub(super) fn lost_claims(&self) -> Option<String> {
        let own: Vec<&str> =
            self.claims.own().iter().filter(|claim| !claim.deleting).map(|claim| claim.id.name.as_str()).collect();
        if own.is_empty() || self.set.body.keeps_claims.when_deleted {
            return None;
        }
        Some(format!(
            "its claims and their data go with it (whenDeleted: Delete): {}; with whenDeleted: Retain they stay",
            listed(own.into_iter())
        ))
    }
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

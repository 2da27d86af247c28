//! PersistentVolumeClaims of a CollaSet: one for each instance id and template.
//!
//! A claim is deleted only where its id is given up (`ScaleIn` in the ResourceContext), or where a pod of a later template is there and
//! has another one. Nothing is deleted because nobody is known to need it: what a cache does not show may be there.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::PodView;
use hitless_api::{digest, selector};
use serde::Deserialize;
use serde_json::{Value, json};

use super::plan::Work;
use super::roster::Instance;
use super::{CLAIM, CollaSet, names, naming, owner};
use crate::object::{Body, Object};
use crate::world::World;
use crate::write::Write;

/// What only a PersistentVolumeClaim has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Raw")]
pub struct ClaimBody {
    /// `status.phase`.
    pub phase: String,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    status: Value,
}

impl From<Raw> for ClaimBody {
    fn from(Raw { status }: Raw) -> Self {
        Self { phase: status["phase"].as_str().unwrap_or_default().to_owned() }
    }
}

/// Claim templates without what only Kubernetes or a serializer adds.
pub(super) fn normal(templates: &[Value]) -> Vec<Value> {
    let mut templates = templates.to_vec();
    for template in &mut templates {
        if let Some(template) = template.as_object_mut() {
            template.remove("status");
            template.remove("kind");
            template.remove("apiVersion");
            template.get_mut("metadata").and_then(Value::as_object_mut).map(|meta| meta.remove("creationTimestamp"));
        }
    }
    templates
}

fn hash(template: &Value) -> String {
    digest::short(&json!(normal(std::slice::from_ref(template))))
}

fn name_of(template: &Value) -> &str {
    template["metadata"]["name"].as_str().unwrap_or_default()
}

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
        let is_claim = |object: &&&Object| matches!(object.body, Body::Claim(_));
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
            } else if let Some(kept) = self.kept(id, is_it, world) {
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

    /// One that an earlier CollaSet of the same selector has left behind.
    fn kept(&self, id: i32, is_it: impl Fn(&&Object) -> bool, world: &World<'a>) -> Option<&'a Object> {
        let id = id.to_string();
        let is_free = |claim: &&&Object| {
            label(claim, names::INSTANCE_ID) == id
                && !claim.deleting
                && !claim.labels.contains_key(names::ORPHANED)
                && claim.labels.contains_key(names::CLAIM_HASH)
                && selector::matches(&self.set.body.label_selector, &claim.labels)
        };
        let all = world.unowned_claims(&self.set.object.id.namespace).iter();
        all.filter(is_free).copied().find(|claim| is_it(claim))
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
        ];
        labels.extend(own.map(|(key, value)| (key.to_owned(), value.into())));
        let object = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self.set.object.id.namespace, "labels": labels,
                "annotations": meta["annotations"], "ownerReferences": [owner(self.set)]},
            "spec": template["spec"],
        });
        Write::create("create-claim", &CLAIM.group_kind, object)
    }

    fn take_on(&self, claim: &Object, id: i32) -> Write {
        let owner = json!([owner(self.set)]);
        let is_marked = claim.labels.contains_key(names::ORPHANED);
        Write::patch("take-claim-on", claim, |patch| {
            let patch = patch
                .add(&["metadata", "ownerReferences"], owner)
                .add(&["metadata", "labels", names::INSTANCE_ID], id.to_string());
            if is_marked { patch.remove(&["metadata", "labels", names::ORPHANED]) } else { patch }
        })
    }

    /// Lets them go. `is_orphaned`: not for another CollaSet to take on by itself.
    pub(super) fn let_go(claim: &Object, is_orphaned: bool) -> Write {
        Write::patch("let-claim-go", claim, |patch| {
            let patch = patch.remove(&["metadata", "ownerReferences"]);
            if is_orphaned { patch.add(&["metadata", "labels", names::ORPHANED], "true") } else { patch }
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

/// Those that are not being deleted, by name.
fn by_name<'a>(claims: &[&'a Object]) -> BTreeMap<&'a str, &'a Object> {
    let there = claims.iter().copied().filter(|claim| !claim.deleting);
    there.map(|claim| (claim.id.name.as_str(), claim)).collect()
}

impl<'a> Work<'a, '_> {
    /// Hashes of claim templates that the target does not have any more.
    pub(super) fn outdated_claims(&self) -> BTreeSet<String> {
        let wanted: BTreeSet<String> = self.set.body.claims.iter().map(hash).collect();
        self.revisions.other_claims(self.target).map(hash).filter(|hash| !wanted.contains(hash)).collect()
    }

    /// Claims of pods that are excluded or were included follow their pods; those of an earlier template go once the pod has others.
    pub(super) fn claim_writes(&self) -> (Vec<Write>, Vec<Write>) {
        let (mut follow, mut deletions) = (Vec::new(), Vec::new());
        if self.claims.own().is_empty() && self.world.unowned_claims(&self.set.object.id.namespace).is_empty() {
            return (follow, deletions);
        }
        let outdated = self.outdated_claims();
        let unowned = by_name(self.world.unowned_claims(&self.set.object.id.namespace));
        let own = by_name(self.claims.own());
        for (id, instance) in &self.roster.instances {
            let Some(pod) = instance.pod else { continue };
            let mounted = |claims: &BTreeMap<&str, &'a Object>| -> Vec<&'a Object> {
                let names: BTreeSet<&str> = pod.claims.iter().map(String::as_str).collect();
                names.into_iter().filter_map(|name| claims.get(name).copied()).collect()
            };
            let text = id.to_string();
            let moved = mounted(&own).into_iter().filter(|claim| label(claim, names::INSTANCE_ID) != text);
            let taken_on = mounted(&unowned).into_iter().chain(moved);
            follow.extend(taken_on.map(|claim| self.claims.take_on(claim, *id)));
            if !self.set.body.keeps_claims.when_scaled {
                let old = self.claims.of_id(*id).filter(|claim| self.is_superseded(claim, instance, pod, &outdated));
                deletions.extend(old.map(Claims::delete));
            }
        }
        (follow, deletions)
    }

    /// Whether the pod is of the target, mounts something else, and the claim is of a template that the target does not have.
    fn is_superseded(
        &self,
        claim: &Object,
        instance: &Instance<'_>,
        pod: &PodView,
        outdated: &BTreeSet<String>,
    ) -> bool {
        let is_through = instance.revision() == self.target && self.is_at_target(pod);
        is_through && !pod.claims.contains(&claim.id.name) && outdated.contains(label(claim, names::CLAIM_HASH))
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

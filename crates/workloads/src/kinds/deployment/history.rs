//! Templates of earlier rollouts, kept as empty ReplicaSets for `kubectl rollout history` and `undo`.

use std::collections::BTreeMap;

use hitless_api::digest;
use hitless_api::names::{annotations, labels};
use serde_json::{Value, json};

use super::{Deployment, ReplicaSet};
use crate::field::set;
use crate::halted::{self, Halted};
use crate::object::Object;
use crate::version::{Undo, Version, WayBack};
use crate::world::World;
use crate::write::Write;

/// Annotations that must not reach the Deployment again by an `undo`, which copies all of a ReplicaSet's annotations to it.
const NOT_KEPT: [&str; 3] =
    ["kubectl.kubernetes.io/last-applied-configuration", annotations::ROLLOUT, annotations::PAUSED];

/// The ReplicaSet that keeps the template of `live`. It has the labels of its template, so that the Deployment goes on
/// owning it.
pub(super) fn entry(deployment: Deployment<'_>, live: ReplicaSet<'_>, owned: &[ReplicaSet<'_>]) -> Value {
    let revision = live.body.template.revision();
    let hash = free_hash(revision, owned);
    let template = live.body.template.for_replica_set(Some(&hash), false);
    let mut all_labels = template["metadata"]["labels"].clone();
    set(&mut all_labels, &[labels::HISTORY], revision);
    let mut selector = live.body.selector.clone();
    set(&mut selector, &["matchLabels", labels::POD_TEMPLATE_HASH], hash.as_str());
    let mut kept = kept_annotations(deployment, live);
    if let Some(number) = number(live, owned) {
        kept.insert(annotations::DEPLOYMENT_REVISION.to_owned(), number.to_string());
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", deployment.id.name),
            "namespace": deployment.id.namespace,
            "labels": all_labels,
            "annotations": kept,
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": deployment.id.name, "uid": deployment.id.uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    })
}

/// The revision number of the template of `live`: later than all others, as the template is. The Deployment controller numbers a template
/// when it looks at it, and does not see one that is changed again before (`SetNewReplicaSetAnnotations`).
fn number(live: ReplicaSet<'_>, owned: &[ReplicaSet<'_>]) -> Option<u64> {
    let others = owned.iter().filter(|set| set.id.uid != live.id.uid).filter_map(ReplicaSet::number).max();
    live.number().max(others.map(|latest| latest.saturating_add(1)))
}

/// Gives the Deployment the template of an earlier revision. The guard holds it in the same write.
pub(super) fn undo(root: &Object, world: &World<'_>, to_revision: Option<u64>) -> Result<Undo, String> {
    let Some(deployment) = root.deployment() else { return Err(halted::NO_OTHER.to_owned()) };
    let present = &deployment.body.template;
    let sets = world.children(&root.id.uid).iter().filter_map(|set| set.replica_set());
    let others: Vec<ReplicaSet<'_>> = sets
        .filter(|set| !set.body.template.is_mixed() && set.body.template.revision() != present.revision())
        .filter(|set| set.body.template.too_large().is_none())
        .collect();
    let back_to = Halted::of_template(root, present).map(|halted| halted.back_to);
    let is_last_good = |set: &&ReplicaSet<'_>| back_to.as_deref() == Some(set.body.template.revision());
    let meant = match to_revision {
        Some(number) => others
            .iter()
            .find(|set| set.number() == Some(number))
            .ok_or_else(|| halted::unknown_revision(number, others.iter().filter_map(ReplicaSet::number)))?,
        None => others
            .iter()
            .find(is_last_good)
            .or_else(|| others.iter().max_by_key(|set| set.number()))
            .ok_or_else(|| halted::NO_OTHER.to_owned())?,
    };
    let template = meant.body.template.content().clone();
    let write = Write::patch("undo", root, |patch| patch.replace(&["spec", "template"], template));
    Ok(Undo { write, to: version(*meant) })
}

/// The version that the template asks for, if it was complete before: only of such ones a ReplicaSet is kept.
pub(super) fn way_back(root: &Object, world: &World<'_>) -> Option<WayBack> {
    let target = root.deployment()?.body.template.revision();
    let sets = world.children(&root.id.uid).iter().filter_map(|set| set.replica_set());
    let same = sets.filter(|set| !set.body.template.is_mixed() && set.body.template.revision() == target);
    let to = version(same.max_by_key(ReplicaSet::number)?);
    Some(WayBack { to, from_bad: Halted::is_left_for(root, target) })
}

fn version(set: ReplicaSet<'_>) -> Version {
    let images = set.body.template.images().map(|(_, image)| image.to_owned()).collect();
    Version { number: set.number(), images }
}

/// A `pod-template-hash` of 16 hexadecimal digits, which the Deployment controller never makes: the revision itself, unless a
/// ReplicaSet has it that has come to hold another template since.
fn free_hash(revision: &str, owned: &[ReplicaSet<'_>]) -> String {
    let taken = |hash: &str| owned.iter().any(|set| set.body.template.hash() == Some(hash));
    let others = owned.iter().map(|set| digest::short(&json!([revision, set.id.uid])));
    std::iter::once(revision.to_owned()).chain(others).find(|hash| !taken(hash)).unwrap_or_else(|| revision.to_owned())
}

/// The Deployment's annotations as they were at the time of that template (the live ReplicaSet has a copy of them, with the
/// change cause and the revision number), and what its owner tells hitless as it is now: `undo` must not opt it out.
fn kept_annotations(deployment: Deployment<'_>, live: ReplicaSet<'_>) -> BTreeMap<String, String> {
    let mut kept = deployment.annotations.clone();
    kept.extend(live.annotations.clone());
    let own = [
        annotations::UPDATE,
        annotations::RESTART_ANNOTATIONS,
        annotations::RESTARTS,
        annotations::RELOAD,
        annotations::CONFIG,
        annotations::INIT_CONFIG,
    ];
    for own in own {
        if let Some(value) = deployment.annotations.get(own) {
            kept.insert(own.to_owned(), value.clone());
        }
    }
    for size in ["deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"] {
        kept.insert(size.to_owned(), "0".to_owned());
    }
    kept.retain(|name, _| !NOT_KEPT.contains(&name.as_str()));
    kept
}

//! Which ReplicaSet stands behind a Deployment's pods.

use std::cmp::Reverse;

use super::ReplicaSet;
use crate::template::Template;

/// The live ReplicaSet: never one of the history entries; of the others the one with the most replicas, then the one that is
/// marked as live. Where none has pods it is the one that the Deployment controller would raise: the oldest with the target's
/// template, else the newest.
pub(super) fn live<'a>(owned: &[ReplicaSet<'a>], target: &Template) -> Option<ReplicaSet<'a>> {
    let exact =
        |set: &ReplicaSet<'_>| set.body.template.revision() == target.revision() && !set.body.template.is_mixed();
    owned.iter().copied().filter(|set| !set.is_history()).max_by_key(|set| {
        let age = if exact(set) { (Some(Reverse(set.object.created)), None) } else { (None, Some(set.object.created)) };
        (
            set.body.replicas,
            set.body.status_replicas,
            set.is_marked_live(),
            exact(set),
            age,
            set.object.id.name.as_str(),
        )
    })
}

/// Whether another ReplicaSet has pods too, or is about to. Two live ones can't be driven in place.
pub(super) fn is_split(live: ReplicaSet<'_>, owned: &[ReplicaSet<'_>]) -> bool {
    owned.iter().any(|set| set.id.uid != live.id.uid && !set.is_history() && set.body.replicas > 0)
}

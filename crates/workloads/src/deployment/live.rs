//! Which ReplicaSet stands behind a Deployment's pods.

use std::cmp::Reverse;

use super::template::Template;
use super::view::ReplicaSetView;

/// The live ReplicaSet: never one of the history entries; of the others the one with the most replicas, then the one that is
/// marked as live. Where none has pods it is the one that the Deployment controller would raise: the oldest with the target's
/// template, else the newest.
pub(super) fn live<'a>(owned: &[&'a ReplicaSetView], target: &Template) -> Option<&'a ReplicaSetView> {
    let exact = |set: &ReplicaSetView| set.template.revision() == target.revision() && !set.template.is_mixed();
    owned.iter().copied().filter(|set| !set.is_history()).max_by_key(|set| {
        let age = if exact(set) { (Some(Reverse(set.created)), None) } else { (None, Some(set.created)) };
        (set.replicas, set.status_replicas, set.is_marked_live(), exact(set), age, set.name.as_str())
    })
}

/// Whether another ReplicaSet has pods too, or is about to. Two live ones can't be driven in place.
pub(super) fn is_split(live: &ReplicaSetView, owned: &[&ReplicaSetView]) -> bool {
    owned.iter().any(|set| set.uid != live.uid && !set.is_history() && set.replicas > 0)
}

//! Writes to a Deployment and its ReplicaSets.

use hitless_api::JsonPatch;
use hitless_api::names::{annotations, labels};
use serde_json::Value;

use super::REPLICA_SET;
use super::{Deployment, ReplicaSet};
use crate::halted::Halted;
use crate::write::Write;

const TEMPLATE: [&str; 2] = ["spec", "template"];

fn label(name: &str) -> [&str; 3] {
    ["metadata", "labels", name]
}

/// Keeps the template that is being left, as an empty ReplicaSet.
pub(super) fn create_history(replica_set: Value) -> Write {
    Write::create("create-history", &REPLICA_SET.group_kind, replica_set)
}

/// Gives the live ReplicaSet the target template, marked as mixed: new pods come up new, and the rollout is not done.
pub(super) fn set_mixed(live: ReplicaSet<'_>, template: Value) -> Write {
    // Nobody knows what a version before this one left, so its pods are restarted: no digest is equal to this word.
    let left = live.left().unwrap_or("unknown").to_owned();
    Write::patch("set-mixed", live.object, |patch| patch.replace(&TEMPLATE, template).add(&label(labels::LIVE), left))
}

/// Gives the live ReplicaSet exactly this template; `settled` is the value of the label `hitless.dev/settled`, if the rollout
/// ends with it.
pub(super) fn set_exact(live: ReplicaSet<'_>, template: Value, settled: Option<String>) -> Write {
    Write::patch("set-exact", live.object, |patch| {
        let patch = patch.replace(&TEMPLATE, template);
        let patch = if live.is_marked_live() { patch.remove(&label(labels::LIVE)) } else { patch };
        match settled {
            Some(mark) => settle_in(patch, &mark),
            None => patch,
        }
    })
}

/// Labels the live ReplicaSet, which has exactly the target template already, as settled: what somebody with an older view of the
/// Deployment has prepared for it fails then.
pub(super) fn settle(live: ReplicaSet<'_>, mark: &str) -> Write {
    Write::patch("settle", live.object, |patch| settle_in(patch, mark))
}

fn settle_in(patch: JsonPatch, mark: &str) -> JsonPatch {
    patch.add(&label(labels::SETTLED), mark)
}

/// Removes an empty ReplicaSet that has the target template: the Deployment controller would take it for the live one. One of the
/// Deployment controller's own is made a history entry first: only such ones are deleted, so that nobody else's can be by mistake.
pub(super) fn remove_duplicate(duplicate: ReplicaSet<'_>) -> Write {
    if duplicate.is_history() {
        return Write::delete("delete-duplicate", duplicate.object);
    }
    let revision = duplicate.body.template.revision();
    Write::patch("label-duplicate", duplicate.object, |patch| patch.add(&label(labels::HISTORY), revision))
}

/// Takes these labels of ours off a ReplicaSet, so that the Deployment controller may do as it likes.
pub(super) fn strip_labels(set: ReplicaSet<'_>, names: &[&str]) -> Write {
    Write::patch("strip-labels", set.object, |patch| names.iter().fold(patch, |patch, name| patch.remove(&label(name))))
}

/// Lifts the guard's mark and its pause together. The mark of a version that was judged bad goes once another one has come to its end,
/// and that of a version that goes natively has done its work.
pub(super) fn unpause(deployment: Deployment<'_>) -> Write {
    let is_over = Halted::is_over(deployment.object, &deployment.body.template);
    Write::patch("unpause", deployment.object, |patch| {
        let patch = patch.remove(&["metadata", "annotations", annotations::ROLLOUT]).add(&["spec", "paused"], false);
        let patch = if is_over { patch.remove(&["metadata", "annotations", annotations::HALTED]) } else { patch };
        let is_native = deployment.object.annotations.contains_key(annotations::WAY);
        if is_native { patch.remove(&["metadata", "annotations", annotations::WAY]) } else { patch }
    })
}

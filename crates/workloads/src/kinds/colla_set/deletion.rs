//! A CollaSet that is being deleted: its pods leave service first, under the rules, and then it goes.
//!
//! Upstream waits for ever where a rule lets no pod go. Here missing pods of a CollaSet that is being deleted do not count
//! ([`crate::Kind::size`]), and after [`LONGEST`] the pods that are left are deleted as Kubernetes would have done at once.

use std::collections::BTreeMap;

use hitless_api::event::EventNote;
use hitless_api::pod::PodView;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::context::Context;
use super::view::{View, idle};
use super::{CollaSet, names};
use crate::plan::{Plan, Stage};
use crate::pod_set::pods::stays;
use crate::pod_set::{self, Facts, Journal as _, warning};
use crate::write::Write;

/// So long the rules may keep pods of a CollaSet that is being deleted.
pub(super) const LONGEST: SignedDuration = SignedDuration::from_mins(10);

/// The API server's own: its pods are to stay, without an owner.
const ORPHAN: &str = "orphan";

/// The API server's own: the garbage collector deletes its pods at once, before it goes, and asks nobody.
const FOREGROUND: &str = "foregroundDeletion";

/// Its pods leave service before it goes.
pub(super) fn with_finalizer(set: CollaSet<'_>) -> Option<Write> {
    let finalizers = &set.object.finalizers;
    if finalizers.iter().any(|known| known == names::FINALIZER) {
        return None;
    }
    let is_first = finalizers.is_empty();
    Some(Write::patch("add-finalizer", set.object, |patch| {
        let path = ["metadata", "finalizers"];
        if is_first {
            patch.add(&path, json!([names::FINALIZER]))
        } else {
            patch.add(&["metadata", "finalizers", "-"], names::FINALIZER)
        }
    }))
}

/// Takes it off, if it is there.
pub(super) fn without_finalizer(set: CollaSet<'_>) -> Option<Write> {
    let place = set.object.finalizers.iter().position(|known| known == names::FINALIZER)?.to_string();
    Some(Write::patch("remove-finalizer", set.object, |patch| {
        let path = ["metadata", "finalizers", place.as_str()];
        // Its place in the list: the version is tested, too.
        patch.test(&path, names::FINALIZER).remove(&path)
    }))
}

/// Everything that is done for it.
pub(super) fn plan<'a>(set: CollaSet<'a>, facts: &Facts<'_, 'a>) -> Plan {
    let Some(release) = without_finalizer(set) else { return idle(set, Stage::NotOurs) };
    if set.object.finalizers.iter().any(|known| known == ORPHAN) {
        return Plan { writes: vec![release], ..idle(set, Stage::Idle) };
    }
    let until = set.object.deleting_since.and_then(|since| since.saturating_add(LONGEST).ok());
    let is_late = until.zip(facts.world.now).is_some_and(|(until, now)| now >= until);
    let context = Context::of(set, facts.world);
    let plan = pod_set::dissolve(facts, &context, is_late);
    let view = View { set, facts, plan: &plan };
    // Those that have ended go with it; nobody waits for ever for a node that ends no pod.
    let is_left = |pod: &&&PodView| !pod.finished && (stays(pod) || !is_late);
    let left = facts.pods.iter().filter(is_left).count();
    let mut writes = Vec::new();
    if left == 0 {
        writes.extend(facts.claims.ownership());
        writes.extend(set.body.context.is_some().then(|| context.write(&BTreeMap::new(), 0)).flatten());
        // Whoever looks after the pods next is told of all of this first.
        let needs = writes.iter().map(Write::key).collect();
        writes.push(Write { needs, ..release });
    } else {
        writes.extend(plan.writes(facts, &context, view.own()));
    }
    writes.extend(view.report(&[]));
    let removed = if is_late && left > 0 { plan.leaving.removed.len() } else { 0 };
    let behind = facts.pods.iter().filter(|pod| stays(pod)).map(|pod| pod.id.uid.clone()).collect();
    let wake_at: Option<Timestamp> = until.filter(|_| !is_late);
    let (desired, notes) = (plan.leaving.desired, notes(set, facts, left, removed));
    Plan { writes, total: left, desired, behind, notes, wake_at, ..idle(set, Stage::Rolling) }
}

/// What people should know. `late`: pods that are deleted though the rules keep them.
fn notes(set: CollaSet<'_>, facts: &Facts<'_, '_>, left: usize, late: usize) -> Vec<EventNote> {
    let spec = &facts.spec;
    let mut notes: Vec<EventNote> = Vec::new();
    notes.extend(facts.claims.lost().map(|text| warning(spec, "ClaimsWillBeDeleted", text)));
    if left > 0 && set.object.finalizers.iter().any(|known| known == FOREGROUND) {
        let text = "it is deleted in the foreground: the garbage collector deletes its pods without their leaving service; delete \
            CollaSets with --cascade=background"
            .to_owned();
        notes.push(warning(spec, "DeletedInForeground", text));
    }
    if late > 0 {
        let text = format!(
            "the rules have kept {late} pods for {} minutes; they are deleted without leaving service first",
            LONGEST.as_mins()
        );
        notes.push(warning(spec, "ReclaimTargetsDeletionFailed", text));
    }
    notes
}

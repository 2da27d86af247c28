//! A CollaSet that is being deleted: its pods leave service first, under the rules, and then it goes.
//!
//! Upstream waits for ever where a rule lets no pod go. Here missing pods of a CollaSet that is being deleted do not count
//! ([`crate::Kind::size`]), and after [`LONGEST`] the pods that are left are deleted as Kubernetes would have done at once.

use hitless_api::event::EventNote;
use hitless_api::pod::PodView;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::context::Context;
use super::plan::{Work, warning};
use super::pods::stays;
use super::{CollaSet, names};
use crate::plan::{Plan, Stage};
use crate::removal::{MayGo, serves};
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

/// Everything that is done for it; `idle` is a plan that does nothing.
pub(super) fn plan(mut work: Work<'_, '_>, context: Context<'_>, idle: impl Fn(Stage) -> Plan) -> Plan {
    let set = work.set;
    let Some(release) = without_finalizer(set) else { return idle(Stage::NotOurs) };
    if set.object.finalizers.iter().any(|known| known == ORPHAN) {
        return Plan { writes: vec![release], ..idle(Stage::Idle) };
    }
    let until = set.object.deleting_since.and_then(|since| since.saturating_add(LONGEST).ok());
    let is_late = until.zip(work.world.now).is_some_and(|(until, now)| now >= until);
    let ids: Vec<i32> = work.roster.instances.keys().copied().collect();
    for id in ids {
        // Nobody who has seen this makes another one.
        work.mark(id, names::SCALE_IN);
        let Some(pod) = work.roster.instances.get(&id).and_then(|instance| instance.pod) else { continue };
        // One that serves nobody is not judged: its owner wants nothing of the CollaSet to be left.
        if is_late || !(serves(pod, work.world) || pod.is_protected()) {
            work.removed.extend(MayGo::of_deleted(pod, set.object));
        } else {
            work.remove(id, set.body.scale_delay_seconds);
        }
    }
    // Those that have ended go with it; nobody waits for ever for a node that ends no pod.
    let is_left = |pod: &&&PodView| !pod.finished && (stays(pod) || !is_late);
    let left = work.pods.iter().filter(is_left).count();
    let mut writes = Vec::new();
    let mut notes: Vec<EventNote> = Vec::new();
    notes.extend(work.lost_claims().map(|text| warning(set, "ClaimsWillBeDeleted", text)));
    if left > 0 && set.object.finalizers.iter().any(|known| known == FOREGROUND) {
        let text = "it is deleted in the foreground: the garbage collector deletes its pods without their leaving service; delete \
            CollaSets with --cascade=background"
            .to_owned();
        notes.push(warning(set, "DeletedInForeground", text));
    }
    if left == 0 {
        writes.extend(work.claims.ownership());
        let others = work.roster.without_own();
        writes.extend(set.body.context.is_some().then(|| context.write(set, &others)).flatten());
        // Whoever looks after the pods next is told of all of this first.
        let needs = writes.iter().map(Write::key).collect();
        writes.push(Write { needs, ..release });
    } else {
        writes.extend(work.writes(context));
        if is_late && !work.removed.is_empty() {
            let text = format!(
                "the rules have kept {} pods for {} minutes; they are deleted without leaving service first",
                work.removed.len(),
                LONGEST.as_mins()
            );
            notes.push(warning(set, "ReclaimTargetsDeletionFailed", text));
        }
    }
    writes.extend(work.report());
    let behind = work.pods.iter().filter(|pod| stays(pod)).map(|pod| pod.id.uid.clone()).collect();
    let wake_at: Option<Timestamp> = until.filter(|_| !is_late);
    Plan { writes, total: left, wishes: work.wishes, behind, notes, wake_at, ..idle(Stage::Rolling) }
}

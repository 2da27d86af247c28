//! What is to be done for one CollaSet.
//!
//! The ResourceContext names the pod of each id before that pod is made, and marks an id before its pod is removed. A pod is made
//! under the name that stands there and no other, so whoever is killed between two writes, or sees old objects, makes no pod too
//! many: the write to the ResourceContext fails, or the name is taken. An id gets another name only while the pod of the one before
//! is known to be there and to be leaving: once it is gone, somebody may have made it anew.

use std::collections::BTreeSet;

use hitless_api::event::{EventNote, Severity};
use hitless_api::pod::PodView;

use super::context::Context;
use super::revisions::Revisions;
use super::roster::{Roster, stays};
use super::{COLLA_SET, CollaSet, pod};
use crate::intent::{PodIntent, PodWish, share};
use crate::plan::{Because, Plan, Stage, note};
use crate::world::World;
use crate::write::{Request, Write};

/// One look at a CollaSet.
pub(super) struct Work<'a, 'w> {
    pub(super) set: CollaSet<'a>,
    pub(super) world: &'w World<'a>,
    pub(super) pods: &'w [&'a PodView],
    pub(super) revisions: Revisions<'a>,
    /// Name of the template's ControllerRevision.
    pub(super) target: &'a str,
    pub(super) roster: Roster<'a>,
    /// Ids whose pods leave, for whatever reason.
    pub(super) going: BTreeSet<i32>,
    pub(super) wishes: Vec<PodWish>,
    /// Pods that have left service, or never were in it, and are to be deleted.
    pub(super) removed: Vec<&'a PodView>,
    pub(super) behind: BTreeSet<String>,
    pub(super) total: usize,
    pub(super) refused: Option<Because>,
}

pub(super) fn plan(set: CollaSet<'_>, world: &World<'_>) -> Plan {
    let idle = |stage: Stage| Plan {
        stage,
        target: set.body.template.revision().to_owned(),
        permanent: true,
        ..Plan::nothing(set.object)
    };
    if set.object.deleting {
        return idle(Stage::NotOurs);
    }
    if set.body.not_supported.contains(&"spec.volumeClaimTemplates") {
        let text = "spec.volumeClaimTemplates is not supported yet, so no pod is made or changed".to_owned();
        let notes = vec![warning(set, "NotSupported", text.clone())];
        return Plan { notes, ..idle(Stage::Refused(Because { reason: "NotSupported", text })) };
    }
    let revisions = Revisions::of(set, world);
    let pods = world.pods(&set.object.id.uid);
    let Some(target) = revisions.target() else {
        let behind: BTreeSet<String> = pods.iter().filter(|pod| stays(pod)).map(|pod| pod.id.uid.clone()).collect();
        return Plan { writes: vec![revisions.create()], total: behind.len(), behind, ..idle(Stage::Rolling) };
    };
    let context = Context::of(set, world);
    let mut work = Work {
        set,
        world,
        pods,
        target: &target.object.id.name,
        roster: Roster::of(set, context, world),
        revisions,
        going: BTreeSet::new(),
        wishes: Vec::new(),
        removed: Vec::new(),
        behind: BTreeSet::new(),
        total: 0,
        refused: None,
    };
    work.scale();
    work.update();
    let mut writes = work.writes(context);
    writes.extend(work.revisions.renumber(target));
    if work.behind.is_empty() {
        writes.extend(work.revisions.prune(&work.used_revisions()));
    }
    writes.extend(work.report());
    let mut notes: Vec<EventNote> = work.notes().collect();
    let Work { mut wishes, behind, total, refused, .. } = work;
    share(&mut wishes);
    let stage = match refused {
        Some(because) if wishes.is_empty() => {
            notes.push(warning(set, "RolloutRefused", because.text.clone()));
            Stage::Refused(because)
        }
        _ if behind.is_empty() && wishes.is_empty() => Stage::Idle,
        _ => Stage::Rolling,
    };
    Plan { writes, wishes, behind, total, notes, ..idle(stage) }
}

impl<'a> Work<'a, '_> {
    /// The pod of the id is to go. One that serves leaves service first; the answer is whether it is deleted now.
    pub(super) fn remove(&mut self, id: i32) -> bool {
        let Some(pod) = self.roster.instances.get(&id).and_then(|instance| instance.pod) else { return false };
        let uid = &pod.id.uid;
        let serves = pod.available() || self.world.operating.contains(uid);
        if serves && !self.world.left.contains(uid) {
            self.wishes.push(PodWish::new(pod, Ok(PodIntent::drain(pod))));
            return false;
        }
        self.removed.push(pod);
        true
    }

    /// The ResourceContext first, after a look at the pods that leave and whose ids get another name; pods are deleted and made only
    /// if it is as it was seen, or as it was written just before.
    fn writes(&self, context: Context<'a>) -> Vec<Write> {
        let removals = self.removed.iter().map(|pod| delete(pod));
        let pods: Vec<Write> = removals.chain(self.creations()).collect();
        let looks: Vec<Write> = self.roster.leaving.iter().map(|pod| pod::write("look", pod, Request::Look)).collect();
        let seen = looks.iter().map(Write::key).collect();
        let changed = context.write(self.set, &self.roster.contexts()).map(|write| Write { needs: seen, ..write });
        let first = if pods.is_empty() { changed } else { changed.or_else(|| context.confirm()) };
        let needs: Vec<String> = first.iter().map(Write::key).collect();
        let pods = pods.into_iter().map(|write| Write { needs: needs.clone(), ..write });
        looks.into_iter().chain(first).chain(pods).collect()
    }

    /// As many at once as there are already, so that a template that is refused is refused once.
    fn creations(&self) -> impl Iterator<Item = Write> {
        let there = self.pods.iter().filter(|pod| stays(pod)).count().max(1);
        let missing = self.roster.instances.iter().filter(|(_, instance)| instance.is_free);
        missing.take(there).map(|(id, instance)| {
            let template = self.revisions.template(instance.revision());
            pod::create(self.set, *id, instance, template.unwrap_or(self.set.body.template.content()))
        })
    }

    fn notes(&self) -> impl Iterator<Item = EventNote> {
        let fields = &self.set.body.not_supported;
        let text = || format!("{} not supported yet, and nobody acts on it", fields.join(", "));
        (!fields.is_empty()).then(|| warning(self.set, "NotSupported", text())).into_iter()
    }
}

fn delete(pod: &PodView) -> Write {
    pod::write("delete-pod", pod, Request::Delete { resource_version: pod.resource_version.clone() })
}

fn warning(set: CollaSet<'_>, reason: &'static str, text: String) -> EventNote {
    note(&set.object.id, COLLA_SET.version, Severity::Warning, reason, text)
}

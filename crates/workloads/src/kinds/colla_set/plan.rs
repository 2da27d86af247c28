//! What is to be done for one CollaSet.
//!
//! The ResourceContext names the pod of each id before that pod is made, and marks an id before its pod is removed. A pod is made
//! under the name that stands there and no other, so whoever is killed between two writes, or sees old objects, makes no pod too
//! many: the write to the ResourceContext fails, or the name is taken. An id gets another name only while the pod of the one before
//! is known to be there and to be leaving: once it is gone, somebody may have made it anew. An id that is given up goes once the API
//! server says that its pod is not there.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::PodRef;
use hitless_api::event::{EventNote, Severity};
use hitless_api::grant::ImageChange;
use hitless_api::names::{DRAINED, GATES_NOT_READY};
use hitless_api::pod::{ConditionView, PodView};

use super::claims::Claims;
use super::context::Context;
use super::revisions::Revisions;
use super::roster::{Instance, Roster, stays};
use super::{COLLA_SET, CollaSet, deletion, names, pod};
use crate::intent::{PodIntent, PodWish, share};
use crate::kinds::pod_decoration::Decorations;
use crate::plan::{Because, Plan, Stage, note};
use crate::world::World;
use crate::write::{Request, Write};

/// So many pods are made at once at most.
const BURST: usize = 500;

/// One look at a CollaSet.
pub(super) struct Work<'a, 'w> {
    pub(super) set: CollaSet<'a>,
    pub(super) world: &'w World<'a>,
    pub(super) pods: &'w [&'a PodView],
    pub(super) revisions: Revisions<'a>,
    pub(super) claims: Claims<'a>,
    /// Name of the template's ControllerRevision.
    pub(super) target: &'a str,
    pub(super) roster: Roster<'a>,
    /// Ids whose pods leave, for whatever reason.
    pub(super) going: BTreeSet<i32>,
    /// Ids whose pods are let go.
    pub(super) excluded: BTreeSet<i32>,
    /// The pods that replace others, by the uid of the other one.
    pub(super) successors: BTreeMap<String, PodRef>,
    pub(super) wishes: Vec<PodWish>,
    /// Pods that have left service, or never were in it, and are to be deleted.
    pub(super) removed: Vec<&'a PodView>,
    /// Claims of ids that are given up.
    pub(super) removed_claims: Vec<Write>,
    pub(super) behind: BTreeSet<String>,
    pub(super) stuck: BTreeSet<String>,
    pub(super) total: usize,
    pub(super) refused: Option<Because>,
    /// What the API server says no to, by the verb of the write.
    pub(super) refusals: Vec<(&'static str, String)>,
    /// What its pods get beside the template.
    pub(super) decorations: Decorations<'a>,
}

pub(super) fn plan(set: CollaSet<'_>, world: &World<'_>) -> Plan {
    let idle = |stage: Stage| Plan {
        stage,
        target: set.body.template.revision().to_owned(),
        permanent: true,
        ..Plan::nothing(set.object)
    };
    let revisions = Revisions::of(set, world);
    let pods = world.pods(&set.object.id.uid);
    let target = revisions.target();
    let finalizer = deletion::with_finalizer(set).filter(|_| !set.object.deleting);
    if target.is_none() && !set.object.deleting {
        let behind: BTreeSet<String> = pods.iter().filter(|pod| stays(pod)).map(|pod| pod.id.uid.clone()).collect();
        let writes = finalizer.into_iter().chain([revisions.create()]).collect();
        return Plan { writes, total: behind.len(), behind, ..idle(Stage::Rolling) };
    }
    let context = Context::of(set, world);
    let mut work = Work {
        set,
        world,
        pods,
        target: target.map_or("", |target| &target.object.id.name),
        roster: Roster::of(set, context, world),
        claims: Claims::of(set, world),
        revisions,
        going: BTreeSet::new(),
        excluded: BTreeSet::new(),
        successors: BTreeMap::new(),
        wishes: Vec::new(),
        removed: Vec::new(),
        removed_claims: Vec::new(),
        behind: BTreeSet::new(),
        stuck: BTreeSet::new(),
        total: 0,
        refused: None,
        refusals: Vec::new(),
        decorations: Decorations::none(),
    };
    let Some(target) = target.filter(|_| !set.object.deleting) else {
        return deletion::plan(work, context, idle);
    };
    let mut writes: Vec<Write> = finalizer.into_iter().collect();
    if let Some(fault) = &set.body.fault {
        // Nothing is done, and nothing is lost.
        let because = Because { reason: "InvalidSpec", text: fault.clone() };
        work.refused = Some(because.clone());
        writes.extend(work.report());
        let notes = vec![warning(set, "InvalidSpec", because.text.clone())];
        return Plan { writes, notes, ..idle(Stage::Refused(because)) };
    }
    work.advance();
    writes.extend(work.writes(context));
    writes.extend(work.revisions.renumber(target));
    // What is under way is not taken back because other pods can't follow, and may be rolled back to the revision that it left.
    let is_operating = work.pods.iter().any(|pod| world.operating.contains(&pod.id.uid));
    if work.behind.is_empty() && !is_operating {
        writes.extend(work.revisions.prune(&work.used_revisions()));
    }
    let refused = writes.iter().filter_map(|write| Some((write.verb, world.refused.get(&write.key())?.clone())));
    work.refusals = refused.collect();
    writes.extend(work.report());
    let mut notes = work.notes();
    let (goal, single) = work.goals();
    let Work { mut wishes, behind, stuck, total, refused, .. } = work;
    share(&mut wishes);
    let stage = match refused {
        Some(because) if wishes.is_empty() && !is_operating => {
            notes.push(warning(set, "RolloutRefused", because.text.clone()));
            Stage::Refused(because)
        }
        _ if behind.is_empty() && wishes.is_empty() => Stage::Idle,
        _ => Stage::Rolling,
    };
    Plan { target: goal, single, writes, wishes, behind, stuck, total, notes, ..idle(stage) }
}

impl<'a> Work<'a, '_> {
    fn advance(&mut self) {
        self.decorate();
        // A pod that was let go keeps its name.
        let unowned = self.world.unowned_pods(&self.set.object.id.namespace).iter();
        let taken: BTreeSet<&str> = self.pods.iter().chain(unowned).map(|pod| pod.id.name.as_str()).collect();
        self.give_up();
        self.exclude();
        self.go_on_replacing();
        self.scale(&taken);
        self.begin_replacing(&taken);
        self.update();
    }

    /// The pod of the id is to go. One that serves leaves service first, for so many seconds at least; the answer is whether it is
    /// deleted now.
    pub(super) fn remove(&mut self, id: i32, delay_seconds: u32) -> bool {
        self.remove_once_fetched(id, delay_seconds, BTreeMap::new())
    }

    /// The same; it does not leave service before these images are on its node.
    pub(super) fn remove_once_fetched(
        &mut self,
        id: i32,
        delay_seconds: u32,
        fetch: BTreeMap<String, ImageChange>,
    ) -> bool {
        let Some(pod) = self.roster.instances.get(&id).and_then(|instance| instance.pod) else { return false };
        if self.leaves_first(pod) {
            let ends = self.successors.contains_key(&pod.id.uid);
            let intent = Ok(PodIntent::drain_for(pod, fetch));
            self.wishes.push(PodWish { delay_seconds, ends, ..PodWish::new(pod, intent) });
            return false;
        }
        self.removed.push(pod);
        true
    }

    /// Whether it has to leave service before it may go.
    pub(super) fn leaves_first(&self, pod: &PodView) -> bool {
        let uid = &pod.id.uid;
        let serves = pod.available() || is_returning(pod) || is_leaving(pod) || self.world.operating.contains(uid);
        serves && !self.world.left.contains(uid)
    }

    /// Whether no operation of its pods is to begin (annotation `hitless.dev/paused`).
    pub(super) fn is_paused(&self) -> bool {
        self.set.object.pause().is_some()
    }

    pub(super) fn is_removed(&self, pod: &PodView) -> bool {
        self.removed.iter().any(|removed| removed.id.uid == pod.id.uid)
    }

    /// The ResourceContext first, after a look at the pods that leave and whose ids get another name, and at those that are seen no
    /// more; pods are deleted, made and labelled only if it is as it was seen, or as it was written just before.
    pub(super) fn writes(&self, context: Context<'a>) -> Vec<Write> {
        let looks = self.roster.leaving.iter().map(|pod| Write::on_pod("look", &pod.id, Request::Look));
        let looks: Vec<Write> = looks.chain(self.roster.vanished.iter().map(|name| self.absent(name))).collect();
        let seen = looks.iter().map(Write::key).collect();
        let (follow, superseded) = self.claim_writes();
        let removals: Vec<Write> = self.removals();
        let rest = self.removed_claims.iter().cloned().chain(superseded).chain(self.creations()).chain(self.relabels());
        let resting: Vec<Write> = removals.into_iter().chain(rest).collect();
        let changed = context.write(self.set, &self.roster.contexts()).map(|write| Write { needs: seen, ..write });
        let first = if resting.is_empty() { changed } else { changed.or_else(|| context.confirm()) };
        let needed: Vec<String> = first.iter().map(Write::key).collect();
        let resting = resting.into_iter().map(|write| {
            let needs = needed.iter().cloned().chain(write.needs.iter().cloned()).collect();
            Write { needs, ..write }
        });
        let others = follow.into_iter().chain(self.membership_writes());
        looks.into_iter().chain(first).chain(resting).chain(others).collect()
    }

    /// A pod that is replaced goes only if the one that replaces it is there.
    fn removals(&self) -> Vec<Write> {
        let mut writes = Vec::new();
        for pod in &self.removed {
            let successor = self.successors.get(&pod.id.uid);
            let look = successor.map(|new| Write::on_pod("look-at-successor", new, Request::Look));
            let needs = look.iter().map(Write::key).collect();
            let deletion = Write::delete_pod("delete-pod", pod);
            // One Event for all of them: each is a write.
            let tells = writes.is_empty().then(|| match self.removed.len() {
                1 => normal(self.set, "TargetDeleted", format!("deletes pod {}", pod.id.name)),
                count => normal(self.set, "TargetsDeleted", format!("deletes {count} pods, {} first", pod.id.name)),
            });
            writes.extend(look);
            writes.push(Write { tells, needs, ..deletion });
        }
        writes
    }

    fn absent(&self, name: &str) -> Write {
        let id = &self.set.object.id;
        let pod = PodRef { namespace: id.namespace.clone(), name: name.to_owned(), uid: String::new() };
        Write::on_pod("look-for", &pod, Request::Absent { owner_uid: id.uid.clone() })
    }

    /// As many at once as there are already, so that a template that is refused is refused once.
    fn creations(&self) -> Vec<Write> {
        let there = self.pods.iter().filter(|pod| stays(pod)).count().clamp(1, BURST);
        let missing = self.roster.instances.iter().filter(|(_, instance)| instance.is_free);
        let (outdated, none) = (self.outdated_claims(), BTreeSet::new());
        let origins: BTreeMap<i32, i32> = self.roster.pairs().into_iter().map(|(origin, new)| (new, origin)).collect();
        let count = missing.clone().count().min(there);
        let (mut writes, mut is_first) = (Vec::new(), true);
        for (id, instance) in missing.take(there) {
            let replaces = origins.get(id).and_then(|origin| self.roster.instances.get(origin));
            let Some(template) = self.template_of_new(*id, instance, replaces) else { continue };
            let templates = self.revisions.claims(instance.revision()).unwrap_or(&self.set.body.claims);
            let is_target = instance.revision() == self.target;
            let of_target = if is_target { &outdated } else { &none };
            let Some(needed) = self.claims.needed((*id, instance.pod_name()), templates, of_target, self.world) else {
                continue;
            };
            let plan =
                pod::Plan { template: &template, claims: needed.mounts, replaces: replaces.map(Instance::pod_name) };
            let needs = needed.writes.iter().map(Write::key).collect();
            let tells = match replaces {
                Some(origin) => {
                    let text =
                        format!("made pod {} with id {id} to replace {}", instance.pod_name(), origin.pod_name());
                    Some(normal(self.set, "CreatePairTarget", text))
                }
                // One Event for all of them: each is a write.
                None if is_first => {
                    is_first = false;
                    Some(normal(self.set, "Scaled", format!("makes {count} pods, {} first", instance.pod_name())))
                }
                None => None,
            };
            writes.extend(needed.writes);
            writes.push(Write { tells, needs, ..pod::create(self.set, *id, instance, &plan) });
        }
        writes
    }

    fn notes(&self) -> Vec<EventNote> {
        let mut notes = self.membership_notes();
        if self.is_full() && self.count() < self.set.body.replicas {
            notes.push(warning(self.set, "TooManyReplicas", self.fullness()));
        }
        notes.extend(self.unscheduled().map(|text| warning(self.set, "TargetPending", text)));
        notes
    }

    /// Ids that are given up go, once their pods and, unless they are kept, their claims have gone.
    fn give_up(&mut self) {
        let seen: BTreeSet<&str> =
            self.pods.iter().filter(|pod| pod.terminating).map(|pod| pod.id.name.as_str()).collect();
        let is_gone = |(_, instance): &(&i32, &Instance<'_>)| instance.is(names::SCALE_IN) && instance.pod.is_none();
        let gone: Vec<(i32, bool)> = self
            .roster
            .instances
            .iter()
            .filter(is_gone)
            .map(|(id, instance)| (*id, seen.contains(instance.pod_name())))
            .collect();
        for (id, is_leaving) in gone {
            if !self.delete_claims(id) {
                self.roster.give_up(id, is_leaving);
            }
        }
    }

    /// The claims of an id that is given up go, unless they are kept; says whether there are any.
    pub(super) fn delete_claims(&mut self, id: i32) -> bool {
        if self.set.body.keeps_claims.when_scaled {
            return false;
        }
        let before = self.removed_claims.len();
        self.removed_claims.extend(self.claims.of_id(id).map(Claims::delete));
        self.removed_claims.len() > before
    }
}

/// It has been put back into service, and the kubelet has not said yet that it is Ready. Of one that is lost or crashes the kubelet
/// gives another reason.
fn is_returning(pod: &PodView) -> bool {
    let waits_for_gates = |ready: &ConditionView| !ready.is_true && ready.reason == GATES_NOT_READY;
    let is_there = !pod.terminating && !pod.finished && pod.in_service().is_some_and(|condition| condition.is_true);
    is_there && pod.conditions.get("Ready").is_some_and(waits_for_gates)
}

/// An agent has taken it out of service and has not said that it is drained. A new leader may see that before it sees the grant.
fn is_leaving(pod: &PodView) -> bool {
    let is_out = |condition: &ConditionView| !condition.is_true && condition.reason != DRAINED;
    let runs = pod.conditions.get("ContainersReady").is_some_and(|condition| condition.is_true);
    !pod.terminating && !pod.finished && runs && pod.in_service().is_some_and(is_out)
}

pub(super) fn warning(set: CollaSet<'_>, reason: &'static str, text: String) -> EventNote {
    note(&set.object.id, COLLA_SET.version, Severity::Warning, reason, text)
}

fn normal(set: CollaSet<'_>, reason: &'static str, text: String) -> EventNote {
    EventNote { action: "Scale", ..note(&set.object.id, COLLA_SET.version, Severity::Normal, reason, text) }
}

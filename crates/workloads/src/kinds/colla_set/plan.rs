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
use hitless_api::pod::PodView;

use super::claims::{self, Claims};
use super::context::Context;
use super::pods::stays;
use super::revisions::Revisions;
use super::roster::{Instance, Roster};
use super::{COLLA_SET, CollaSet, deletion, names, pod};
use crate::because::{Because, Cause};
use crate::intent::{PodIntent, PodWish, share};
use crate::kinds::pod_decoration::Decorations;
use crate::plan::{Plan, Stage, note};
use crate::removal::{MayGo, Removal, serves};
use crate::restart_annotations;
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
    /// Pods that are deleted now.
    pub(super) removed: Vec<MayGo<'a>>,
    /// Claims of ids that are given up.
    pub(super) removed_claims: Vec<Write>,
    pub(super) behind: BTreeSet<String>,
    pub(super) stuck: BTreeSet<String>,
    pub(super) total: usize,
    pub(super) refused: Option<Because>,
    /// Whether pods that are to be made would be accepted, by the revision that they are made from.
    pub(super) tries: BTreeMap<String, Write>,
    /// What the API server says no to, by the verb of the write.
    pub(super) refusals: Vec<(&'static str, String)>,
    /// What its pods get beside the template.
    pub(super) decorations: Decorations<'a, 'w>,
}

pub(super) fn plan(set: CollaSet<'_>, world: &World<'_>) -> Plan {
    let idle = |stage: Stage| Plan {
        stage,
        target: set.body.template.revision().to_owned(),
        permanent: true,
        ..Plan::nothing(set.object)
    };
    if let Some(large) = set.body.template.too_large().filter(|_| !set.object.deleting) {
        // Nothing is done, and nothing is lost.
        let because = Because::too_large(large);
        return idle(Stage::Refused(because));
    }
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
        tries: BTreeMap::new(),
        refusals: Vec::new(),
        decorations: Decorations::none(),
    };
    let Some(target) = target.filter(|_| !set.object.deleting) else {
        return deletion::plan(work, context, idle);
    };
    let mut writes: Vec<Write> = finalizer.into_iter().collect();
    if let Some(fault) = &set.body.fault {
        // Nothing is done, and nothing is lost.
        let because = Because::of(Cause::InvalidSpec, fault.clone());
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
    notes.extend(restart_annotations::notes(set.object, &COLLA_SET));
    let (goal, single) = work.goals();
    let Work { mut wishes, behind, stuck, total, refused, target, .. } = work;
    let target_label = Some(target.to_owned());
    share(&mut wishes);
    let stage = match refused {
        Some(because) if wishes.is_empty() && !is_operating => {
            notes.push(warning(set, "RolloutRefused", because.text.clone()));
            Stage::Refused(because)
        }
        _ if behind.is_empty() && wishes.is_empty() => Stage::Idle,
        _ => Stage::Rolling,
    };
    Plan { target: goal, target_label, single, writes, wishes, behind, stuck, total, notes, ..idle(stage) }
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

    /// The pod of the id is to go, and none is made in its place. That is a wish, which the rules judge: one that serves leaves service
    /// first, for so many seconds at least. The answer is whether it is deleted now.
    pub(super) fn remove(&mut self, id: i32, delay_seconds: u32) -> bool {
        self.remove_once_fetched(id, delay_seconds, BTreeMap::new(), Removal::Surplus)
    }

    /// The same; one that serves does not leave service before these images are on its node.
    pub(super) fn remove_once_fetched(
        &mut self,
        id: i32,
        delay_seconds: u32,
        fetch: BTreeMap<String, ImageChange>,
        removal: Removal,
    ) -> bool {
        let Some(pod) = self.roster.instances.get(&id).and_then(|instance| instance.pod) else { return false };
        if let Some(may_go) = MayGo::drained(pod, self.world) {
            self.removed.push(may_go);
            return true;
        }
        let ends = self.successors.contains_key(&pod.id.uid);
        let removal = (!serves(pod, self.world)).then_some(removal);
        let intent = Ok(PodIntent::drain_for(pod, fetch));
        // Also of one that is reserved: its reservation stays as long as it is wished.
        self.wishes.push(PodWish { delay_seconds, ends, removal, ..PodWish::new(pod, intent) });
        let may_go = MayGo::reserved(pod, self.world);
        self.removed.extend(may_go);
        may_go.is_some()
    }

    /// How many pods that serve nobody may be made anew at a time: a quarter of all, rounded down, at least one, as Deployments have it
    /// (`maxUnavailable`; upstream's `cleanupUnhealthyReplicas`), without those that are away already: ids without a pod, pods that are
    /// operated, and unavailable ones that are to stay and for which `counts` holds.
    pub(super) fn made_anew(&self, counts: impl Fn(i32, &PodView) -> bool) -> Removal {
        let is_away = |id: i32, instance: &Instance<'_>| {
            let Some(pod) = instance.pod else { return true };
            let uid = &pod.id.uid;
            let is_removable = self.world.removable.contains(uid);
            let is_operated = self.world.left.contains(uid) || (self.world.operating.contains(uid) && !is_removable);
            is_operated || (!pod.available() && !self.going.contains(&id) && counts(id, pod))
        };
        let away = self.roster.counted().filter(|(id, instance)| is_away(*id, instance)).count();
        let room = (self.set.body.replicas / 4).max(1).saturating_sub(away);
        Removal::Anew { room: u32::try_from(room).unwrap_or(u32::MAX) }
    }

    /// Whether no operation of its pods is to begin (annotation `hitless.dev/paused`).
    pub(super) fn is_paused(&self) -> bool {
        self.set.object.pause().is_some()
    }

    pub(super) fn is_removed(&self, pod: &PodView) -> bool {
        self.removed.iter().any(|removed| removed.pod().id.uid == pod.id.uid)
    }

    /// The ResourceContext first, after a look at the pods that leave and whose ids get another name, and at those that are seen no
    /// more; pods are deleted, made and labelled only if it is as it was seen, or as it was written just before.
    pub(super) fn writes(&self, context: Context<'a>) -> Vec<Write> {
        let looks = self.roster.leaving.iter().map(|pod| Write::on_pod("look", &pod.id, Request::Look));
        let looks: Vec<Write> = looks.chain(self.roster.vanished.iter().map(|name| self.absent(name))).collect();
        let seen = looks.iter().map(Write::key).collect();
        let (follow, superseded) = self.claim_writes();
        let removals: Vec<Write> = self.removals();
        let given_up = claims::told(self.set, self.removed_claims.clone(), claims::SCALED);
        let rest = given_up.into_iter().chain(superseded).chain(self.creations()).chain(self.relabels());
        let resting: Vec<Write> = removals.into_iter().chain(rest).collect();
        let changed = context.write(self.set, &self.roster.contexts()).map(|write| Write { needs: seen, ..write });
        let first = if resting.is_empty() { changed } else { changed.or_else(|| context.confirm()) };
        let needed: Vec<String> = first.iter().map(Write::key).collect();
        let resting = resting.into_iter().map(|write| {
            let needs = needed.iter().cloned().chain(write.needs.iter().cloned()).collect();
            Write { needs, ..write }
        });
        let others = follow.into_iter().chain(self.membership_writes());
        looks.into_iter().chain(first).chain(resting).chain(others).chain(self.tries.values().cloned()).collect()
    }

    /// A pod that is replaced goes only if the one that replaces it is there.
    fn removals(&self) -> Vec<Write> {
        let mut writes = Vec::new();
        for may_go in &self.removed {
            let pod = may_go.pod();
            let successor = self.successors.get(&pod.id.uid);
            let look = successor.map(|new| Write::on_pod("look-at-successor", new, Request::Look));
            let needs = look.iter().map(Write::key).collect();
            let deletion = Write::delete_pod("delete-pod", *may_go);
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

pub(super) fn warning(set: CollaSet<'_>, reason: &'static str, text: String) -> EventNote {
    note(&set.object.id, COLLA_SET.version, Severity::Warning, reason, text)
}

fn normal(set: CollaSet<'_>, reason: &'static str, text: String) -> EventNote {
    EventNote { action: "Scale", ..note(&set.object.id, COLLA_SET.version, Severity::Normal, reason, text) }
}

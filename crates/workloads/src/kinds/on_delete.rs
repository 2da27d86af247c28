//! What StatefulSets and DaemonSets have in common: both have the update strategy `OnDelete`, under which the native controller
//! goes on scaling and reporting and leaves the roll-out to somebody else.
//!
//! 1. The guard sets `OnDelete` in the write that changes the template, and keeps the owner's strategy in an annotation.
//! 2. The native controller makes the new revision. Each pod gets images and revision labels in one patch.
//! 3. When the native controller counts all pods as updated, the owner's strategy is put back in one patch. It finds nothing to do.

mod let_go;
mod strategy;
mod way_back;

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::event::{EventNote, Severity};
use hitless_api::names::{annotations, labels};
use hitless_api::pod::PodView;

pub(super) use strategy::{held, put_back, release, wanted};
pub(super) use way_back::way_back;

use super::update_strategy::is_on_delete;
use super::way;
use crate::because::Because;
use crate::diff::InPlace;
use crate::halted::{self, BadVersion, Halted};
use crate::intent::{DesiredOperation, Obstacle, share};
use crate::kind::Resource;
use crate::labels::Selections;
use crate::need::{Goal, Need, Origin, agentless, need, new_pods_only};
use crate::object::Object;
use crate::once_per_pod;
use crate::opt_in::OptIn;
use crate::plan::{Plan, Stage, note};
use crate::restart_annotations;
use crate::revision::Revisions;
use crate::shape::Shape;
use crate::template::Template;
use crate::world::World;
use crate::write::Write;

/// A StatefulSet or DaemonSet as it is seen here.
pub(super) struct Subject<'a> {
    pub(super) object: &'a Object,
    pub(super) resource: &'static Resource,
    pub(super) template: &'a Template,
    /// Who finds pods of its namespace by their labels.
    pub(super) selections: Selections<'a>,
    pub(super) strategy: &'a serde_json::Value,
    /// Labels of a pod that is up to date; `None`: the native controller has not made that revision yet.
    pub(super) labels: Option<BTreeMap<String, String>>,
    pub(super) revisions: Revisions<'a>,
    /// How many pods it is meant to have.
    pub(super) desired: usize,
    /// All pods that are there to stay.
    pub(super) pods: Vec<&'a PodView>,
    /// Those that are to be brought to the target, in the order in which they go.
    pub(super) in_order: Vec<&'a PodView>,
    /// Pods that are to be at another revision than the target, and are not.
    pub(super) kept_back: Option<KeptBack<'a>>,
    /// At most so many go or are away at a time, the first ones; `None`: the order is of no interest.
    pub(super) at_a_time: Option<usize>,
    /// Whether the native controller has seen the template, and how many pods it counts as updated.
    pub(super) counts: Option<usize>,
    /// Of so many pods at most the native controller counts neither that they are there nor that they are updated.
    pub(super) uncounted: usize,
    /// It can't be operated, whatever the change is.
    pub(super) impossible: Option<Because>,
}

/// Pods that go back to the revision at which the owner's strategy keeps them.
pub(super) struct KeptBack<'a> {
    pub(super) pods: Vec<&'a PodView>,
    pub(super) template: Template,
    /// Labels of a pod of that revision.
    pub(super) labels: BTreeMap<String, String>,
}

/// Whether one of its revisions was made while it had opted in: a ControllerRevision keeps the annotations that its workload had.
pub(super) fn was_opted_in(root: &Object, world: &World<'_>) -> bool {
    world.children(&root.id.uid).iter().any(|revision| revision.opt_in() != OptIn::No)
}

impl<'a> Subject<'a> {
    pub(super) fn plan(&self, world: &World<'_>) -> Plan {
        let mut plan = self.derive(world);
        plan.notes = self.notes(&plan, world);
        plan.notes
            .extend(restart_annotations::notes(self.object, self.resource).filter(|_| plan.stage != Stage::NotOurs));
        plan
    }

    fn derive(&self, world: &World<'_>) -> Plan {
        let held = self.object.held_by_guard();
        if self.object.deleting {
            return self.idle(Stage::NotOurs, None);
        }
        if self.object.opt_in() == OptIn::No {
            let text = || format!("{}; the native controller rolls pods that are not at its template", OptIn::GONE);
            let tells = || self.note(Severity::Normal, "OptInRemoved", text());
            return self.idle(Stage::NotOurs, held.then(|| self.put_back().telling(Some(tells()))));
        }
        if !is_on_delete(self.strategy) {
            // A mark without its strategy guards nothing.
            return if held { self.idle(Stage::Idle, Some(self.put_back())) } else { self.native() };
        }
        let pause = self.object.pause();
        if let Some(because) = &self.impossible {
            return if pause.is_some() { self.collecting() } else { self.step_aside(because.clone()) };
        }
        if let Some(because) = way::of_template(self.object, self.template).filter(|_| held) {
            return if pause.is_some() { self.collecting() } else { self.let_go(because, world) };
        }
        if let Some(halted) = Halted::of_template(self.object, self.template) {
            let write = self.restore(&halted);
            let because = halted.because(self.template, self.good(&halted.back_to));
            return Plan { permanent: !held, ..self.idle(Stage::Halted(because), write) };
        }
        if self.labels.is_none() {
            let behind: BTreeSet<String> = self.in_order.iter().map(|pod| pod.id.uid.clone()).collect();
            return Plan { permanent: !held, total: behind.len(), behind, ..self.idle(Stage::Rolling, None) };
        }
        match self.first_native_change() {
            // Letting it go would let the native controller roll it.
            Some(_) if pause.is_some() => self.collecting(),
            Some(because) => self.step_aside(because),
            None => self.drive(world),
        }
    }

    /// It is paused, and what changes can't be made in place: it stays as it is.
    fn collecting(&self) -> Plan {
        let behind = self.in_order.iter().filter(|pod| !self.is_at_target(pod));
        let behind: BTreeSet<String> = behind.map(|pod| pod.id.uid.clone()).collect();
        let (total, permanent) = (self.in_order.len(), !self.object.held_by_guard());
        Plan { permanent, behind, total, ..self.idle(Stage::Rolling, None) }
    }

    /// Why the template can't be given to the pods in place, if it can't.
    fn first_native_change(&self) -> Option<Because> {
        let in_place = self.in_place();
        let target = self.template.shape();
        let behind = self.in_order.iter().filter(|pod| !self.is_at_target(pod));
        behind.filter_map(|pod| self.shape(pod)).find_map(|shape| {
            if shape.fixed == target.fixed {
                let because = in_place.first_native_change(shape);
                let admission =
                    || in_place.restarts().asks_admission(&shape.annotations, self.template, &self.in_order);
                return because.or_else(admission);
            }
            Some(Because::field("something else than images, labels and restart annotations in spec.template"))
        })
    }

    fn in_place(&self) -> InPlace<'_> {
        InPlace::of(self.object, self.template, &self.selections)
    }

    fn drive(&self, world: &World<'_>) -> Plan {
        let mut desired = self.operations(world);
        share(&mut desired);
        // Under its owner's own OnDelete nobody else makes new pods; the others go on.
        let agentless = || agentless(&desired, &self.in_order, world).filter(|_| self.object.held_by_guard());
        match new_pods_only(&desired, &self.in_order, world).or_else(agentless) {
            Some(_) if self.object.pause().is_some() => return self.collecting(),
            Some(because) => return self.step_aside(because),
            None => {}
        }
        let behind: BTreeSet<String> = desired.iter().map(|wanted| wanted.pod.uid.clone()).collect();
        let total = self.in_order.len() + self.kept_back.as_ref().map_or(0, |kept| kept.pods.len());
        let permanent = !self.object.held_by_guard();
        if !desired.is_empty() {
            return Plan { permanent, desired, behind, total, ..self.idle(Stage::Rolling, None) };
        }
        if permanent {
            let forget = Halted::is_over(self.object, self.template).then(|| halted::forget(self.object));
            return Plan { permanent, total, ..self.idle(Stage::Idle, forget) };
        }
        let updated = self.pods.iter().filter(|pod| self.is_at_target(pod)).count();
        // A new leader may know the pod's new labels before it knows the grant: who is out of service is being operated.
        // One that is held stays in service, but is not Ready at once.
        let surplus = self.pods.len().checked_sub(self.desired).filter(|surplus| *surplus <= self.uncounted);
        let is_counted = |counts: usize| surplus.is_some_and(|more| counts <= updated && updated <= counts + more);
        let settled = self.counts.is_some_and(is_counted)
            && !self.pods.iter().any(|pod| world.operating.contains(&pod.id.uid) || !serves(pod));
        let write = settled.then(|| {
            let text = format!("all {total} pods have {}, in place{}", self.template.label(), self.left_by_restart());
            self.put_back().telling(Some(self.note(Severity::Normal, "RolloutFinished", text)))
        });
        Plan { total, ..self.idle(Stage::Finishing, write) }
    }

    fn operations(&self, world: &World<'_>) -> Vec<DesiredOperation> {
        let is_away = |pod: &PodView| world.operating.contains(&pod.id.uid) || !pod.available();
        // The native controllers wait for `minReadySeconds`, too.
        let is_recently_ready = |pod: &PodView| world.recently_ready.contains_key(pod.id.uid.as_str());
        // Pods that are not there are away, too.
        let missing = self.desired.saturating_sub(self.pods.len());
        let mut room = self.at_a_time.map(|most| most.saturating_sub(missing));
        let leaving = world.pods(&self.object.id.uid).iter().find(|pod| pod.terminating);
        let leaving = leaving.map(|pod| pod.id.name.as_str());
        let mut first: Option<&str> = None;
        let mut desired = Vec::new();
        let needs = self.in_order.iter().map(|pod| (*pod, self.need(pod))).chain(self.kept_back());
        for (rank, (pod, needed)) in (0..).zip(needs) {
            if matches!(needed, Need::Nothing) && !is_away(pod) && !is_recently_ready(pod) {
                continue;
            }
            // A pod that is not available anyway goes whatever its turn is: it may need the operation to become available, and those
            // before it may wait for that.
            let has_room = room.is_none_or(|room| room > 0) || is_away(pod);
            room = room.map(|room| room.saturating_sub(1));
            if let Need::Operation(intent) = needed {
                let turn = || Obstacle::NotItsTurn {
                    kind: self.resource.plural,
                    first: first.or(leaving).unwrap_or("a pod that is not there").to_owned(),
                };
                let rank = if self.at_a_time.is_some() { rank } else { 0 };
                desired.push(DesiredOperation {
                    rank,
                    ..DesiredOperation::new(pod, if has_room { intent } else { Err(turn()) })
                });
            }
            first = first.or(Some(&pod.id.name));
        }
        desired
    }

    fn kept_back(&self) -> Vec<(&'a PodView, Need)> {
        let Some(kept) = &self.kept_back else { return Vec::new() };
        let goal = Goal::of(self.object, &kept.template, kept.labels.clone());
        kept.pods.iter().map(|pod| (*pod, self.need_for(&goal, pod))).collect()
    }

    fn need(&self, pod: &PodView) -> Need {
        if self.is_at_target(pod) {
            return Need::Nothing;
        }
        self.need_for(&Goal::of(self.object, self.template, self.labels.clone().unwrap_or_default()), pod)
    }

    fn need_for(&self, goal: &Goal<'_>, pod: &PodView) -> Need {
        let label = pod.labels.get(labels::CONTROLLER_REVISION_HASH);
        let Some(shape) = self.shape(pod) else {
            let revision = label.cloned().unwrap_or_default();
            return Need::Operation(Err(Obstacle::UnknownRevision { revision }));
        };
        need(pod, goal, &Origin::of(&shape.revision), [shape])
    }

    /// The native controllers go by this label.
    fn is_at_target(&self, pod: &PodView) -> bool {
        let name = labels::CONTROLLER_REVISION_HASH;
        let target = self.labels.as_ref().and_then(|labels| labels.get(name));
        target.is_some() && pod.labels.get(name) == target
    }

    /// The template that the pod was made from or brought to.
    fn shape(&self, pod: &PodView) -> Option<&'a Shape> {
        let label = pod.labels.get(labels::CONTROLLER_REVISION_HASH)?;
        self.revisions.get(label.as_str()).map(|(_, shape)| *shape)
    }

    fn native(&self) -> Plan {
        // The native controller looks again after each change of its object, such as the end of a hold. Until it has, a pod is compared
        // by the template that it has, or a rollout that has ended would look as if nobody had anything of it.
        let is_current = |pod: &PodView| match &self.labels {
            Some(_) => self.is_at_target(pod),
            None => self.shape(pod).is_some_and(|shape| shape.revision == self.template.revision()),
        };
        let behind = self.in_order.iter().filter(|pod| !is_current(pod));
        let behind: BTreeSet<String> = behind.map(|pod| pod.id.uid.clone()).collect();
        let stage = if behind.is_empty() { Stage::Idle } else { Stage::Native };
        Plan { behind, total: self.in_order.len(), ..self.idle(stage, None) }
    }

    /// With the pods that do not get it.
    fn refused(&self, because: Because) -> Plan {
        Plan { permanent: !self.object.held_by_guard(), stage: Stage::Refused(because), ..self.native() }
    }

    fn step_aside(&self, because: Because) -> Plan {
        let only = self.object.opt_in() == OptIn::InPlaceOnly;
        if only || !self.object.held_by_guard() {
            return self.refused(because);
        }
        let text = format!("{}; the native controller rolls it", because.text);
        let write = self.put_back().telling(Some(self.note(Severity::Normal, "NativeRollout", text)));
        self.idle(Stage::SteppingAside(because), Some(write))
    }

    fn put_back(&self) -> Write {
        put_back(self.object, self.strategy, self.template)
    }

    /// Puts the template back that the newest of the pods have which have another one, else that of the last revision before.
    ///
    /// Never while the native controller would roll it: that is for its owner to do.
    pub(super) fn halt(&self, why: BadVersion<'_>) -> Option<Write> {
        if !is_on_delete(self.strategy) {
            return None;
        }
        let other = |shape: &&'a Shape| shape.revision != self.template.revision();
        let of_pods = self.pods.iter().filter_map(|pod| self.shape(pod)).find(other);
        let before = || self.revisions.values().filter(|(_, shape)| other(shape)).max_by_key(|(number, _)| *number);
        let good = of_pods.or_else(|| before().map(|(_, shape)| *shape))?;
        self.restore(&Halted::new(self.template, &good.revision, why))
    }

    /// The shape of a revision that pods can be brought to in place from the present one.
    fn good(&self, revision: &str) -> Option<&'a Shape> {
        let in_place = self.in_place();
        let target = self.template.shape();
        let possible =
            |shape: &Shape| shape.revision != target.revision && shape.revision == revision && in_place.allows(shape);
        self.revisions.values().map(|(_, shape)| *shape).find(|shape| possible(shape))
    }

    /// Puts the template back that the mark names, with the mark that the present one is not to be tried again.
    fn restore(&self, halted: &Halted) -> Option<Write> {
        let good = self.good(&halted.back_to)?;
        let because = halted.because(self.template, Some(good));
        let text = halted::put_back(self.object, &because, &good.revision);
        let template = self.template.reshaped(good);
        let write = Write::patch("restore-template", self.object, |patch| {
            patch
                .replace(&["spec", "template"], template)
                .add(&["metadata", "annotations", annotations::HALTED], halted.text())
        });
        Some(write.telling(Some(self.note(Severity::Warning, "RolloutHalted", text))))
    }

    fn idle(&self, stage: Stage, write: Option<Write>) -> Plan {
        Plan {
            stage,
            writes: write.into_iter().collect(),
            target: self.template.revision().to_owned(),
            target_label: self.labels.as_ref().and_then(|all| all.get(labels::CONTROLLER_REVISION_HASH)).cloned(),
            kept_back: self.kept_back.as_ref().map(|kept| kept.template.revision().to_owned()),
            ..Plan::nothing(self.object)
        }
    }

    fn note(&self, severity: Severity, reason: &'static str, text: String) -> EventNote {
        note(&self.object.id, self.resource.version, severity, reason, text)
    }

    /// The first change after its opt-in was taken away, perhaps in the very write that did.
    fn opted_out(&self, world: &World<'_>) -> Option<EventNote> {
        if self.object.deleting || self.object.held_by_guard() || is_on_delete(self.strategy) || self.labels.is_none() {
            return None;
        }
        let behind = self.in_order.iter().find(|pod| !self.is_at_target(pod))?;
        let label = behind.labels.get(labels::CONTROLLER_REVISION_HASH)?;
        let is_its_own = |revision: &&&Object| {
            revision.id.name == *label || revision.labels.get(labels::CONTROLLER_REVISION_HASH) == Some(label)
        };
        let before = world.children(&self.object.id.uid).iter().find(is_its_own)?.opt_in();
        let (severity, text) = before.removed("its native controller")?;
        Some(self.note(severity, "OptInRemoved", text))
    }

    /// What this rollout leaves as it was, if it is a restart: the revision before tells.
    fn left_by_restart(&self) -> String {
        let others = self.revisions.values().filter(|(_, shape)| shape.revision != self.template.revision());
        let before = others.max_by_key(|(number, _)| *number).map(|(_, shape)| &shape.annotations);
        once_per_pod::left_by_restart(self.object, before, self.template, &self.in_order)
    }

    /// What people should know, for as long as it holds.
    fn notes(&self, plan: &Plan, world: &World<'_>) -> Vec<EventNote> {
        let on = self.object.id.arguments();
        let note = match &plan.stage {
            Stage::Rolling if !plan.permanent => {
                let text = format!(
                    "its update strategy is OnDelete while its pods are brought to {} in place; kubectl rollout status \
                     refuses meanwhile, use: kubectl hitless wait {on}{}",
                    self.template.label(),
                    self.left_by_restart()
                );
                self.note(Severity::Normal, "RolloutHeld", text)
            }
            Stage::Refused(because) => {
                let whose =
                    if plan.permanent { "its own update strategy is OnDelete" } else { "nothing else is allowed" };
                let text = format!("{}, and {whose}; change the template", because.text);
                self.note(Severity::Warning, "RolloutRefused", text)
            }
            Stage::Finishing => {
                let mut pods = self.pods.iter().filter(|pod| !world.operating.contains(&pod.id.uid));
                let Some(pod) = pods.find(|pod| !serves(pod)) else { return Vec::new() };
                let state = if pod.ready() { "out of service" } else { "not ready" };
                let text = format!(
                    "all pods are at revision {}, but pod {} is {state}; the update strategy stays OnDelete until it is back. \
                     See: kubectl describe pod -n {} {}",
                    plan.target, pod.id.name, pod.id.namespace, pod.id.name
                );
                self.note(Severity::Warning, "RolloutUnfinished", text)
            }
            Stage::NotOurs => return self.opted_out(world).into_iter().collect(),
            // Its own write tells.
            Stage::Halted(_) | Stage::Idle | Stage::Native | Stage::SteppingAside(_) | Stage::Rolling => {
                return Vec::new();
            }
        };
        vec![note]
    }
}

/// Ready, and not out of service.
fn serves(pod: &PodView) -> bool {
    pod.ready() && pod.in_service().is_none_or(|condition| condition.is_true)
}

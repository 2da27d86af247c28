//! The next step of a Deployment.

mod brought;
mod let_go;
mod notes;

use std::cmp::Reverse;

use hitless_api::event::{EventNote, Severity};
use hitless_api::names::{annotations, labels};
use hitless_api::pod::PodView;
use serde_json::Value;

use super::{DEPLOYMENT, halt_report, history, live, writes};
use super::{Deployment, ReplicaSet};
use crate::because::{Because, Cause};
use crate::diff::{self, first_native_change};
use crate::halted::{self, BadVersion, Halted};
use crate::intent::{DesiredOperation, share};
use crate::kinds::way;
use crate::need::{Need, agentless, new_pods_only, unaccepted};
use crate::object::Object;
use crate::once_per_pod;
use crate::opt_in::OptIn;
use crate::pause::Pause;
use crate::plan::{Plan, Stage, note};
use crate::restart_annotations::{self, RestartAnnotations};
use crate::world::World;
use crate::write::Write;

/// Derives the next step.
pub(super) fn plan(root: &Object, world: &World<'_>) -> Plan {
    let Some(deployment) = root.deployment() else { return Plan::nothing(root) };
    let children = world.children(&root.id.uid).iter().filter(|set| !set.deleting);
    let owned: Vec<ReplicaSet<'_>> = children.filter_map(|set| set.replica_set()).collect();
    let planner = Planner { deployment, owned: &owned, world, permanent: !deployment.held_by_guard() };
    let mut plan = planner.plan();
    plan.writes.extend(planner.halt_report(&plan));
    plan.notes = planner.notes(&plan);
    plan.notes.extend(restart_annotations::notes(root, &DEPLOYMENT).filter(|_| plan.stage != Stage::NotOurs));
    plan
}

/// Marks the Deployment: nothing is made of its template's version any more.
pub(super) fn halt(root: &Object, world: &World<'_>, why: BadVersion<'_>) -> Option<Write> {
    let deployment = root.deployment().filter(|deployment| deployment.body.paused)?;
    let children = world.children(&root.id.uid).iter().filter(|set| !set.deleting);
    let owned: Vec<ReplicaSet<'_>> = children.filter_map(|set| set.replica_set()).collect();
    let planner = Planner { deployment, owned: &owned, world, permanent: !deployment.held_by_guard() };
    planner.halt(live::live(&owned, &deployment.body.template)?, why)
}

struct Planner<'a> {
    deployment: Deployment<'a>,
    owned: &'a [ReplicaSet<'a>],
    world: &'a World<'a>,
    permanent: bool,
}

impl<'a> Planner<'a> {
    fn plan(&self) -> Plan {
        let deployment = self.deployment;
        if deployment.deleting {
            return self.idle(Stage::NotOurs, None);
        }
        if deployment.opt_in() == OptIn::No {
            let settled = || self.strip(&[labels::SETTLED]);
            let text = format!("{}; the Deployment controller rolls pods that are not at its template", OptIn::GONE);
            let tells = self.note(Severity::Normal, "OptInRemoved", text);
            return self.idle(Stage::NotOurs, self.let_go(Some(tells)).or_else(settled).or_else(|| self.unmark()));
        }
        let Some(live) = live::live(self.owned, &deployment.body.template) else {
            if !deployment.body.paused {
                return self.idle(Stage::Native, self.let_go(None));
            }
            // Made while it is paused: the Deployment controller makes its first ReplicaSet when it is resumed.
            if self.permanent && deployment.object.pause().is_some() {
                return self.idle(Stage::Idle, None);
            }
            let text = "no ReplicaSet is there that could be updated in place".to_owned();
            let because = Because::of(Cause::NoReplicaSet, text);
            return self.idle(Stage::SteppingAside(because.clone()), self.let_go(Some(self.rolls(&because))));
        };
        if live.settled_at(deployment).is_some_and(|settled| settled > deployment.generation) {
            // An old view of the Deployment: what was to be done at this generation has been done, or is wanted no more.
            return self.idle(Stage::Finishing, None);
        }
        if !deployment.body.paused {
            return self.unpaused(live);
        }
        let pause = deployment.object.pause();
        if matches!(pause, Some(Pause::Owner | Pause::Reloader)) {
            return self.collecting(live);
        }
        if let Some(because) = self.native_change(live) {
            // Letting it go would let the Deployment controller roll it.
            return if pause.is_some() { self.collecting(live) } else { self.step_aside(because) };
        }
        match Halted::of_template(deployment.object, &deployment.body.template) {
            Some(halted) => self.halted(live, &halted),
            None => self.drive(live),
        }
    }

    /// Why it can't be brought to its template in place, if it can't.
    fn native_change(&self, live: ReplicaSet<'_>) -> Option<Because> {
        if live::is_split(live, self.owned) {
            return Some(self.unfinished());
        }
        let (from, to) = (&live.body.template, &self.deployment.body.template);
        let never = || diff::never(self.deployment.object, to);
        let because = first_native_change(self.deployment.object, from, to, &self.selections());
        let because = because.or_else(|| self.forgets_labels(from));
        let because = because.or_else(|| way::of_template(self.deployment.object, to).filter(|_| !self.permanent));
        let because = because.or_else(|| {
            let from = &from.shape().annotations;
            RestartAnnotations::of(self.deployment.object, to).asks_admission(from, to, &self.pods(live))
        });
        because.or_else(|| (from.is_mixed() || from.revision() != to.revision()).then(never).flatten())
    }

    /// A native rollout was under way: which ReplicaSets have pods, and how those go that are in the way. The others have more Ready pods.
    fn unfinished(&self) -> Because {
        let ready = |set: &ReplicaSet<'_>| self.pods(*set).iter().filter(|pod| pod.ready()).count();
        let mut sets: Vec<ReplicaSet<'_>> =
            self.owned.iter().copied().filter(|set| !set.is_history() && set.body.replicas > 0).collect();
        sets.sort_by_key(|set| (Reverse(ready(set)), set.object.created));
        let said = sets.iter().map(|set| {
            format!("ReplicaSet {} has {} ({} Ready)", set.id.name, pods_in_words(set.body.replicas), ready(set))
        });
        let text = format!("a native rollout has not ended: {}", said.collect::<Vec<_>>().join(", "));
        Because::of(Cause::NativeRollout, text)
    }

    fn idle(&self, stage: Stage, write: Option<Write>) -> Plan {
        Plan {
            opt_in: self.deployment.opt_in(),
            stage,
            permanent: self.deployment.body.paused && self.permanent,
            writes: write.into_iter().collect(),
            target: self.deployment.body.template.revision().to_owned(),
            progress_deadline_seconds: Some(self.deployment.body.progress_deadline_seconds),
            ..Plan::nothing(self.deployment.object)
        }
    }

    /// Templates that were complete and differ from the target only in what can be changed in a running pod.
    fn complete(&self) -> impl Iterator<Item = ReplicaSet<'a>> {
        let (target, selections) = (&self.deployment.body.template, self.selections());
        self.owned.iter().copied().filter(move |set| {
            let template = &set.body.template;
            !template.is_mixed()
                && template.revision() != target.revision()
                && first_native_change(self.deployment.object, template, target, &selections).is_none()
        })
    }

    /// The version goes back to the newest one that some of the pods were brought to, else to the newest before.
    fn halt(&self, live: ReplicaSet<'_>, why: BadVersion<'_>) -> Option<Write> {
        let pods = self.pods(live);
        let is_recorded = |set: &ReplicaSet<'_>| {
            let recorded = pods.iter().filter_map(|pod| pod.annotations.get(annotations::REVISION));
            recorded.into_iter().any(|revision| revision == set.body.template.revision())
        };
        let good = self.complete().max_by_key(|set| (is_recorded(set), set.number()))?.body.template.shape();
        let bad = &self.deployment.body.template;
        let halted = Halted::new(bad, &good.revision, why);
        let text = halted::advice(self.deployment.object, &halted.because(bad, Some(good)), &good.revision);
        let write = Write::annotate("halt", self.deployment.object, annotations::HALTED, &halted.text());
        Some(write.telling(Some(self.note(Severity::Warning, "RolloutHalted", text))))
    }

    /// Pods stay as they are, and new ones are made from the last good template.
    fn halted(&self, live: ReplicaSet<'a>, halted: &Halted) -> Plan {
        let good = self.complete().find(|set| set.body.template.revision() == halted.back_to);
        let because = halted.because(&self.deployment.body.template, good.map(|set| set.body.template.shape()));
        let is_there = |set: &ReplicaSet<'_>| {
            set.body.template.revision() == live.body.template.revision() && !live.body.template.is_mixed()
        };
        let write = good.filter(|set| !is_there(set)).map(|set| {
            writes::set_exact(live, set.body.template.for_replica_set(live.body.template.hash(), false), None)
        });
        let plan = self.idle(Stage::Halted(because), write);
        Plan { permanent: self.permanent, ..self.counted(live, plan) }
    }

    /// What `kubectl rollout status` is told, where no other write to the Deployment is due.
    fn halt_report(&self, plan: &Plan) -> Option<Write> {
        if plan.writes.iter().any(|write| write.on == self.deployment.id) {
            return None;
        }
        match &plan.stage {
            Stage::Halted(because) => halt_report::say(self.deployment, &self.halt_advice(because), self.world.now),
            Stage::NotOurs
            | Stage::Idle
            | Stage::Native
            | Stage::SteppingAside(_)
            | Stage::Refused(_)
            | Stage::Rolling
            | Stage::Finishing => halt_report::take_back(self.deployment, self.world.now),
        }
    }

    fn halt_advice(&self, because: &Because) -> String {
        let halted = Halted::of(self.deployment.object).map(|halted| halted.back_to).unwrap_or_default();
        halted::advice(self.deployment.object, because, &halted)
    }

    /// With the pods that are there, and those of them that are not as the template says.
    fn counted(&self, live: ReplicaSet<'a>, plan: Plan) -> Plan {
        let pods = self.pods(live);
        let behind = pods.iter().filter(|pod| !matches!(self.need(live, pod), Need::Nothing));
        Plan { total: pods.len(), behind: behind.map(|pod| pod.id.uid.clone()).collect(), ..plan }
    }

    /// Somebody collects changes under a pause. When the Deployment is resumed, the guard holds it, and all of them are one rollout.
    fn collecting(&self, live: ReplicaSet<'a>) -> Plan {
        let plan = self.counted(live, self.idle(Stage::Idle, None));
        let stage = if plan.behind.is_empty() { Stage::Idle } else { Stage::Rolling };
        Plan { stage, desired: self.desired(live, &self.pods(live)), ..plan }
    }

    fn desired(&self, live: ReplicaSet<'a>, pods: &[&PodView]) -> Vec<DesiredOperation> {
        let wanted = |pod: &&PodView| match self.need(live, pod) {
            Need::Nothing => None,
            Need::Operation(intent) => Some(DesiredOperation::new(pod, intent)),
        };
        let mut desired: Vec<DesiredOperation> = pods.iter().filter_map(wanted).collect();
        share(&mut desired);
        desired
    }

    fn drive(&self, live: ReplicaSet<'a>) -> Plan {
        let spec = self.deployment.body;
        let pods = self.pods(live);
        let desired = self.desired(live, &pods);
        // With a surge no pod goes before the new one is accepted.
        // Under a pause of the owner's own nobody makes new pods; the others go on.
        let agentless = || agentless(&desired, &pods, self.world).filter(|_| !self.permanent);
        let because = new_pods_only(&desired, &pods, self.world).or_else(agentless);
        let because = because.or_else(|| unaccepted(&desired, self.world));
        if let Some(because) = because.filter(|_| spec.replicas > 0) {
            return if self.deployment.object.pause().is_some() {
                self.collecting(live)
            } else {
                self.step_aside(because)
            };
        }
        let total = pods.len();
        let behind = desired.iter().map(|wanted| wanted.pod.uid.clone()).collect();
        let at_target = live.body.template.revision() == spec.template.revision();
        let exact = at_target && !live.body.template.is_mixed();
        // At replicas 0 the Deployment controller would raise the newest ReplicaSet, which is history: end at once.
        let rolling = !desired.is_empty() && spec.replicas > 0;
        // Old pods that are about to go may be saved by a scale-up in the last moment.
        let settled = desired.is_empty() && self.settled(live, &pods);
        // A pause of the owner's own, and nothing changed under it (docs/contract.md#whose-hold).
        if self.permanent && exact {
            let forget = Halted::is_over(self.deployment.object, &spec.template);
            let write = forget.then(|| halted::forget(self.deployment.object));
            return Plan { behind, total, ..self.idle(Stage::Idle, write) };
        }

        let mixed_missing = !(at_target && live.body.template.is_mixed());
        let finished = || {
            let left = self.left_by_restart(&pods);
            let text = format!("all {total} pods have {}, in place{left}", spec.template.label());
            self.note(Severity::Normal, "RolloutFinished", text)
        };
        // A change that was made under a pause has not begun: pods that are made anew get the version before. Not at replicas 0, where
        // the hold ends (above).
        let is_begun = self.deployment.object.pause().is_none() || live.body.template.is_mixed();
        // Pods that are there still may be saved by a scale-up, and nothing would tell them from new ones.
        let is_empty = spec.replicas == 0 && pods.is_empty() && !self.permanent;
        let write = if !exact && ((settled && is_begun) || is_empty) {
            Some(self.first_history(live, || self.set_exact(live).telling(self.permanent.then(finished))))
        } else if rolling || !exact {
            (mixed_missing && is_begun).then(|| self.first_history(live, || self.set_mixed(live)))
        } else if let Some(duplicate) = self.duplicate(live) {
            let empty = duplicate.body.replicas == 0 && duplicate.body.status_replicas == 0;
            empty.then(|| writes::remove_duplicate(duplicate))
        } else {
            self.end(live, finished).filter(|_| settled)
        };
        let stage = if rolling { Stage::Rolling } else { Stage::Finishing };
        let desired = if rolling && write.is_none() { desired } else { Vec::new() };
        Plan { permanent: self.permanent, desired, behind, total, ..self.idle(stage, write) }
    }

    fn pods(&self, live: ReplicaSet<'_>) -> Vec<&'a PodView> {
        let pods = self.world.pods(&live.id.uid).iter().copied();
        pods.filter(|pod| !pod.terminating && !pod.finished).collect()
    }

    /// Whether the pods that are listed are all there are and will be: the ReplicaSet controller has seen the template that
    /// the live ReplicaSet has now, and counts as many pods as are listed and wanted. A pod that it made from an older
    /// template a moment ago would be missed otherwise.
    fn settled(&self, live: ReplicaSet<'_>, pods: &[&PodView]) -> bool {
        let set = live.body;
        set.observed_generation >= live.generation
            && usize::try_from(set.status_replicas).is_ok_and(|count| count == pods.len())
            && (set.status_replicas == set.replicas || set.failing)
            && !pods.iter().any(|pod| self.world.operating.contains(&pod.id.uid))
    }

    /// `write`, but before it the entry that keeps the live template, if there is to be one. A mixed template was never
    /// complete and is not kept; with a limit below 2 the Deployment controller would delete the entry at once.
    fn first_history(&self, live: ReplicaSet<'_>, write: impl Fn() -> Write) -> Write {
        let leaving = live.body.template.revision();
        let keeps = |set: &ReplicaSet<'_>| {
            set.id.uid != live.id.uid && set.body.template.revision() == leaving && !set.body.template.is_mixed()
        };
        let keep = self.deployment.body.revision_history_limit >= 2
            && !live.body.template.is_mixed()
            && leaving != self.deployment.body.template.revision()
            && !self.owned.iter().any(keeps);
        if keep { writes::create_history(history::entry(self.deployment, live, self.owned)) } else { write() }
    }

    fn set_mixed(&self, live: ReplicaSet<'_>) -> Write {
        writes::set_mixed(live, self.deployment.body.template.for_replica_set(live.body.template.hash(), true))
    }

    fn set_exact(&self, live: ReplicaSet<'_>) -> Write {
        let template: Value = self.deployment.body.template.for_replica_set(live.body.template.hash(), false);
        writes::set_exact(live, template, Some(self.deployment.settled_mark()))
    }

    /// Lifts the pause, but only over a live ReplicaSet that says so: a leader that has not seen the latest change of the
    /// Deployment might otherwise give it a mixed template after that, and the Deployment controller would roll natively.
    fn end(&self, live: ReplicaSet<'_>, finished: impl Fn() -> EventNote) -> Option<Write> {
        let unpause = self.unpause()?;
        if live.settled_at(self.deployment) == Some(self.deployment.generation) {
            return Some(unpause.telling(Some(finished())));
        }
        Some(writes::settle(live, &self.deployment.settled_mark()))
    }

    /// Another ReplicaSet with the same template as the live one; the Deployment controller takes the oldest of equals.
    fn duplicate(&self, live: ReplicaSet<'_>) -> Option<ReplicaSet<'a>> {
        let same = |set: &&ReplicaSet<'_>| {
            let template = &set.body.template;
            set.id.uid != live.id.uid && template.revision() == live.body.template.revision() && !template.is_mixed()
        };
        self.owned.iter().find(same).copied()
    }

    /// What this rollout leaves as it was, if it is a restart: the newest template before tells, where that is kept.
    fn left_by_restart(&self, pods: &[&PodView]) -> String {
        let before = self.complete().max_by_key(ReplicaSet::number).map(|set| &set.body.template.shape().annotations);
        once_per_pod::left_by_restart(self.deployment.object, before, &self.deployment.body.template, pods)
    }

    fn note(&self, severity: Severity, reason: &'static str, text: String) -> EventNote {
        note(&self.deployment.id, DEPLOYMENT.version, severity, reason, text)
    }
}

fn pods_in_words(count: i32) -> String {
    if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") }
}

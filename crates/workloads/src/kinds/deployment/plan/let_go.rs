//! What is done where the Deployment controller rolls: everything of ours is taken off, and nothing of ours is left in what it keeps.

use std::collections::BTreeSet;

use hitless_api::event::{EventNote, Severity};
use hitless_api::names::labels;

use super::Planner;
use crate::because::{Because, Cause};
use crate::kinds::deployment::{ReplicaSet, live, writes};
use crate::kinds::way;
use crate::opt_in::OptIn;
use crate::plan::{Plan, Stage};
use crate::template::Template;
use crate::write::Write;

impl<'a> Planner<'a> {
    /// That the Deployment controller rolls it, because.
    pub(super) fn rolls(&self, because: &Because) -> EventNote {
        let text = format!("{}; the Deployment controller rolls it", because.text);
        self.note(Severity::Normal, "NativeRollout", text)
    }

    /// Takes everything of ours off, then lifts the guard's pause. A pause without the mark is somebody else's. `tells`: what lifting it
    /// means. What tells of which annotations pods are goes after that: its owner may want another version before.
    pub(super) fn let_go(&self, tells: Option<EventNote>) -> Option<Write> {
        let kept = || self.strip(&[labels::HISTORY]);
        let unpause = || Some(self.unpause()?.telling(tells));
        self.restore_template().or_else(kept).or_else(unpause).or_else(|| self.strip(&[labels::LIVE]))
    }

    /// Gives a ReplicaSet that was left in mid-rollout the last template that was complete. An `undo` to it would carry the
    /// mark into the Deployment's template otherwise. Not if that is the Deployment's template: the Deployment controller
    /// would believe that all pods have it.
    fn restore_template(&self) -> Option<Write> {
        if self.deployment.is_system() {
            return None;
        }
        let mixed = self.owned.iter().find(|set| set.body.template.is_mixed())?;
        let is_complete = |template: &Template| !template.is_mixed() && template.too_large().is_none();
        let complete = self.owned.iter().filter(|set| set.is_history() && is_complete(&set.body.template));
        let last = complete.max_by_key(|set| set.number())?;
        let template = last.body.template.for_replica_set(mixed.body.template.hash(), false);
        let is_other = last.body.template.revision() != self.deployment.body.template.revision();
        is_other.then(|| writes::set_exact(*mixed, template, None))
    }

    /// Takes the mark off a template that never reached all pods, once the Deployment controller has rolled its ReplicaSet over. What it
    /// keeps for `kubectl rollout undo` is as it would be had the rollout been native all along: with the version that its owner wanted.
    /// Not while the Deployment has that version: the Deployment controller would believe that its pods have it.
    pub(super) fn unmark(&self) -> Option<Write> {
        let target = self.deployment.body.template.revision();
        let over = self.rolled_over().find(|set| set.body.template.revision() != target)?;
        let template = &over.body.template;
        let exact = || writes::set_exact(over, template.for_replica_set(template.hash(), false), None);
        template.too_large().is_none().then(exact)
    }

    /// Removes one that has the version of the live one: an undo to it would bring nothing but the mark.
    fn remove_surplus(&self) -> Option<Write> {
        let target = self.deployment.body.template.revision();
        self.rolled_over().find(|set| set.body.template.revision() == target).map(writes::remove_duplicate)
    }

    /// Empty ones that were left in mid-rollout; none of the cluster's own.
    fn rolled_over(&self) -> impl Iterator<Item = ReplicaSet<'a>> {
        let is_empty = |set: &ReplicaSet<'_>| set.body.replicas == 0 && set.body.status_replicas == 0;
        let is_system = self.deployment.is_system();
        self.owned.iter().copied().filter(move |set| !is_system && set.body.template.is_mixed() && is_empty(set))
    }

    pub(super) fn strip(&self, names: &[&str]) -> Option<Write> {
        self.owned.iter().find_map(|set| {
            let mut present = set.own_labels();
            present.retain(|name| names.contains(name));
            (!present.is_empty()).then(|| writes::strip_labels(*set, &present))
        })
    }

    pub(super) fn unpause(&self) -> Option<Write> {
        self.deployment.held_by_guard().then(|| writes::unpause(self.deployment))
    }

    pub(super) fn step_aside(&self, because: Because) -> Plan {
        let only = self.deployment.opt_in() == OptIn::InPlaceOnly && is_refused(because.cause);
        if self.permanent || only {
            let plan = self.idle(Stage::Refused(because), None);
            let live = live::live(self.owned, &self.deployment.body.template);
            return match live.filter(|live| !live::is_split(*live, self.owned)) {
                Some(live) => self.counted(live, plan),
                None => self.counted_in_all(plan),
            };
        }
        // What a ReplicaSet has in mid-rollout may be all that shows why, and it gets its last complete template before the pause is lifted.
        let (object, target) = (self.deployment.object, &self.deployment.body.template);
        let is_kept = way::of_template(object, target).is_some() || self.restore_template().is_none();
        let write =
            if is_kept { self.let_go(Some(self.rolls(&because))) } else { Some(way::keep(object, target, &because)) };
        self.idle(Stage::SteppingAside(because), write)
    }

    pub(super) fn unpaused(&self, live: ReplicaSet<'a>) -> Plan {
        // A mark without a pause guards nothing.
        if let Some(write) = self.unpause() {
            return self.idle(Stage::Idle, Some(write));
        }
        let template = &live.body.template;
        if template.revision() == self.deployment.body.template.revision() && !template.is_mixed() {
            let left = || self.unmark().or_else(|| self.remove_surplus());
            let plan = self.counted(live, self.idle(Stage::Idle, self.strip(&[labels::LIVE]).or_else(left)));
            let native = |plan| Plan { stage: Stage::Native, ..self.counted_in_all(plan) };
            return if live::is_split(live, self.owned) { native(plan) } else { plan };
        }
        // The Deployment controller may need any of them now.
        let write = self.strip(&[labels::HISTORY, labels::LIVE]).or_else(|| self.unmark());
        self.counted_in_all(self.idle(Stage::Native, write))
    }

    /// With the pods of all ReplicaSets: those of the template's own are up to date.
    fn counted_in_all(&self, plan: Plan) -> Plan {
        let target = self.deployment.body.template.revision();
        let (mut behind, mut total) = (BTreeSet::new(), 0);
        for set in self.owned {
            let pods = self.pods(*set);
            total += pods.len();
            if set.body.template.revision() != target || set.body.template.is_mixed() {
                behind.extend(pods.iter().map(|pod| pod.id.uid.clone()));
            }
        }
        Plan { behind, total, ..plan }
    }
}

/// Whether pods are made anew for it only where its owner lets them be.
const fn is_refused(cause: Cause) -> bool {
    match cause {
        Cause::Field
        | Cause::TooLarge
        | Cause::InitContainer
        | Cause::VolumeMountedOnce
        | Cause::InjectionChanged
        | Cause::NewPodsWished
        | Cause::NativeRollout
        | Cause::DigestUnknown
        | Cause::PrefetchRefused
        | Cause::NoAgentPossible
        | Cause::HostNetwork => true,
        // Nothing is there that could be made anew; and what belongs to the cluster is let go.
        Cause::NoReplicaSet
        | Cause::SystemNamespace
        // No reasons of a Deployment to step aside.
        | Cause::Halted
        | Cause::InvalidSpec
        | Cause::InvalidDecoration
        | Cause::LossExpected
        | Cause::PodNotAccepted => false,
    }
}

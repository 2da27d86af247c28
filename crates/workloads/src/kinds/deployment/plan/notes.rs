//! What people are told of a Deployment.

use hitless_api::event::{EventNote, Severity};
use hitless_api::names::annotations;

use super::{Planner, live};
use crate::because::Cause;
use crate::kinds::deployment::ReplicaSet;
use crate::opt_in::OptIn;
use crate::plan::{Plan, Stage};

impl Planner<'_> {
    /// What people should know, for as long as it holds.
    pub(super) fn notes(&self, plan: &Plan) -> Vec<EventNote> {
        let note = match &plan.stage {
            Stage::Rolling if self.deployment.is_paused_by_reloader() => {
                let text = format!(
                    "Reloader has paused it to collect changes ({}); its pods are brought to revision {} when Reloader \
                     resumes it. If that never happens: kubectl rollout resume {}",
                    annotations::RELOADER_PAUSED_AT,
                    plan.target,
                    self.deployment.id.arguments()
                );
                self.note(Severity::Normal, "PausedByReloader", text)
            }
            Stage::Rolling if !plan.permanent => {
                let live = live::live(self.owned, &self.deployment.body.template);
                let pods = live.map(|live| self.pods(live)).unwrap_or_default();
                let text = format!(
                    "its pods are brought to {} in place. The Deployment is paused meanwhile: scaling works, kubectl refuses its own undo \
                     and restart; go back with: kubectl hitless undo {on}; stop it with: kubectl hitless pause {on}{}",
                    self.deployment.body.template.label(),
                    self.left_by_restart(&pods),
                    on = self.deployment.id.arguments()
                );
                self.note(Severity::Normal, "RolloutHeld", text)
            }
            Stage::Refused(because) => {
                let text = format!(
                    "{}, and {}; {}, or allow a native rollout with {}=in-place and no pause of your own",
                    because.text,
                    if plan.permanent { "the Deployment is paused by its owner" } else { "it is in-place-only" },
                    self.way_out(because.cause),
                    annotations::UPDATE,
                );
                self.note(Severity::Warning, "RolloutRefused", text)
            }
            Stage::Halted(because) => self.note(Severity::Warning, "RolloutHalted", self.halt_advice(because)),
            Stage::NotOurs => return self.opted_out().into_iter().collect(),
            Stage::Idle | Stage::Native | Stage::SteppingAside(_) | Stage::Rolling | Stage::Finishing => {
                return Vec::new();
            }
        };
        vec![note]
    }

    /// What its owner can do about a change that is refused, and still have none of the pods made anew that he means to keep.
    fn way_out(&self, cause: Cause) -> String {
        if cause != Cause::NativeRollout {
            return "change it back".to_owned();
        }
        format!(
            "nothing changes until only one ReplicaSet has pods: scale the other one to 0, with kubectl scale -n {} replicaset/NAME \
             --replicas=0",
            self.deployment.id.namespace
        )
    }

    /// Its first change after its opt-in was taken away, perhaps in the very write that did: a ReplicaSet keeps the annotations that its
    /// Deployment had. Its owner may have meant the opt-in to stay, such as by applying a manifest without it.
    fn opted_out(&self) -> Option<EventNote> {
        let is_left = |set: &&ReplicaSet<'_>| {
            set.body.replicas > 0
                && set.object.opt_in() != OptIn::No
                && set.body.template.revision() != self.deployment.body.template.revision()
        };
        let is_ours = self.deployment.deleting || self.deployment.object.held_by_guard() || self.deployment.body.paused;
        let before = self.owned.iter().filter(|_| !is_ours).find(is_left)?.object.opt_in();
        let (severity, text) = before.removed("the Deployment controller")?;
        Some(self.note(severity, "OptInRemoved", text))
    }
}

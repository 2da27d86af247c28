//! What people are told of a Deployment.

use hitless_api::event::{EventNote, Severity};
use hitless_api::names::annotations;

use super::Planner;
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
                let text = format!(
                    "its pods are brought to {} in place. The Deployment is paused meanwhile: scaling works, kubectl refuses its own undo \
                     and restart; go back with: kubectl hitless undo {on}; stop it with: kubectl hitless pause {on}",
                    self.deployment.body.template.label(),
                    on = self.deployment.id.arguments()
                );
                self.note(Severity::Normal, "RolloutHeld", text)
            }
            Stage::Refused(because) => {
                let text = format!(
                    "{}, and {}; change it back, or allow a native rollout with {}=in-place and no pause of your own",
                    because.text,
                    if plan.permanent { "the Deployment is paused by its owner" } else { "it is in-place-only" },
                    annotations::UPDATE,
                );
                self.note(Severity::Warning, "RolloutRefused", text)
            }
            Stage::Halted(because) => self.note(Severity::Warning, "RolloutHalted", self.halt_advice(because)),
            Stage::NotOurs
            | Stage::Idle
            | Stage::Native
            | Stage::SteppingAside(_)
            | Stage::Rolling
            | Stage::Finishing => {
                return Vec::new();
            }
        };
        vec![note]
    }
}

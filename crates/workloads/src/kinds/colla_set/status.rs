//! What a CollaSet reports.

use hitless_api::colla_set::CollaSetStatus;
use hitless_api::pod::PodView;
use serde_json::json;

use super::view::{Refusal, View};
use crate::pod_set::pods::stays;
use crate::write::Write;

impl View<'_, '_, '_> {
    /// The write that makes the status true, if it is not. `refusals`: what the API server says no to.
    pub(super) fn report(&self, refusals: &[Refusal]) -> Option<Write> {
        let known = &self.set.body.status;
        let wanted = self.status(known, refusals);
        (*known != wanted).then(|| Write::status("report-status", self.set.object, json!(wanted)))
    }

    fn status(&self, known: &CollaSetStatus, refusals: &[Refusal]) -> CollaSetStatus {
        let count = |is_meant: &dyn Fn(&PodView) -> bool| {
            let count = self.facts.pods.iter().filter(|pod| stays(pod) && is_meant(pod)).count();
            i32::try_from(count).unwrap_or(i32::MAX)
        };
        let is_busy = |pod: &PodView| self.facts.is_busy(pod);
        let serves = |pod: &PodView| pod.available() && !self.facts.has_left(pod);
        // In a Hold a pod is Ready while its containers are replaced.
        let is_updated = |pod: &PodView| self.facts.is_at_target(pod) && !is_busy(pod);
        let updated_ready = count(&|pod| is_updated(pod) && pod.ready());
        let terminating = self.facts.pods.iter().filter(|pod| pod.terminating).count();
        // Upstream's rule.
        let is_through = usize::try_from(updated_ready).unwrap_or_default() >= self.set.body.replicas;
        let is_first = known.current_revision.is_empty();
        CollaSetStatus {
            observed_generation: self.set.object.generation,
            current_revision: if (is_through || is_first) && !self.facts.target.is_empty() {
                self.facts.target.to_owned()
            } else {
                known.current_revision.clone()
            },
            updated_revision: if self.facts.target.is_empty() {
                known.updated_revision.clone()
            } else {
                self.facts.target.to_owned()
            },
            collision_count: known.collision_count,
            replicas: count(&|_| true),
            scheduled_replicas: count(&|pod| pod.node.is_some()),
            ready_replicas: count(&PodView::ready),
            available_replicas: count(&serves),
            updated_replicas: count(&|pod| self.facts.is_at_target(pod)),
            updated_ready_replicas: updated_ready,
            updated_available_replicas: count(&|pod| is_updated(pod) && serves(pod)),
            operating_replicas: count(&is_busy),
            terminating_replicas: i32::try_from(terminating).unwrap_or(i32::MAX),
            label_selector: self.set.body.selector.clone(),
            conditions: self.conditions(&known.conditions, refusals),
        }
    }
}

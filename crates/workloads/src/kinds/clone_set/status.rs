//! What a CloneSet reports.

use hitless_api::clone_set::CloneSetStatus;
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

    fn status(&self, known: &CloneSetStatus, refusals: &[Refusal]) -> CloneSetStatus {
        let body = self.set.body;
        let count = |is_meant: &dyn Fn(&PodView) -> bool| {
            number(self.facts.pods.iter().filter(|pod| stays(pod) && is_meant(pod)).count())
        };
        // In a Hold a pod is Ready while its containers are replaced.
        let is_updated = |pod: &PodView| self.facts.is_at_target(pod) && !self.facts.is_busy(pod);
        let is_available = |pod: &PodView| self.facts.rules.is_available(pod);
        let replicas = count(&|_| true);
        let updated = count(&|pod| self.facts.is_at_target(pod));
        // Upstream's rule: whether they are Ready does not matter.
        let is_through = updated == replicas && replicas == number(body.replicas);
        let target = if self.facts.target.is_empty() { &known.update_revision } else { self.facts.target };
        let is_first = known.current_revision.is_empty();
        let mut status = CloneSetStatus {
            observed_generation: self.set.object.generation,
            replicas,
            ready_replicas: count(&PodView::ready),
            available_replicas: count(&is_available),
            updated_replicas: updated,
            updated_ready_replicas: count(&|pod| is_updated(pod) && pod.ready()),
            updated_available_replicas: count(&|pod| is_updated(pod) && is_available(pod)),
            expected_updated_replicas: number(body.replicas.saturating_sub(body.partition)),
            update_revision: target.to_owned(),
            current_revision: if is_through || is_first { target } else { &known.current_revision }.to_owned(),
            collision_count: known.collision_count,
            conditions: Vec::new(),
            label_selector: body.selector.clone(),
        };
        status.conditions = self.conditions(&status, refusals);
        status
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

//! **Operators of others.** Nobody is allowed to operate a pod that has not left service for that, or whose clients are not gone, and no pod
//! is put back while somebody who was allowed works on it.

use hitless_api::lifecycle::{self, Step};
use hitless_api::names::DRAINED;
use hitless_api::pod::PodView;

use super::Checks;
use crate::server::Server;

fn allowed(pod: &PodView) -> impl Iterator<Item = &str> {
    let has = |step: Step, id: &str| pod.labels.contains_key(&step.key(id));
    // Who has taken it back does not work on it any more.
    let works = move |id: &&str| has(Step::Operating, id) && !has(Step::UndoOperationType, id);
    lifecycle::at(&pod.labels, Step::Operate).filter(works)
}

impl Checks {
    /// A controller writes labels of a pod.
    pub(crate) fn labelled(&mut self, server: &Server, before: &PodView, after: &PodView) {
        let Some(id) = allowed(after).find(|id| !before.labels.contains_key(&Step::Operate.key(id))) else { return };
        let place = server.ledgers.get(before.id.namespace.as_str());
        let place = place.and_then(|ledger| ledger.spec.reservations.get(&before.id.uid));
        let is_out = before.in_service().is_some_and(|condition| {
            let is_of_place = place.is_some_and(|place| place.id == condition.message);
            !condition.is_true && condition.reason == DRAINED && is_of_place
        });
        if !is_out {
            let what =
                format!("operator {id} is allowed to operate pod {}, which has not left service", before.id.name);
            self.fail(server.now, what);
        }
    }

    /// A pod is put back.
    pub(super) fn put_back(&mut self, server: &Server, before: &PodView) {
        if let Some(id) = allowed(before).next() {
            let what = format!("pod {} was put back while operator {id} works on it", before.id.name);
            self.fail(server.now, what);
        }
    }

    /// A pod is deleted because of its label.
    pub(crate) fn deleted_by_label(&mut self, server: &Server, pod: &PodView) {
        if pod.in_service().is_none_or(|condition| condition.is_true || condition.reason != DRAINED) {
            self.fail(server.now, format!("pod {} was deleted before it had left service", pod.id.name));
        }
    }
}

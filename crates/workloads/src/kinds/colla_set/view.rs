//! One look at a CollaSet, with what is to become of its pods: what its own writes and its status are made from.

use hitless_api::event::EventNote;

use super::CollaSet;
use crate::plan::{Plan, Stage};
use crate::pod_set::{self, Facts, Own, warning};

/// What the API server says no to: the verb of the write, and its words.
pub(super) type Refusal = (&'static str, String);

/// One look at a CollaSet.
#[derive(Clone, Copy)]
pub(super) struct View<'r, 'w, 'a> {
    pub(super) set: CollaSet<'a>,
    pub(super) facts: &'r Facts<'w, 'a>,
    pub(super) plan: &'r pod_set::Plan<'w, 'a>,
}

impl View<'_, '_, '_> {
    /// Labels that speak of ids, and pods that it lets go or takes on.
    pub(super) fn own(&self) -> Own {
        Own { resting: self.relabels(), beside: self.membership_writes() }
    }

    /// Whether its ResourceContext has room for no more ids, and more are wanted.
    pub(super) fn lacks_room(&self) -> bool {
        self.plan.instances.is_full() && self.plan.instances.count() < self.set.body.replicas
    }

    pub(super) fn fullness(&self) -> String {
        let (wanted, room) = (self.set.body.replicas, self.plan.instances.room());
        format!("{wanted} replicas are wanted, and a ResourceContext has room for {room}; use several CollaSets")
    }

    /// What people should know.
    pub(super) fn notes(&self) -> Vec<EventNote> {
        let spec = &self.facts.spec;
        let mut notes = self.membership_notes();
        if self.lacks_room() {
            notes.push(warning(spec, "TooManyReplicas", self.fullness()));
        }
        notes.extend(self.unscheduled().map(|text| warning(spec, "TargetPending", text)));
        notes
    }
}

/// A plan that does nothing.
pub(super) fn idle(set: CollaSet<'_>, stage: Stage) -> Plan {
    let target = set.body.template.revision().to_owned();
    Plan { stage, target, permanent: true, ..Plan::nothing(set.object) }
}

//! One look at a CloneSet, with what is to become of its pods: what its status and its Events are made from.

use hitless_api::event::EventNote;
use hitless_api::pod::PodView;

use super::CloneSet;
use super::difference::Difference;
use crate::pod_set::pods::stays;
use crate::pod_set::{self, Facts, warning};

/// What the API server says no to: the verb of the write, and its words.
pub(super) type Refusal = (&'static str, String);

/// One look at a CloneSet.
#[derive(Clone, Copy)]
pub(super) struct View<'r, 'w, 'a> {
    pub(super) set: CloneSet<'a>,
    pub(super) facts: &'r Facts<'w, 'a>,
    pub(super) plan: &'r pod_set::Plan<'w, 'a>,
    pub(super) found: Difference,
}

impl View<'_, '_, '_> {
    /// Whether its journal has room for no more ids, and more are wanted.
    pub(super) fn lacks_room(&self) -> bool {
        self.plan.instances.is_full() && self.plan.instances.count() < self.set.body.replicas
    }

    pub(super) fn fullness(&self) -> String {
        let (wanted, room) = (self.set.body.replicas, self.plan.instances.room());
        format!("{wanted} replicas are wanted, and a CloneSet has room for {room}; use several CloneSets")
    }

    /// What people should know.
    pub(super) fn notes(&self) -> Vec<EventNote> {
        let spec = &self.facts.spec;
        let mut notes = Vec::new();
        if self.lacks_room() {
            notes.push(warning(spec, "TooManyReplicas", self.fullness()));
        }
        let Difference { to_make, to_make_now, .. } = self.found;
        if let Some(most) = self.set.body.scale_max_unavailable.filter(|_| to_make_now < to_make) {
            let text = format!(
                "{to_make} pods are to be made, and {to_make_now} of them now: scaleStrategy.maxUnavailable is {most}, and pods are unavailable"
            );
            notes.push(warning(spec, "ScaleUpLimited", text));
        }
        notes.extend(self.unscheduled().map(|text| warning(spec, "FailedScheduling", text)));
        notes.extend(self.waits_for_name().map(|text| warning(spec, "PodNameTaken", text)));
        notes
    }

    /// What the scheduler says of a pod that has no node.
    pub(super) fn unscheduled(&self) -> Option<String> {
        let pod = self.facts.pods.iter().find(|pod| stays(pod) && pod.node.is_none())?;
        let said = pod.conditions.get("PodScheduled").filter(|said| !said.is_true && !said.message.is_empty())?;
        Some(format!("pod {} has no node: {}", pod.id.name, said.message))
    }

    /// A pod that is to be made anew with its claims has the name of the one that still terminates.
    fn waits_for_name(&self) -> Option<String> {
        let is_waiting = |pod: &&&PodView| {
            let is_own = |each: &pod_set::Instance<'_>| {
                each.pod.is_none() && !each.is_given_up() && each.pod_name() == pod.id.name
            };
            pod.terminating && self.plan.instances.by_id.values().any(is_own)
        };
        let pod = self.facts.pods.iter().find(is_waiting)?;
        Some(format!(
            "pod {} is still being deleted; the one that takes over its claims has the same name and is made once it is gone",
            pod.id.name
        ))
    }
}

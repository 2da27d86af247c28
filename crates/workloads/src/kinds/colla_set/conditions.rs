//! What became of scaling, updates and the deletion, as conditions with upstream's reasons. One is written when it differs, and says
//! nothing new while something is under way.

use hitless_api::colla_set::CollaSetCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::view::{Refusal, View};
use crate::pod_set::Instance;
use crate::pod_set::pods::stays;

const SCALE: &str = "Scale";
const UPDATE: &str = "Update";

/// A condition without its time.
struct Now {
    type_: &'static str,
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl View<'_, '_, '_> {
    /// The conditions that there are to be.
    pub(super) fn conditions(&self, known: &[CollaSetCondition], refusals: &[Refusal]) -> Vec<CollaSetCondition> {
        let mut all = known.to_vec();
        for now in self.now(refusals) {
            let before = all.iter().position(|condition| condition.type_ == now.type_);
            let status = if now.is_true { "True" } else { "False" };
            let since = before.map(|index| &all[index]).filter(|before| before.status == status);
            let condition = CollaSetCondition {
                type_: now.type_.to_owned(),
                status: status.to_owned(),
                last_transition_time: since.map_or_else(
                    || self.facts.world.now.map(seconds).map(Time),
                    |before| before.last_transition_time.clone(),
                ),
                reason: now.reason.to_owned(),
                message: now.message,
            };
            match before {
                Some(index) => all[index] = condition,
                None => all.push(condition),
            }
        }
        all
    }

    fn now(&self, refusals: &[Refusal]) -> Vec<Now> {
        if self.set.deleting {
            return vec![terminating(refusals)];
        }
        match &self.set.body.fault {
            Some(fault) => vec![
                Now { type_: SCALE, is_true: false, reason: "ScaleOutFailed", message: fault.clone() },
                Now { type_: UPDATE, is_true: false, reason: "UpdateFailed", message: fault.clone() },
            ],
            None => self.scaled(refusals).into_iter().chain(self.updated()).collect(),
        }
    }

    fn scaled(&self, refusals: &[Refusal]) -> Option<Now> {
        let condition = |is_true, reason, message| Some(Now { type_: SCALE, is_true, reason, message });
        if let Some(words) = refusal(refusals, &["create-pod", "create-claim", "take-claim-on", "create-context"]) {
            return condition(false, "ScaleOutFailed", words);
        }
        if let Some(words) = refusal(refusals, &["delete-pod", "delete-claim"]) {
            return condition(false, "ScaleInFailed", words);
        }
        if self.lacks_room() {
            return condition(false, "ScaleOutFailed", self.fullness());
        }
        if let Some(words) = self.unscheduled() {
            return condition(false, "ScaleOutFailed", words);
        }
        let there = self.facts.pods.iter().filter(|pod| stays(pod)).count();
        let is_through = there == self.set.body.replicas
            && self.plan.instances.by_id.len() == there
            && !self.plan.instances.by_id.values().any(Instance::is_given_up);
        if is_through { condition(true, "Scaled", String::new()) } else { None }
    }

    fn updated(&self) -> Option<Now> {
        let condition = |is_true, reason, message| Some(Now { type_: UPDATE, is_true, reason, message });
        if let Some(because) = &self.plan.progress.refused {
            return condition(false, "UpdateFailed", because.text.clone());
        }
        if self.plan.progress.behind.is_empty() { condition(true, "Updated", String::new()) } else { None }
    }

    /// What the scheduler says of a pod that has no node.
    pub(super) fn unscheduled(&self) -> Option<String> {
        let pod = self.facts.pods.iter().find(|pod| stays(pod) && pod.node.is_none())?;
        let said = pod.conditions.get("PodScheduled").filter(|said| !said.is_true && !said.message.is_empty())?;
        Some(format!("pod {} has no node: {}", pod.id.name, said.message))
    }
}

fn terminating(refusals: &[Refusal]) -> Now {
    let (reason, message) = match refusal(refusals, &["delete-pod"]) {
        Some(words) => ("ReclaimTargetsDeletionFailed", words),
        None => ("ReclaimingTargetsDeletion", String::new()),
    };
    Now { type_: "Terminating", is_true: true, reason, message }
}

/// What the API server has said to one of our writes of these sorts.
fn refusal(refusals: &[Refusal], verbs: &[&str]) -> Option<String> {
    refusals.iter().find(|(verb, _)| verbs.contains(verb)).map(|(_, words)| words.clone())
}

/// As the API server stores it.
fn seconds(now: jiff::Timestamp) -> jiff::Timestamp {
    now.round(jiff::Unit::Second).unwrap_or(now)
}

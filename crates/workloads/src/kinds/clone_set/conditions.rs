//! Conditions of a CloneSet, with upstream's names. Other than upstream's they have a reason, go back to False, and the deadline runs from
//! the last progress.

use hitless_api::clone_set::{CloneSetCondition, CloneSetStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::view::{Refusal, View};

const FAILED_SCALE: &str = "FailedScale";
const FAILED_UPDATE: &str = "FailedUpdate";
const PROGRESSING: &str = "Progressing";
/// Reasons of the last one.
const UPDATED: &str = "CloneSetUpdated";
const EXCEEDED: &str = "ProgressDeadlineExceeded";

/// A condition without its times.
struct Now {
    type_: &'static str,
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl View<'_, '_, '_> {
    /// The conditions that go with this status.
    pub(super) fn conditions(&self, status: &CloneSetStatus, refusals: &[Refusal]) -> Vec<CloneSetCondition> {
        let known = &self.set.body.status.conditions;
        let has = |type_: &str| known.iter().any(|condition| condition.type_ == type_);
        let scale = self.failed_scale(refusals);
        let update = self.failed_update();
        let failed = [(FAILED_SCALE, scale, "Scaled"), (FAILED_UPDATE, update, "Updated")];
        let failed = failed.into_iter().filter_map(|(type_, fault, otherwise)| match fault {
            Some((reason, message)) => Some(Now { type_, is_true: true, reason, message }),
            None => has(type_).then(|| Now { type_, is_true: false, reason: otherwise, message: String::new() }),
        });
        let mut all = known.clone();
        all.retain(|condition| condition.type_ != PROGRESSING || self.set.body.progress_deadline_seconds.is_some());
        let got_on = self.got_on(status);
        for now in failed.chain(self.progressing(status, got_on)) {
            let is_progress = now.type_ == PROGRESSING && got_on;
            self.put(&mut all, now, is_progress);
        }
        all
    }

    fn put(&self, all: &mut Vec<CloneSetCondition>, now: Now, is_progress: bool) {
        let place = all.iter().position(|condition| condition.type_ == now.type_);
        let before = place.map(|place| &all[place]);
        let status = if now.is_true { "True" } else { "False" };
        let time = || self.facts.world.now.map(seconds).map(Time);
        let is_same = before.is_some_and(|before| before.status == status);
        let is_new = !is_same || is_progress || before.is_some_and(|before| before.reason != now.reason);
        let last_transition_time =
            if is_same { before.and_then(|before| before.last_transition_time.clone()) } else { time() };
        let last_update_time = if is_new { time() } else { before.and_then(|before| before.last_update_time.clone()) };
        let condition = CloneSetCondition {
            type_: now.type_.to_owned(),
            status: status.to_owned(),
            last_update_time,
            last_transition_time,
            reason: now.reason.to_owned(),
            message: now.message,
        };
        match place {
            Some(place) => all[place] = condition,
            None => all.push(condition),
        }
    }

    fn failed_scale(&self, refusals: &[Refusal]) -> Option<(&'static str, String)> {
        if let Some(fault) = &self.set.body.fault {
            return Some(("InvalidSpec", fault.clone()));
        }
        let refused =
            |verbs: &[&str]| refusals.iter().find(|(verb, _)| verbs.contains(verb)).map(|(_, words)| words.clone());
        let made = refused(&["create-pod", "create-claim", "take-claim-on", "update-instances"]);
        let removed = refused(&["delete-pod", "delete-claim"]);
        made.map(|words| ("FailedCreate", words))
            .or_else(|| removed.map(|words| ("FailedDelete", words)))
            .or_else(|| self.lacks_room().then(|| ("TooManyReplicas", self.fullness())))
            .or_else(|| self.unscheduled().map(|words| ("FailedScheduling", words)))
    }

    fn failed_update(&self) -> Option<(&'static str, String)> {
        if let Some(fault) = &self.set.body.fault {
            return Some(("InvalidSpec", fault.clone()));
        }
        self.plan.progress.refused.as_ref().map(|because| ("UpdateRefused", because.text.clone()))
    }

    /// Whether the rollout has got on since the last report, or a new one has begun.
    fn got_on(&self, status: &CloneSetStatus) -> bool {
        let known = &self.set.body.status;
        let counts = |status: &CloneSetStatus| {
            [status.replicas, status.updated_replicas, status.updated_ready_replicas, status.updated_available_replicas]
        };
        status.update_revision != known.update_revision || counts(status) != counts(known)
    }

    /// Upstream's reasons: the first one that holds.
    fn progressing(&self, status: &CloneSetStatus, got_on: bool) -> Option<Now> {
        self.set.body.progress_deadline_seconds?;
        let body = self.set.body;
        let now = |is_true, reason, message: &str| {
            Some(Now { type_: PROGRESSING, is_true, reason, message: message.to_owned() })
        };
        let wanted = i32::try_from(body.replicas).unwrap_or(i32::MAX);
        let is_through = status.updated_available_replicas >= wanted && status.replicas == wanted;
        if is_through {
            return now(true, "CloneSetAvailable", "all pods are of the update revision and available");
        }
        if body.paused {
            return now(true, "CloneSetPaused", "the update is paused");
        }
        if body.has_partition && status.expected_updated_replicas <= status.updated_available_replicas {
            return now(
                true,
                "ProgressPartitionAvailable",
                "as many pods as the partition asks for are updated and available",
            );
        }
        // Once it is over, only progress changes that.
        let was_over =
            body.status.conditions.iter().any(|known| known.type_ == PROGRESSING && known.reason == EXCEEDED);
        let is_late = || self.deadline().zip(self.facts.world.now).is_some_and(|(deadline, now)| now >= deadline);
        let is_over = !got_on && (was_over || is_late());
        if is_over {
            return now(false, EXCEEDED, "the update has not got on within progressDeadlineSeconds");
        }
        now(true, UPDATED, "pods are being updated")
    }

    /// When an update that does not get on is reported as failed.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.set.body.progress_deadline_seconds?;
        let known = self.set.body.status.conditions.iter().find(|condition| condition.type_ == PROGRESSING)?;
        let since = known.last_update_time.as_ref().filter(|_| known.reason == UPDATED)?.0;
        since.checked_add(SignedDuration::from_secs(seconds.into())).ok()
    }
}

/// As the API server stores it.
fn seconds(now: Timestamp) -> Timestamp {
    now.round(jiff::Unit::Second).unwrap_or(now)
}

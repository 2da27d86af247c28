//! Is the pod drained, or what is there to wait for? Pure.

use hitless_api::pod::PodView;
use hitless_api::{Outcome, Phase};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::instant::after_seconds;
use crate::published::Step;
use crate::view::Observation;
use crate::waiters::is_leaving;

/// Why a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Because {
    /// Nobody is connected any more and nobody comes; or the operation has gone on to its containers for another reason.
    Drained,
    /// The operation has ended.
    Ended,
    /// The pod is gone.
    Gone,
    /// The wait's time is over.
    TimedOut,
    /// The kubelet runs a preStop hook of a pod that is neither deleted nor operated: its container is restarted in its place.
    NotLeaving,
}

/// Where a pod stands between in service and drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is nothing to wait for.
    Over { is_drained: bool, because: Because },
    /// It is on its way out.
    Draining {
        /// Then it may be drained though nothing happens.
        look_at: Option<Timestamp>,
    },
    /// It is neither operated nor deleted.
    Staying,
}

/// What progress is told from.
pub(super) struct Facts<'a> {
    /// The pod; absent when it is gone.
    pub pod: Option<&'a PodView>,
    /// Its operation.
    pub step: Option<&'a Step>,
    /// What the kernel shows of it.
    pub observation: &'a Observation,
    /// Since when it has been looked at for somebody who waits for its deletion.
    pub leaving: Option<Timestamp>,
    /// `minSeconds` of its drain.
    pub min_seconds: u32,
}

impl Progress {
    /// Whether nobody is left.
    pub(super) const fn is_drained(self) -> bool {
        matches!(self, Self::Over { is_drained: true, .. })
    }

    pub(super) fn of(facts: &Facts<'_>, now: Timestamp) -> Self {
        let Some(pod) = facts.pod else { return Self::Over { is_drained: true, because: Because::Gone } };
        match facts.step {
            Some(step) if step.is_live() => of_operation(step),
            _ if pod.finished => Self::Over { is_drained: true, because: Because::Drained },
            _ if is_leaving(pod) => of_deletion(facts, now),
            Some(step) => Self::Over { is_drained: was_replaced(step), because: Because::Ended },
            None => Self::Staying,
        }
    }
}

/// The agent has decided on all evidence when it operates, so its phase is the answer. A preStop hook that is run by the
/// operation itself must not wait for it.
fn of_operation(step: &Step) -> Progress {
    let is_past = match step.transition.phase {
        Phase::Granted | Phase::Leaving | Phase::Draining | Phase::Holding | Phase::Settling => false,
        Phase::Operating | Phase::Verifying | Phase::Checking => true,
        // On the way back the containers are operated once more; else it is only in its last moments.
        Phase::Returning => step.transition.rollback.is_some(),
    };
    if is_past {
        Progress::Over { is_drained: true, because: Because::Drained }
    } else {
        Progress::Draining { look_at: None }
    }
}

/// Whether an operation that has ended had got past the drain.
fn was_replaced(step: &Step) -> bool {
    step.transition.result.as_ref().is_some_and(|result| match result.outcome {
        Outcome::Done | Outcome::RolledBack => true,
        Outcome::Cancelled | Outcome::Refused | Outcome::Failed => false,
    })
}

/// A deleted pod has no straggler policy: who waits says for how long.
fn of_deletion(facts: &Facts<'_>, now: Timestamp) -> Progress {
    let Some(leaving) = facts.leaving else { return Progress::Draining { look_at: None } };
    match facts.observation {
        Observation::Counted(count) if count.drained() => {
            let minimum = after_seconds(leaving, facts.min_seconds);
            if now < minimum {
                Progress::Draining { look_at: Some(minimum) }
            } else {
                Progress::Over { is_drained: true, because: Because::Drained }
            }
        }
        Observation::Counted(_) | Observation::None | Observation::Failed(_) | Observation::Held(_) => {
            Progress::Draining { look_at: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Count;
    use hitless_api::{MicroTime, Transition, TransitionResult};
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    const OVER: Progress = Progress::Over { is_drained: true, because: Because::Drained };
    const DRAINING: Progress = Progress::Draining { look_at: None };

    fn pod(is_deleted: bool) -> PodView {
        let metadata = if is_deleted { json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}) } else { json!({}) };
        PodView::from(&serde_json::from_value::<Pod>(json!({"metadata": metadata})).unwrap())
    }

    fn step(phase: Phase, outcome: Option<Outcome>, rollback: Option<&str>) -> Step {
        let time = MicroTime(Timestamp::UNIX_EPOCH);
        let result = outcome.map(|outcome| TransitionResult { outcome, reason: String::new(), report: [].into() });
        let transition = Transition {
            id: "a.b".to_owned(),
            granted: time.clone(),
            phase,
            since: time,
            deadline: None,
            connections: None,
            gap_milliseconds: None,
            ready_milliseconds: None,
            hooks_done: Vec::new(),
            hooks: Vec::new(),
            rollback: rollback.map(str::to_owned),
            message: String::new(),
            result,
        };
        Step { pod_uid: "a".to_owned(), transition, waiting_for: Vec::new(), leaves_service: false }
    }

    fn progress(pod: Option<&PodView>, step: Option<&Step>, observation: &Observation, second: i64) -> Progress {
        let leaving = Some(Timestamp::UNIX_EPOCH);
        let facts = Facts { pod, step, observation, leaving, min_seconds: 3 };
        Progress::of(&facts, Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn an_operation_is_past_its_drain_from_operating_on() {
        let pod = pod(false);
        for (phase, expected) in [
            (Phase::Granted, DRAINING),
            (Phase::Leaving, DRAINING),
            (Phase::Draining, DRAINING),
            (Phase::Holding, DRAINING),
            (Phase::Settling, DRAINING),
            (Phase::Operating, OVER),
            (Phase::Verifying, OVER),
            (Phase::Checking, OVER),
            (Phase::Returning, DRAINING),
        ] {
            let step = step(phase, None, None);
            assert_eq!(progress(Some(&pod), Some(&step), &Observation::None, 0), expected, "{phase:?}");
        }
        let undone = step(Phase::Returning, None, Some("NotReady"));
        assert_eq!(
            progress(Some(&pod), Some(&undone), &Observation::None, 0),
            OVER,
            "its own preStop hook must not wait"
        );
    }

    #[test]
    fn an_operation_that_has_ended_is_over_and_says_honestly_whether_the_pod_was_drained() {
        let pod = pod(false);
        for (outcome, is_drained) in [
            (Outcome::Done, true),
            (Outcome::RolledBack, true),
            (Outcome::Cancelled, false),
            (Outcome::Refused, false),
            (Outcome::Failed, false),
        ] {
            let step = step(Phase::Returning, Some(outcome), None);
            let expected = Progress::Over { is_drained, because: Because::Ended };
            assert_eq!(progress(Some(&pod), Some(&step), &Observation::None, 0), expected, "{outcome:?}");
        }
    }

    #[test]
    fn a_deleted_pod_is_drained_when_nobody_is_left_and_nobody_comes_and_not_before_the_minimum() {
        let pod = pod(true);
        let quiet = Count { quiet: true, ..Count::default() };
        let ended = step(Phase::Granted, Some(Outcome::Cancelled), None);
        let minimum = Progress::Draining { look_at: Some(Timestamp::from_second(3).unwrap()) };
        for (observation, second, expected) in [
            (Observation::None, 9, DRAINING),
            (Observation::Failed("no".to_owned()), 9, DRAINING),
            (Observation::Counted(Count::default()), 9, DRAINING),
            (Observation::Counted(Count { inbound: 1, ..quiet }), 9, DRAINING),
            (Observation::Counted(Count { unlisted: true, ..quiet }), 9, DRAINING),
            (Observation::Counted(quiet), 2, minimum),
            (Observation::Counted(quiet), 3, OVER),
        ] {
            let seen = progress(Some(&pod), Some(&ended), &observation, second);
            assert_eq!(seen, expected, "{observation:?} after {second} s");
        }
    }

    #[test]
    fn a_pod_that_is_gone_has_nobody_left_and_one_that_stays_is_not_drained() {
        let gone = Progress::Over { is_drained: true, because: Because::Gone };
        assert_eq!(progress(None, None, &Observation::None, 0), gone);
        let quiet = Observation::Counted(Count { quiet: true, ..Count::default() });
        assert_eq!(progress(Some(&pod(false)), None, &quiet, 9), Progress::Staying);
        assert!(!Progress::Staying.is_drained());
    }
}

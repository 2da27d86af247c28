//! InService was raised on behalf of the grant: how it ended stands in the condition, the pod and the report.

use hitless_api::pod::ConditionView;
use hitless_api::{Outcome, Phase};
use jiff::Timestamp;

use super::case::{Case, Images};
use super::{Decision, WaitingFor};
use crate::instant::after_seconds;

/// Reason of an InService condition that is True as it should be.
pub(super) const IN_SERVICE: &str = "InService";
/// Reason of an InService condition that is True because the operation was cancelled.
pub(super) const CANCELLED: &str = "Cancelled";

/// InService is True with this grant's mark.
pub(super) fn decide(case: &Case<'_>, condition: &ConditionView) -> Decision {
    let since = case.not_after_now(condition.since.unwrap_or(case.now));
    match (condition.reason.as_str(), case.rollback()) {
        // With the images after it, a way back was announced but not begun before the verdict turned: its report was stored
        // unnoticed.
        (IN_SERVICE, Some(_)) if case.images() != Images::To => rolled_back(case, since),
        (IN_SERVICE, _) => when_ready(case, since, Outcome::Done, "Done", "ReadyPending"),
        (CANCELLED, _) => {
            let reason = case.grant.cancel.as_ref().map_or(CANCELLED, |cancel| cancel.reason.as_str());
            when_ready(case, since, Outcome::Cancelled, reason, reason)
        }
        (reason, _) => Decision::end(Phase::Returning, Outcome::Failed, reason),
    }
}

/// The images before the operation run again.
pub(super) fn rolled_back(case: &Case<'_>, since: Timestamp) -> Decision {
    let reason = case.rollback().unwrap_or_default();
    when_ready(case, since, Outcome::RolledBack, reason, reason)
}

fn when_ready(case: &Case<'_>, since: Timestamp, outcome: Outcome, reason: &str, late: &str) -> Decision {
    let deadline = after_seconds(since, case.grant.verify.progress_seconds);
    if case.pod.ready() {
        Decision::end(Phase::Returning, outcome, reason)
    } else if case.now >= deadline {
        Decision::end(Phase::Returning, outcome, late).saying("the pod is in service again but not ready")
    } else {
        Decision::at(Phase::Returning).waiting_for(WaitingFor::Ready).until(deadline)
    }
}

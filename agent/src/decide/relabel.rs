//! Labels and annotations only: one patch of a pod that stays in service. Nobody is waited for, and nothing is undone.

use hitless_api::{Outcome, Phase};

use super::operation::Operation;
use crate::decision::{Action, Decision, Direction};
use crate::deed::Progress;

pub(super) fn decide(operation: &Operation<'_>) -> Decision {
    let patch = Action::Patch(Direction::Forward);
    match (operation.progress(), &operation.grant.cancel) {
        (Progress::Patched, _) => Decision::end(Phase::Operating, Outcome::Done, "Done"),
        // A request that is still on its way is refused by admission once the pod's place in the ledger is free; if it comes before, the
        // pod itself tells what it is at.
        (_, Some(cancel)) => Decision::end(Phase::Granted, Outcome::Cancelled, cancel.reason.as_str()),
        (Progress::Other(reason, words), None) => Decision::refused(reason, words),
        (Progress::NotPatched, None) => match operation.denied(&patch) {
            Some(denied) => Decision::refused(denied.reason, &denied.words),
            None => operation.doing(Decision::at(Phase::Operating).saying("setting labels"), patch),
        },
    }
}

//! A version that failed while what all pods need was away is tried once more by itself, and only once (docs/contract.md#bad-version): when that was
//! decided stands on the workload (annotation `hitless.dev/tried-again`) before anything is tried.

use std::collections::BTreeSet;

use hitless_api::names::annotations;
use hitless_api::{Grant, MicroTime};
use hitless_workloads::{Object, OptIn, Write};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::endings::Ended;
use super::wishes::Wishes;

/// The annotation.
#[derive(Debug, Serialize, Deserialize)]
struct TriedAgain {
    revision: String,
    at: MicroTime,
}

/// How an operation stands that has failed, if nothing of it is the version's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chance {
    /// Nothing was tried again of this version.
    Open,
    /// It began before its version got another chance, and is forgotten.
    Taken,
    /// It is of that other chance: there is no third one.
    Had,
}

impl Chance {
    /// Of an operation on the way to the target of the workload with this index.
    pub(super) fn of(workload: Option<usize>, grant: &Grant, wishes: &Wishes<'_>) -> Self {
        let Some(plan) = workload.map(|index| &wishes.plans[index]) else { return Self::Open };
        let known = wishes.world.object(&plan.workload.uid).and_then(read);
        match known.filter(|known| known.revision == plan.target) {
            None => Self::Open,
            Some(known) if grant.granted <= known.at => Self::Taken,
            Some(_) => Self::Had,
        }
    }
}

fn read(object: &Object) -> Option<TriedAgain> {
    serde_json::from_str(object.annotations.get(annotations::TRIED_AGAIN)?).ok()
}

/// Writes down that workloads get their other chance, once what was away is there again. Not beside another write to the same object: uids
/// in `taken`.
pub(super) fn changes<'a>(
    wishes: &Wishes<'a>,
    ended: &Ended<'a>,
    back: impl Fn(&Grant) -> bool,
    taken: &BTreeSet<String>,
    now: Timestamp,
) -> Vec<Change<'a>> {
    let due = ended.failures.iter().filter(|failure| failure.outside && back(failure.grant));
    let due = due.filter(|failure| Chance::of(failure.workload, failure.grant, wishes) == Chance::Open);
    let due: BTreeSet<usize> = due.filter_map(|failure| failure.workload).collect();
    let changes = due.into_iter().filter_map(|index| {
        let plan = &wishes.plans[index];
        let is_free = plan.writes.is_empty() && plan.opt_in != OptIn::No && !taken.contains(&plan.workload.uid);
        let object = wishes.world.object(&plan.workload.uid).filter(|_| is_free)?;
        let value = TriedAgain { revision: plan.target.clone(), at: MicroTime(now) };
        let text = serde_json::to_string(&value).ok()?;
        Some(Change::Workload(Write::annotate("try-again", object, annotations::TRIED_AGAIN, &text)))
    });
    changes.collect()
}

//! Writes down that a version gets its other chance.

use std::collections::BTreeSet;

use hitless_api::MicroTime;
use hitless_api::names::annotations;
use hitless_workloads::{OptIn, Write};

use crate::round::change::Change;
use crate::round::facts::Facts;
use crate::round::facts::chance::{Chance, TriedAgain};
use crate::round::features::{Effects, FeatureContext};

/// Writes down that workloads get their other chance, once what was away is there again. Not beside another write to the same object.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let Facts { desired, ended, beside, .. } = context.facts;
    let due = ended.failures.iter().filter(|failure| failure.outside && !beside.is_away(failure.grant, desired));
    let due = due.filter(|failure| Chance::of(failure.workload, failure.grant, desired) == Chance::Open);
    let due: BTreeSet<usize> = due.filter_map(|failure| failure.workload).collect();
    let changes = due.into_iter().filter_map(|index| {
        let plan = &desired.plans[index];
        let is_free =
            plan.writes.is_empty() && plan.opt_in != OptIn::No && !context.written.contains(&plan.workload.uid);
        let object = desired.world.object(&plan.workload.uid).filter(|_| is_free)?;
        let value = TriedAgain { revision: plan.target.clone(), at: MicroTime(context.now) };
        let text = serde_json::to_string(&value).ok()?;
        Some(Change::Write(Write::annotate("try-again", object, annotations::TRIED_AGAIN, &text)))
    });
    Effects::of(changes)
}

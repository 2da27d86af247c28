//! Keeps on workloads what was learned of gaps and losses (docs/contract.md#learned-gap).

use std::collections::BTreeSet;

use hitless_api::names::annotations;
use hitless_workloads::{OptIn, Write};

use crate::round::change::Change;
use crate::round::facts::Facts;
use crate::round::facts::learned::Learned;
use crate::round::features::{Effects, FeatureContext};

/// Gaps and losses together: at most one write for each workload, and only if it has no other: both would be conditional on the same version. What is
/// left out comes in a later round, because agents' reports stay until their next write.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let Facts { desired, learned, losses, reloads, .. } = context.facts;
    let news = |index: &usize| losses.get(index).filter(|known| known.is_news).map(|known| known.losses.text());
    let indexes: BTreeSet<usize> = learned.keys().chain(losses.keys()).copied().collect();
    let changes = indexes.iter().filter_map(|index| {
        let plan = &desired.plans[*index];
        let object = desired.world.object(&plan.workload.uid)?;
        let is_free = plan.writes.is_empty() && !reloads.writes(*index) && plan.opt_in != OptIn::No;
        let gaps = learned.get(index).into_iter().flat_map(Learned::annotations);
        let all = gaps.chain(news(index).map(|losses| (annotations::LOSSES, losses)));
        let all: Vec<(&str, String)> = all.filter(|_| is_free).collect();
        let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (*name, value.as_str())).collect();
        (!all.is_empty()).then(|| Change::Write(Write::annotate_all("record-gap", object, &all)))
    });
    Effects::of(changes)
}

//! Workloads of which so many operations have failed that nobody goes any more: no pod may be made from that version either.

use hitless_api::Outcome;
use hitless_workloads::{BadVersion, Stage, registry};

use crate::round::change::Change;
use crate::round::facts::Facts;
use crate::round::facts::endings::Failure;
use crate::round::facts::unfit::{self, Unfits};
use crate::round::features::{Effects, FeatureContext};

/// What the kinds write then. Not beside another write to the same workload: both would be conditional on the same version.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let Facts { desired, ended, gate, .. } = context.facts;
    let unfits = Unfits::of(context.facts, context.now);
    let changes = desired.plans.iter().enumerate().filter_map(|(index, plan)| {
        // Only what was operated, judged and undone speaks against the version itself, and only beside pods of the version before that
        // are well.
        let is_bad = |failure: &&Failure<'_>| {
            failure.workload == Some(index) && failure.result.outcome == Outcome::RolledBack && !failure.outside
        };
        let first = ended.failures.iter().find(is_bad)?;
        let count = ended.failures.iter().filter(is_bad).count();
        // A restart may fail, too, where nothing is rolled.
        let is_rolling = matches!(plan.stage, Stage::Rolling | Stage::Finishing);
        if unfits.goes_natively(index) {
            return None;
        }
        if !is_rolling || !plan.writes.is_empty() || count < gate.tolerated_failures(&first.grant.pod.uid) as usize {
            return None;
        }
        let kind = registry::of_workload(&plan.workload.group_kind)?;
        let Failure { grant, result, message, .. } = first;
        let hint = unfit::hint(first, desired, plan).map(|hint| format!("; {hint}")).unwrap_or_default();
        let message = format!("{message}{hint}");
        let why = BadVersion { pod: &grant.pod.name, reason: &result.reason, message: &message };
        kind.halt(desired.world.object(&plan.workload.uid)?, &desired.world, why).map(Change::Write)
    });
    Effects::of(changes)
}

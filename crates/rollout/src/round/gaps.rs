//! Learns how long workloads' containers are away when they are operated, and keeps it on the workload (docs/contract.md 6).

use std::collections::BTreeMap;

use crate::mode::Gaps;
use hitless_api::names::annotations;
use hitless_api::{Grant, Outcome};
use hitless_workloads::{OptIn, Write};

use super::change::Change;
use super::reload::Reloads;
use super::wishes::Wishes;
use crate::snapshot::Snapshot;

/// What reports tell that workloads do not know yet, by index of the plan: gaps with what is new.
pub(super) fn learned(wishes: &Wishes<'_>, snapshot: &Snapshot) -> BTreeMap<usize, Gaps> {
    let mut longest: BTreeMap<(usize, &str), u32> = BTreeMap::new();
    for transition in snapshot.node_transitions.values().flat_map(|node| &node.transitions) {
        let is_done = transition.result.as_ref().is_some_and(|result| result.outcome == Outcome::Done);
        let Some(gap) = transition.gap_milliseconds.filter(|_| is_done) else { continue };
        let Some(uid) = Grant::pod_uid_of(&transition.id) else { continue };
        let Some(pod) = wishes.pods.get(uid) else { continue };
        let Some(revision) = pod.annotations.get(annotations::REVISION) else { continue };
        let Some(workload) = wishes.workload_of(pod) else { continue };
        let known = longest.entry((workload, revision)).or_default();
        *known = gap.max(*known);
    }
    let mut next: BTreeMap<usize, Gaps> = BTreeMap::new();
    for ((workload, revision), gap) in longest {
        let known = || Gaps::parse(wishes.plans[workload].gaps.as_deref());
        let gaps = next.get(&workload).cloned().unwrap_or_else(known);
        if let Some(gaps) = gaps.with(revision, gap) {
            next.insert(workload, gaps);
        }
    }
    next
}

/// At most one write for each workload, and only if it has no other: both would be conditional on the same version. What is
/// left out comes in a later round, because agents' reports stay until their next write.
pub(super) fn changes<'a>(wishes: &Wishes<'a>, learned: &BTreeMap<usize, Gaps>, reloads: &Reloads) -> Vec<Change<'a>> {
    let changes = learned.iter().filter_map(|(index, gaps)| {
        let plan = &wishes.plans[*index];
        let object = wishes.world.object(&plan.workload.uid)?;
        let is_free = plan.writes.is_empty() && !reloads.writes(*index) && plan.opt_in != OptIn::No;
        is_free.then(|| Change::Workload(Write::annotate("record-gap", object, annotations::GAP, &gaps.text())))
    });
    changes.collect()
}

//! What the API server would not accept of the pods that the controller makes for the new images: the plan's rounds decide as the
//! controller's do then.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use kube::Client;

use super::target::{self, Change, Way};
use crate::args::PlanArgs;
use crate::snapshot::Snapshot;
use crate::trial::{self, Answer, Tried};
use hitless_rollout::beforehand::Trial;

/// What is said now counts for as long as the plan goes.
const LASTS: SignedDuration = SignedDuration::from_hours(24 * 366);

/// Asks by dry runs, notes refusals in the snapshot, and says them.
pub(super) async fn refused(
    client: &Client,
    snapshot: &mut Snapshot,
    arguments: &PlanArgs,
    now: Timestamp,
) -> Vec<String> {
    let changed = target::change(snapshot, &arguments.target, &arguments.images, &arguments.labels);
    // What is wrong with the command line is said by the plan.
    let Ok(Change { way: Way::InPlace(prepared), images, .. }) = changed else { return Vec::new() };
    let Some(found) = prepared.find(&arguments.target) else { return Vec::new() };
    let Some(workload) = found.workload else { return Vec::new() };
    let new: BTreeSet<&str> =
        images.values().filter(|image| image.from != image.to).map(|image| image.to.as_str()).collect();
    let tried = trial::run(client, &prepared, workload, &found.pods).await;
    note(snapshot, &tried, &new, now)
}

/// Nothing is fetched for an image that stays.
pub(super) fn note(
    snapshot: &mut Snapshot,
    tried: &[(Trial, Tried)],
    new: &BTreeSet<&str>,
    now: Timestamp,
) -> Vec<String> {
    let at = now.saturating_add(LASTS).unwrap_or(now);
    let mut notes = Vec::new();
    for (trial, tried) in tried {
        let is_meant = tried.image.as_deref().is_none_or(|image| new.contains(image));
        if let (true, Answer::Refused(words)) = (is_meant, &tried.answer) {
            trial.refused(words, &mut snapshot.cluster.own_writes, at);
            notes.push(tried.text());
        }
    }
    notes
}

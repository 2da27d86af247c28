//! Data that a CollaSet deletes with its claims.

use hitless_workloads::{Object as Live, registry};

use super::finding::Finding;
use crate::files::Object;
use crate::output::names;

const POLICY: [&str; 3] = ["spec", "scaleStrategy", "persistentVolumeClaimRetentionPolicy"];
/// Most templates that are named in a sentence.
const NAMED: usize = 3;

/// A policy that nobody has written deletes data: natively it would keep it.
pub(super) fn check(object: &Object) -> Option<Finding> {
    let read = registry::read(object.value.clone())?.ok()?;
    let set = read.colla_set().filter(|set| !set.body.claims.is_empty())?;
    let policy = POLICY.iter().fold(&object.value, |value, key| &value[*key]);
    let is_open = |field: &str| policy[field].as_str().is_none_or(str::is_empty);
    let (field, when) = match (is_open("whenScaled"), is_open("whenDeleted")) {
        (false, false) => return None,
        (true, false) => ("whenScaled", "replicas go down"),
        (false, true) => ("whenDeleted", "it is deleted"),
        (true, true) => ("whenScaled and whenDeleted", "replicas go down, and when it is deleted"),
    };
    let text = format!(
        "claims of {} and their data are deleted when {when}: {} is absent, which means Delete; write Retain (as StatefulSets have it), or \
         Delete where that is meant",
        names(&set.body.claim_names(), NAMED),
        format_args!("scaleStrategy.persistentVolumeClaimRetentionPolicy: {field}"),
    );
    Some(Finding::warning(object, object.node.line_of(&["spec", "volumeClaimTemplates"]), text))
}

/// Claim templates that differ from those of the CollaSet that is there.
pub(super) fn changed<'k>(object: &Object, mut live: impl Iterator<Item = &'k Live>) -> Option<Finding> {
    let read = registry::read(object.value.clone())?.ok()?;
    let set = read.colla_set()?;
    let is_it = |known: &&Live| known.id.name == object.name() && known.id.namespace == object.namespace();
    let there = live.find_map(|known| known.colla_set().filter(|_| is_it(&known)))?;
    let gone = there.body.claims_not_in(set.body);
    if gone.is_empty() {
        return None;
    }
    let after = if set.body.keeps_claims.when_scaled {
        "the claims of before stay (whenScaled: Retain)"
    } else {
        "once all pods are available, the claims of before are deleted with their data; with whenScaled: Retain they stay"
    };
    let text = format!(
        "volumeClaimTemplates differ from those in the cluster ({}): every pod is made anew with an empty volume; {after}",
        names(&gone, NAMED)
    );
    Some(Finding::warning(object, object.node.line_of(&["spec", "volumeClaimTemplates"]), text))
}

//! What operations in place would not bring to this workload, and what its last rollouts would have been.

use std::collections::BTreeSet;

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_workloads::{Object, OncePerPod, RestartAnnotations, Template, World, first_native_change, labels};
use serde_json::Value;

use crate::output;
use crate::snapshot::{Snapshot, WorkloadObject};

/// So many of the last rollouts are looked at.
const LOOKED_AT: usize = 3;
/// Most reasons and fields that are named.
const NAMED: usize = 3;

/// What an operation in place leaves as it is.
pub(super) fn once_per_pod(object: &Object, pods: &[&PodView]) -> Vec<String> {
    let Some(template) = object.template().filter(|template| template.too_large().is_none()) else { return Vec::new() };
    let all = OncePerPod::all(template, pods);
    let restarts = RestartAnnotations::of(object, template);
    let mut notes: Vec<String> = all.iter().map(|each| each.beforehand(&restarts)).collect();
    if object.may_have_new_pods() && !notes.is_empty() {
        notes.push(format!("new pods in one word: kubectl hitless restart --new-pods {}", object.id.arguments()));
    }
    let fields: Vec<String> = restarts.reading_fields().map(ToOwned::to_owned).collect();
    if !fields.is_empty() {
        notes.push(format!("a change of an annotation that {} reads is not in place", output::names(&fields, NAMED)));
    }
    notes
}

/// Which of its last rollouts would not have been in place, and which labels they changed: what its owner changes each time he goes on
/// changing.
pub(super) fn last_rollouts(snapshot: &Snapshot, object: &Object) -> Vec<String> {
    let own = snapshot.objects.iter().filter(|each| each.view.is_owned_by(object));
    let mut past: Vec<(u64, Template)> = own.filter_map(|each| earlier(each)).collect();
    past.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    let pairs = past.windows(2).take(LOOKED_AT).filter_map(|pair| match pair {
        [(_, to), (_, from)] => Some((from, to)),
        _ => None,
    });
    let rollouts: Vec<(&Template, &Template)> = pairs.collect();
    let world = World::new(&[], &[], BTreeSet::new()).selected(snapshot.cluster.selections());
    let selections = world.selections(&object.id.namespace);
    let native = |(from, to): &(&Template, &Template)| first_native_change(object, from, to, &selections);
    let (others, in_place): (Vec<_>, Vec<_>) = rollouts.iter().partition(|pair| native(pair).is_some());
    let (count, of) = (others.len(), rollouts.len());
    let mut why: Vec<String> = others.into_iter().filter_map(|pair| Some(native(&pair)?.text)).collect();
    why.sort_unstable();
    why.dedup();
    why.truncate(NAMED);
    let said = (count > 0)
        .then(|| format!("{count} of its last {of} rollouts would not have been in place: {}", why.join("; ")));
    let labels: BTreeSet<String> = in_place
        .into_iter()
        .flat_map(|(from, to)| labels::differing(from.shape(), to.shape()))
        .map(ToOwned::to_owned)
        .collect();
    let labels: Vec<String> = labels.into_iter().collect();
    let in_place = (!labels.is_empty()).then(|| {
        format!("its last rollouts changed labels, too, which are changed in place: {}", output::names(&labels, NAMED))
    });
    said.into_iter().chain(in_place).collect()
}

/// A template that it has had, with the number of its revision.
fn earlier(part: &WorkloadObject) -> Option<(u64, Template)> {
    if part.view.replica_set().is_some() {
        let number = part.view.annotations.get(annotations::DEPLOYMENT_REVISION)?.parse().ok()?;
        return Some((number, Template::new(part.raw["spec"]["template"].clone())));
    }
    part.view.controller_revision()?;
    let mut template: Value = part.raw["data"]["spec"]["template"].clone();
    // The native controllers keep a patch that replaces the whole template.
    template.as_object_mut()?.remove("$patch");
    Some((part.raw["revision"].as_u64()?, Template::new(template)))
}

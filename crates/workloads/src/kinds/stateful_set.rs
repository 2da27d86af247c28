//! StatefulSets: the last ordinal first, and no more at a time than the owner's strategy says.

pub(crate) mod body;
mod strategy;

use hitless_api::GroupKind;
use hitless_api::names::labels;
use hitless_api::pod::PodView;
use serde_json::Value;

pub use crate::object::StatefulSet;
pub use body::StatefulSetBody;

use super::on_delete::{self, KeptBack, Subject, held, release};
use super::way;
use crate::diff::{self, InPlace};
use crate::halted::{BadVersion, NO_OTHER, NOT_HALTED};
use crate::kind::{Guard, Kind, Resource, Size};
use crate::manifest::{self, RolledOut};
use crate::object::{self, Body, Object, ReadError};
use crate::opt_in::OptIn;
use crate::plan::Plan;
use crate::revision::{self, CONTROLLER_REVISION};
use crate::template::Template;
use crate::version::{Undo, WayBack};
use crate::world::World;
use crate::write::Write;

pub(crate) const STATEFUL_SET: Resource = Resource {
    group_kind: GroupKind::new("apps", "StatefulSet"),
    version: "v1",
    plural: "statefulsets",
    is_namespaced: true,
    optional: false,
    verbs: &["patch"],
    why: "puts the strategy back; the last good template, if a version is bad",
    uninstall_verbs: &["patch"],
    uninstall_why: "puts the strategy back",
};

/// The kind StatefulSet.
pub struct StatefulSets;

impl Kind for StatefulSets {
    fn names(&self) -> &'static [&'static str] {
        &["statefulset", "statefulsets", "sts"]
    }

    fn resources(&self) -> &'static [Resource] {
        const { &[STATEFUL_SET, CONTROLLER_REVISION] }
    }

    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        if *of == STATEFUL_SET.group_kind {
            object::read(of, object, Body::StatefulSet)
        } else {
            object::read(of, object, Body::ControllerRevision)
        }
    }

    fn size(&self, object: &Object) -> Option<Size> {
        let set = object.stateful_set()?;
        let max_unavailable = u32::try_from(set.at_a_time()).ok();
        Some(Size {
            desired: u32::try_from(set.body.replicas).ok()?,
            surplus: 0,
            max_unavailable,
            counts_extra_pods: false,
        })
    }

    fn concerns(&self, root: &Object, world: &World<'_>) -> bool {
        root.opt_in() != OptIn::No || root.held_by_guard() || on_delete::was_opted_in(root, world)
    }

    fn plan(&self, root: &Object, world: &World<'_>) -> Plan {
        root.stateful_set().map_or_else(|| Plan::nothing(root), |set| subject(set, world).plan(world))
    }

    fn release(&self, object: &Object) -> Option<Write> {
        release(object, &object.stateful_set()?.body.strategy)
    }

    fn natively(&self, root: &Object, why: &str) -> Option<Write> {
        let set = root.stateful_set().filter(|_| root.held_by_guard())?;
        Some(way::choose(root, &set.body.template, why))
    }

    fn halt(&self, root: &Object, world: &World<'_>, why: BadVersion<'_>) -> Option<Write> {
        subject(root.stateful_set()?, world).halt(why)
    }

    fn retry(&self, root: &Object, world: &World<'_>) -> Result<Write, String> {
        root.stateful_set().map_or_else(|| Err(NOT_HALTED.to_owned()), |set| subject(set, world).retry())
    }

    fn undo(&self, root: &Object, world: &World<'_>, to_revision: Option<u64>) -> Result<Undo, String> {
        root.stateful_set().map_or_else(|| Err(NO_OTHER.to_owned()), |set| subject(set, world).undo(to_revision))
    }

    fn way_back(&self, root: &Object, world: &World<'_>) -> Option<WayBack> {
        on_delete::way_back(root, &root.stateful_set()?.body.template, world)
    }

    fn guard(&self) -> Option<Guard> {
        Some(Guard { holds: "hitless-guard-statefulsets", refuses: "hitless-refuse-statefulsets" })
    }

    fn held(&self, root: Value) -> Value {
        held(root)
    }

    fn revised(&self, mut held: Value) -> Vec<Value> {
        let revision = revision::planned(&held);
        held["status"]["observedGeneration"] = held["metadata"]["generation"].clone();
        held["status"]["updateRevision"] = revision["metadata"]["name"].clone();
        vec![held, revision]
    }

    fn rolled_out(&self, mut root: Value, parts: &[Value], _: u64) -> RolledOut {
        let part = revision::newest(&root, parts);
        let count = root["spec"]["replicas"].as_u64().unwrap_or(1);
        let generation = manifest::generation(&mut root);
        for (field, value) in [
            ("observedGeneration", generation),
            ("updatedReplicas", count.into()),
            ("updateRevision", part["metadata"]["name"].clone()),
        ] {
            manifest::status(&mut root, field, value);
        }
        RolledOut {
            count,
            first_ordinal: Some(root["spec"]["ordinals"]["start"].as_u64().unwrap_or_default()),
            owner: manifest::owner(&root),
            labels: revision::label(part["metadata"]["name"].as_str().unwrap_or_default()),
            part,
            root,
        }
    }
}

fn subject<'a>(set: StatefulSet<'a>, world: &World<'a>) -> Subject<'a> {
    let StatefulSetBody { replicas, start, ref template, ref strategy, ref status, .. } = *set.body;
    let children = world.children(&set.object.id.uid);
    let is_current = status.observed_generation >= set.generation;
    let target = status.update_revision.clone().filter(|_| is_current);
    let pods = world.pods(&set.object.id.uid).iter().copied();
    let pods: Vec<_> = pods.filter(|pod| !pod.terminating && !pod.finished).collect();
    let all = pods.iter().filter_map(|pod| Some((ordinal(&pod.id.name)?, *pod)));
    // Pods below the partition keep their version (StatefulSet's own rule).
    let (mut in_order, below): (Vec<_>, Vec<_>) =
        all.partition(|(ordinal, _)| *ordinal >= start.saturating_add(set.partition()));
    in_order.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
    Subject {
        object: set.object,
        resource: const { &STATEFUL_SET },
        template,
        selections: world.selections(&set.object.id.namespace),
        strategy,
        labels: target.map(|name| revision::label(&name)),
        kept_back: kept_back(set, children, &below, world),
        revisions: revision::by_name(children),
        desired: usize::try_from(replicas).unwrap_or_default(),
        pods,
        in_order: in_order.into_iter().map(|(_, pod)| pod).collect(),
        at_a_time: Some(set.at_a_time()),
        counts: is_current.then(|| usize::try_from(status.updated_replicas).unwrap_or_default()),
        uncounted: 0,
        impossible: diff::never(set.object, template),
    }
}

/// Pods below the partition that came up at another revision than the current one, because the StatefulSet controller knows no
/// partition while the strategy is `OnDelete`. A pod that is older than the revision it has was brought to it when the partition
/// was lower: it stays.
fn kept_back<'a>(
    set: StatefulSet<'a>,
    children: &[&'a Object],
    below: &[(i32, &'a PodView)],
    world: &World<'a>,
) -> Option<KeptBack<'a>> {
    if below.is_empty() {
        return None;
    }
    let name = set.body.status.current_revision.as_deref().filter(|_| set.object.held_by_guard())?;
    let revisions = || children.iter().filter_map(|object| object.controller_revision());
    let current = revisions().find(|each| each.object.id.name == name)?;
    let template = &set.body.template;
    let selections = world.selections(&set.object.id.namespace);
    if !InPlace::of(set.object, template, &selections).allows(&current.body.shape) {
        return None;
    }
    let template = Template::new(template.reshaped(&current.body.shape));
    let back = InPlace::of(set.object, &template, &selections);
    let is_newer = |pod: &PodView| {
        let label = pod.labels.get(labels::CONTROLLER_REVISION_HASH);
        let of_pod = revisions().find(|each| Some(&each.object.id.name) == label);
        of_pod.is_some_and(|each| {
            // A revision that the template goes back to gets the highest number, and stays as old as it is. Times are of seconds: of two
            // of the same one the current one is taken for the older, as all pods had it once.
            let is_later = each.body.number > current.body.number || each.object.created >= current.object.created;
            is_later
                && each.object.id.name != name
                && back.allows(&each.body.shape)
                && each.object.created.zip(pod.created).is_some_and(|(revision, pod)| pod >= revision)
        })
    };
    let pods = below.iter().map(|(_, pod)| *pod).filter(|pod| is_newer(pod)).collect();
    Some(KeptBack { pods, template, labels: revision::label(name) })
}

/// The number at the end of a pod's name.
fn ordinal(pod: &str) -> Option<i32> {
    pod.rsplit_once('-')?.1.parse().ok()
}

//! DaemonSets: as many nodes at a time as the owner's strategy says.

pub(crate) mod body;
pub(crate) mod placement;
mod strategy;

use std::collections::BTreeMap;

use hitless_api::GroupKind;
use hitless_api::names::{annotations, labels};
use serde_json::Value;

pub use crate::object::DaemonSet;
pub use body::DaemonSetBody;
pub use placement::Placement;

use super::on_delete::{self, Subject, held, release, wanted};
use super::way;
use crate::diff;
use crate::halted::{BadVersion, NO_OTHER, NOT_HALTED};
use crate::kind::{Guard, Kind, Resource, Size};
use crate::manifest::{self, RolledOut};
use crate::object::{self, Body, Object, ReadError};
use crate::opt_in::OptIn;
use crate::plan::Plan;
use crate::revision::{self, CONTROLLER_REVISION};
use crate::surge;
use crate::version::{Undo, WayBack};
use crate::world::World;
use crate::write::Write;

pub(crate) const DAEMON_SET: Resource = Resource {
    group_kind: GroupKind::new("apps", "DaemonSet"),
    version: "v1",
    plural: "daemonsets",
    is_namespaced: true,
    optional: false,
    verbs: &["patch"],
    why: "puts the strategy back; the last good template, if a version is bad",
    uninstall_verbs: &["patch"],
    uninstall_why: "puts the strategy back",
};

/// The kind DaemonSet.
pub struct DaemonSets;

impl Kind for DaemonSets {
    fn names(&self) -> &'static [&'static str] {
        &["daemonset", "daemonsets", "ds"]
    }

    fn resources(&self) -> &'static [Resource] {
        const { &[DAEMON_SET, CONTROLLER_REVISION] }
    }

    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        if *of == DAEMON_SET.group_kind {
            object::read(of, object, Body::DaemonSet)
        } else {
            object::read(of, object, Body::ControllerRevision)
        }
    }

    fn size(&self, object: &Object) -> Option<Size> {
        let set = object.daemon_set()?;
        Some(Size {
            desired: set.body.status.desired(),
            surplus: set.body.status.misscheduled(),
            max_unavailable: Some(set.max_unavailable()),
            counts_extra_pods: false,
        })
    }

    fn concerns(&self, root: &Object, world: &World<'_>) -> bool {
        root.opt_in() != OptIn::No || root.held_by_guard() || on_delete::was_opted_in(root, world)
    }

    fn plan(&self, root: &Object, world: &World<'_>) -> Plan {
        root.daemon_set().map_or_else(|| Plan::nothing(root), |set| subject(set, world).plan(world))
    }

    fn release(&self, object: &Object) -> Option<Write> {
        release(object, &object.daemon_set()?.body.strategy)
    }

    /// With `maxSurge` (KEP-1591); it is 0 where nobody has written it.
    fn surges_on_nodes(&self, root: &Object) -> bool {
        let surges = |strategy: Value| {
            let most = strategy["rollingUpdate"].get("maxSurge");
            strategy["type"] != "OnDelete" && most.is_some_and(|most| !surge::is_none(most))
        };
        root.daemon_set().is_some_and(|set| surges(wanted(root, &set.body.strategy)))
    }

    fn natively(&self, root: &Object, why: &str) -> Option<Write> {
        let set = root.daemon_set().filter(|_| root.held_by_guard())?;
        Some(way::choose(root, &set.body.template, why))
    }

    fn halt(&self, root: &Object, world: &World<'_>, why: BadVersion<'_>) -> Option<Write> {
        subject(root.daemon_set()?, world).halt(why)
    }

    fn retry(&self, root: &Object, world: &World<'_>) -> Result<Write, String> {
        root.daemon_set().map_or_else(|| Err(NOT_HALTED.to_owned()), |set| subject(set, world).retry())
    }

    fn undo(&self, root: &Object, world: &World<'_>, to_revision: Option<u64>) -> Result<Undo, String> {
        root.daemon_set().map_or_else(|| Err(NO_OTHER.to_owned()), |set| subject(set, world).undo(to_revision))
    }

    fn way_back(&self, root: &Object, world: &World<'_>) -> Option<WayBack> {
        on_delete::way_back(root, &root.daemon_set()?.body.template, world)
    }

    fn guard(&self) -> Option<Guard> {
        Some(Guard { holds: "hitless-guard-daemonsets", refuses: "hitless-refuse-daemonsets" })
    }

    fn held(&self, root: Value) -> Value {
        held(root)
    }

    fn revised(&self, mut held: Value) -> Vec<Value> {
        let revision = revision::planned(&held);
        held["status"]["observedGeneration"] = held["metadata"]["generation"].clone();
        vec![held, revision]
    }

    fn rolled_out(&self, mut root: Value, parts: &[Value], nodes: u64) -> RolledOut {
        let part = revision::newest(&root, parts);
        let known = root["status"]["desiredNumberScheduled"].as_u64();
        let count = known.filter(|_| nodes == 0).unwrap_or(nodes).max(1);
        let generation = manifest::generation(&mut root);
        root["status"]["desiredNumberScheduled"] = count.into();
        for (field, value) in [("observedGeneration", generation), ("updatedNumberScheduled", count.into())] {
            manifest::status(&mut root, field, value);
        }
        let hash = part["metadata"]["labels"][labels::CONTROLLER_REVISION_HASH].as_str().unwrap_or_default();
        RolledOut {
            count,
            first_ordinal: None,
            owner: manifest::owner(&root),
            labels: revision::label(hash),
            part,
            root,
        }
    }
}

fn subject<'a>(set: DaemonSet<'a>, world: &World<'a>) -> Subject<'a> {
    let DaemonSetBody { ref template, ref strategy, ref status, placement: _, selector: _ } = *set.body;
    let revisions = revision::by_hash(world.children(&set.object.id.uid));
    let is_current = status.observed_generation >= set.generation;
    // The newest of the template's revisions: its hash and the count of template changes are what pods are known by.
    let of_template = revisions.iter().filter(|(_, (_, shape))| shape.revision == template.revision());
    let hash = of_template.max_by_key(|(_, (number, _))| *number).map(|(hash, _)| (*hash).to_owned());
    let labels = hash.filter(|_| is_current).map(|hash| {
        let generation = set.object.annotations.get(annotations::TEMPLATE_GENERATION).cloned();
        let generation = generation.map(|count| (labels::POD_TEMPLATE_GENERATION.to_owned(), count));
        let hash = (labels::CONTROLLER_REVISION_HASH.to_owned(), hash);
        generation.into_iter().chain([hash]).collect::<BTreeMap<_, _>>()
    });
    let pods = world.pods(&set.object.id.uid).iter().copied();
    let pods: Vec<_> = pods.filter(|pod| !pod.terminating && !pod.finished).collect();
    Subject {
        object: set.object,
        resource: const { &DAEMON_SET },
        template,
        selections: world.selections(&set.object.id.namespace),
        strategy,
        labels,
        kept_back: None,
        revisions,
        desired: status.desired() as usize,
        uncounted: status.misscheduled() as usize,
        in_order: pods.clone(),
        pods,
        at_a_time: None,
        counts: is_current.then(|| usize::try_from(status.updated_number_scheduled).unwrap_or_default()),
        impossible: diff::never(set.object, template),
    }
}

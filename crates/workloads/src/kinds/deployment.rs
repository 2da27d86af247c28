//! Deployments, driven in place while they are paused.
//!
//! `paused` is Kubernetes' own word for "do not roll": the Deployment controller goes on scaling and reporting. Under it, in
//! this order, each step derived from what is observed and only one write at a time:
//!
//! 1. keep the template that is being left as an empty ReplicaSet (`kubectl rollout undo` needs it);
//! 2. give the live ReplicaSet the target template with a mark, so that it equals neither the old nor the new one:
//!    `kubectl rollout status` can't say "done" too early, and pods that are made meanwhile come up new;
//! 3. operate the pods;
//! 4. give the live ReplicaSet exactly the target, delete an empty duplicate of it, lift the pause. The Deployment controller
//!    finds "its" ReplicaSet up to date and has nothing to do.

pub(crate) mod body;
mod halt_report;
mod history;
mod live;
mod marks;
mod plan;
pub(crate) mod progressing;
mod writes;

use std::collections::BTreeMap;

use hitless_api::GroupKind;
use hitless_api::names::{self, annotations};
use serde_json::{Value, json};

pub use crate::object::{Deployment, ReplicaSet};
pub use body::{DeploymentBody, ReplicaSetBody};

use super::way;
use crate::halted::{self, BadVersion, Halted};
use crate::kind::{self, Guard, Kind, Resource, Size};
use crate::manifest::{self, RolledOut};
use crate::object::{self, Body, Object, ReadError};
use crate::opt_in::OptIn;
use crate::plan::Plan;
use crate::right::Right;
use crate::surge;
use crate::version::{Undo, WayBack};
use crate::world::World;
use crate::write::Write;

pub(crate) const DEPLOYMENT: Resource = Resource {
    group_kind: GroupKind::new("apps", "Deployment"),
    version: "v1",
    plural: "deployments",
    is_namespaced: true,
    optional: false,
    verbs: &["patch"],
    why: "lifts the hold",
    uninstall_verbs: &["patch"],
    uninstall_why: "lifts the hold",
};
pub(crate) const REPLICA_SET: Resource = Resource {
    group_kind: GroupKind::new("apps", "ReplicaSet"),
    version: "v1",
    plural: "replicasets",
    is_namespaced: true,
    optional: false,
    verbs: &["create", "patch", "delete"],
    why: "the history, and the template of the live one",
    uninstall_verbs: &["patch"],
    uninstall_why: "takes our labels off",
};

/// The kind Deployment.
pub struct Deployments;

impl Kind for Deployments {
    fn names(&self) -> &'static [&'static str] {
        &["deployment", "deployments", "deploy"]
    }

    fn resources(&self) -> &'static [Resource] {
        const { &[DEPLOYMENT, REPLICA_SET] }
    }

    fn rights(&self) -> Vec<Right> {
        vec![
            Right::of(
                "apps",
                "deployments/finalizers",
                &["update"],
                "history entries block their owner's deletion; some clusters ask for this right then",
            ),
            Right::of(
                "apps",
                "deployments/status",
                &["patch"],
                "ends `kubectl rollout status` while the rollout is halted",
            ),
        ]
    }

    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        if *of == DEPLOYMENT.group_kind {
            object::read(of, object, Body::Deployment)
        } else {
            object::read(of, object, Body::ReplicaSet)
        }
    }

    /// A Deployment's own `maxUnavailable` is about pods that are replaced by others, beside a surge: it says nothing here.
    fn size(&self, object: &Object) -> Option<Size> {
        let replicas = object.deployment().map(|each| each.body.replicas);
        let replicas = replicas.or_else(|| object.replica_set().map(|each| each.body.replicas))?;
        Some(Size { desired: replicas.try_into().ok()?, surplus: 0, max_unavailable: None, counts_extra_pods: false })
    }

    fn concerns(&self, root: &Object, world: &World<'_>) -> bool {
        // A ReplicaSet keeps the opt-in that its Deployment had.
        let ours = |child: &&Object| {
            child.replica_set().is_some_and(|set| {
                !set.own_labels().is_empty() || (set.body.replicas > 0 && set.object.opt_in() != OptIn::No)
            })
        };
        root.opt_in() != OptIn::No || root.held_by_guard() || world.children(&root.id.uid).iter().any(ours)
    }

    fn plan(&self, root: &Object, world: &World<'_>) -> Plan {
        plan::plan(root, world)
    }

    fn release(&self, object: &Object) -> Option<Write> {
        if let Some(deployment) = object.deployment() {
            return deployment.held_by_guard().then(|| writes::unpause(deployment));
        }
        let set = object.replica_set()?;
        let labels = set.own_labels();
        (!labels.is_empty()).then(|| writes::strip_labels(set, &labels))
    }

    fn natively(&self, root: &Object, why: &str) -> Option<Write> {
        let deployment = root.deployment().filter(|deployment| deployment.held_by_guard())?;
        Some(way::choose(root, &deployment.body.template, why))
    }

    fn halt(&self, root: &Object, world: &World<'_>, why: BadVersion<'_>) -> Option<Write> {
        plan::halt(root, world, why)
    }

    fn retry(&self, root: &Object, _: &World<'_>) -> Result<Write, String> {
        let halted = root.deployment().and_then(|each| Halted::of_template(root, &each.body.template));
        halted.map(|_| halted::forget(root)).ok_or_else(|| halted::NOT_HALTED.to_owned())
    }

    fn undo(&self, root: &Object, world: &World<'_>, to_revision: Option<u64>) -> Result<Undo, String> {
        history::undo(root, world, to_revision)
    }

    fn way_back(&self, root: &Object, world: &World<'_>) -> Option<WayBack> {
        history::way_back(root, world)
    }

    fn overdue<'r>(&self, root: &'r Object) -> Option<&'r str> {
        let deployment =
            root.deployment().filter(|deployment| deployment.body.observed_generation >= root.generation)?;
        deployment.body.progressing.exceeded.as_deref()
    }

    fn surge<'r>(&self, root: &'r Object) -> Result<&'r Value, String> {
        let Some(deployment) = root.deployment() else { return Err(kind::NO_SURGE.to_owned()) };
        if !deployment.body.surges {
            return Err(kind::NO_SURGE.to_owned());
        }
        if let Some(large) = deployment.body.template.too_large() {
            return Err(large.to_string());
        }
        let template = deployment.body.template.content();
        match surge::only_one(template) {
            Some(why) => Err(why),
            None => Ok(template),
        }
    }

    fn guard(&self) -> Option<Guard> {
        Some(Guard { holds: "hitless-guard", refuses: "hitless-refuse-deployments" })
    }

    fn held(&self, mut root: Value) -> Value {
        root["spec"]["paused"] = true.into();
        root["metadata"]["annotations"][annotations::ROLLOUT] = names::ROLLOUT_HELD.into();
        root
    }

    fn rolled_out(&self, root: Value, parts: &[Value], _: u64) -> RolledOut {
        let count = root["spec"]["replicas"].as_u64().unwrap_or(1);
        let part = parts.first().cloned().unwrap_or_else(|| first_replica_set(&root, count));
        RolledOut { count, first_ordinal: None, owner: manifest::owner(&part), labels: BTreeMap::new(), part, root }
    }
}

/// The ReplicaSet that the Deployment controller would make of a manifest.
fn first_replica_set(root: &Value, replicas: u64) -> Value {
    let meta = &root["metadata"];
    let name = format!("{}-manifest", meta["name"].as_str().unwrap_or_default());
    let uid = format!("{name} of {}", meta["uid"].as_str().unwrap_or_default());
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": meta["namespace"], "uid": uid, "generation": 1,
            "ownerReferences": [manifest::owner(root)]},
        "spec": {"replicas": replicas, "selector": root["spec"]["selector"], "template": root["spec"]["template"]},
        "status": {"replicas": replicas, "observedGeneration": 1}
    })
}

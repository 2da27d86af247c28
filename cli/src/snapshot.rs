//! What is in the cluster, as far as commands look at it.

mod controller;
mod unread;

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::GroupKind;
use hitless_api::pod::PodView;
use hitless_gate::Settings;
use hitless_rollout::foreign_manager::PresentManagers;
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::guard::Guards;
use hitless_rollout::round::{Explanation, explain};
use hitless_rollout::snapshot::{LeftOut, Snapshot as Cluster, Unread as NamespaceUnread};
use hitless_store::inputs::Part;
use hitless_workloads::requests::operation_job::OPERATION_JOB;
use hitless_workloads::retention::Retention;
use hitless_workloads::{Component, Holder, Installed, Object, Placement, Resource, large, registry};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::api::DynamicObject;
use serde_json::Value;

pub(crate) use controller::{Controller, ControllerView};
pub(crate) use unread::{AGENTS, CONTROLLER, ELSEWHERE, EVENTS, Unread, WORKLOADS};

/// One picture of the cluster, or of one namespace and what is not in any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// What the controller's decision rests on.
    pub(crate) cluster: Cluster,
    /// The same objects of workloads' kinds as the API server has them.
    pub(crate) objects: Vec<Arc<WorkloadObject>>,
    /// Resources of workloads that could not be listed.
    pub(crate) unlisted: Vec<&'static str>,
    /// The namespace that is looked at; `None`: all. Pods of others are read where a budget of the whole cluster counts them.
    pub(crate) namespace: Option<String>,
    pub(crate) events: Vec<Arc<EventView>>,
    /// Whether the controller runs.
    pub(crate) controller: Controller,
    /// Its settings.
    pub(crate) settings: Settings,
    /// What the controller is told to look after; `None`: that is not known, and everything is assumed.
    pub(crate) installed: Option<Installed>,
    /// The managers that are there and that kinds come from, if the user may see them.
    pub(crate) managers: PresentManagers,
    /// Which policies keep native controllers from rolling what has opted in, if the user may see them.
    pub(crate) guards: Option<Guards>,
    /// On which nodes agents may be, if the user may see their DaemonSet.
    pub(crate) placement: Placement,
    /// What could not be read, and why.
    pub(crate) unread: BTreeMap<Part, Unread>,
}

impl Snapshot {
    /// Whether a budget counts the pods of all namespaces.
    pub(crate) fn counts_cluster_wide(&self) -> bool {
        self.cluster.budgets.iter().any(|budget| budget.is_cluster_wide())
    }

    /// The pods that are looked at.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &PodView> {
        let is_shown = |pod: &&PodView| !pod.finished && self.shows(&pod.id.namespace);
        self.cluster.pods.iter().map(|pod| &**pod).filter(is_shown)
    }

    /// A workload's object as the API server has it.
    pub(crate) fn raw(&self, uid: &str) -> Option<&Value> {
        self.objects.iter().find(|object| object.view.id.uid == uid).map(|object| &object.raw)
    }

    /// Whether the namespace is looked at.
    pub(crate) fn shows(&self, namespace: &str) -> bool {
        self.namespace.as_ref().is_none_or(|own| own == namespace)
    }

    /// As the controller's decision takes it at that time from somebody who does not lead.
    pub(crate) fn observed(&self, now: Timestamp) -> Cluster {
        let mut cluster = self.cluster.clone();
        cluster.unknown.modes |= self.unread.keys().any(|part| part.tells_modes);
        cluster.guards.clone_from(&self.guards);
        let full = Retention::full_of(&cluster.objects).into_iter();
        cluster.left_out.extend(full.map(|name| (name, LeftOut { unread: NamespaceUnread::TooMuch, since: now })));
        cluster.as_observer(now).leaving_alone(&self.installed(), self.managers.clone())
    }

    /// What the controller looks after.
    fn installed(&self) -> Installed {
        self.installed.clone().unwrap_or_else(|| Installed::with(&Component::OPTIONAL))
    }

    /// Whether the controller acts on OperationJobs.
    pub(crate) fn serves_jobs(&self) -> bool {
        let is_on = |holder: &Holder| holder.own() == Some(&OPERATION_JOB.group_kind) && self.installed().has(*holder);
        self.managers.of_kind(&OPERATION_JOB.group_kind).is_none()
            && !self.unlisted.contains(&OPERATION_JOB.plural)
            && registry::holders().any(|holder| is_on(&holder))
    }

    /// Why workloads of the kind are left alone, if they are.
    pub(crate) fn left_alone(&self, kind: &GroupKind) -> Option<String> {
        let left = self.managers.left(&self.installed()).any(|left| left == kind);
        let off = || {
            format!(
                "the controller does not look after them: {} does not name their component, or {} names them",
                Installed::COMPONENTS,
                Installed::SWITCHED_OFF
            )
        };
        left.then(|| self.managers.of_kind(kind).map_or_else(off, ToString::to_string))
    }

    /// What the controller decides now, and why; in detail of the pods for which `asked` holds.
    pub(crate) fn explain(&self, now: Timestamp, asked: impl Fn(&PodView) -> bool) -> Explanation {
        explain(&self.observed(now), &mut GateCache::new(self.settings.clone()), now, asked)
    }

    /// What the reader has to know about the whole: who does not do his part, and what was not read, in one note however much it is.
    pub(crate) fn notes(&self) -> Vec<String> {
        let left = self.managers.iter().map(|there| format!("{there}; hitless leaves its kinds to it"));
        let unread = unread::notes(&self.unread);
        self.controller.trouble().into_iter().chain(left).chain(self.unguarded_notes()).chain(unread).collect()
    }

    /// What nothing keeps from rolling natively: one note for each kind.
    fn unguarded_notes(&self) -> Vec<String> {
        let unguarded = self.guards.iter().flat_map(|guards| guards.unguarded(&self.cluster.objects));
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (object, why) in unguarded.filter(|(object, _)| self.shows(&object.id.namespace)) {
            names.entry(why).or_default().push(format!("{}/{}", object.id.namespace, object.id.name));
        }
        let note = |(why, names): (String, Vec<String>)| match names.split_first() {
            Some((first, rest)) if !rest.is_empty() => {
                format!("{first} and {} more have opted in, but {why}", rest.len())
            }
            _ => format!("{} has opted in, but {why}", names.join("")),
        };
        names.into_iter().map(note).collect()
    }

    /// Whether it could not be read.
    pub(crate) fn lacks(&self, part: Option<Part>) -> bool {
        part.is_some_and(|part| self.unread.contains_key(&part))
    }

    /// Everything that could be in the way of a pod was read.
    pub(crate) fn sees_what_is_in_the_way(&self) -> bool {
        !self.unread.keys().any(|part| part.may_be_in_the_way())
    }
}

/// One of the controller's Events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventView {
    /// uid of the object that it is about.
    pub(crate) regarding: String,
    pub(crate) reason: String,
    pub(crate) note: String,
    pub(crate) time: Option<Timestamp>,
}

/// An object of a workload's kind: as a decision takes it, and raw, because writes to it are patches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WorkloadObject {
    pub(crate) view: Arc<Object>,
    pub(crate) raw: Value,
}

impl WorkloadObject {
    /// Nothing if it does not parse, or is of no workload's kind.
    pub(crate) fn of(raw: Value) -> Option<Self> {
        Some(Self { view: Arc::new(registry::read(large::outlined(raw.clone()))?.ok()?), raw })
    }

    /// Of an object of this resource: in a list objects do not name their kind.
    pub(crate) fn listed(resource: &Resource, object: DynamicObject) -> Option<Self> {
        let mut raw = serde_json::to_value(object).ok()?;
        raw["apiVersion"] = resource.api_version().into();
        raw["kind"] = resource.group_kind.kind.clone().into();
        Self::of(raw)
    }
}

impl Snapshot {
    /// With the controller's Deployment, of which there is one at most; `None`: it could not be read.
    pub(crate) fn with_controller(mut self, deployments: Option<&[Arc<ControllerView>]>) -> Self {
        let Some(deployments) = deployments else { return self };
        let view = deployments.first().map(|view| &**view);
        self.controller = Controller::seen(view);
        self.settings = view.map(|view| view.settings.clone()).unwrap_or_default();
        self.installed = view.map(|view| view.installed.clone());
        self.cluster.prefetch_settings = view.map(|view| view.prefetch.clone()).unwrap_or_default();
        self
    }

    /// With these objects of workloads.
    pub(crate) fn with_objects(mut self, objects: Vec<Arc<WorkloadObject>>) -> Self {
        self.cluster.objects = objects.iter().map(|object| object.view.clone()).collect();
        self.objects = objects;
        self
    }
}

impl EventView {
    pub(crate) fn of(event: Event) -> Option<Self> {
        Some(Self {
            regarding: event.regarding?.uid?,
            reason: event.reason?,
            note: event.note.unwrap_or_default(),
            time: event.event_time.map(|time| time.0),
        })
    }
}

//! What is in the cluster, as far as commands look at it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use hitless_api::GroupKind;
use hitless_api::pod::PodView;
use hitless_gate::Settings;
use hitless_gate::settings::{ImplicitPercent, SkippedKinds};
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::guard::Guards;
use hitless_rollout::kuperator::{self, Kuperator};
use hitless_rollout::round::{Explanation, explain};
use hitless_rollout::snapshot::Snapshot as Cluster;
use hitless_runtime::config;
use hitless_workloads::requests::operation_job::OPERATION_JOB;
use hitless_workloads::switch::{ComponentNames, SwitchNames};
use hitless_workloads::{Component, Holder, Installed, Object, kind};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use kube::api::DynamicObject;
use serde_json::Value;

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
    /// Settings of the controller.
    pub(crate) settings: Settings,
    /// What the controller is told to look after; `None`: that is not known, and everything is assumed.
    pub(crate) installed: Option<Installed>,
    /// KusionStack's own manager, if the user may see it and it is there.
    pub(crate) kuperator: Option<Kuperator>,
    /// Which policies keep native controllers from rolling what has opted in, if the user may see them.
    pub(crate) guards: Option<Guards>,
    /// What could not be read, and why.
    pub(crate) unread: BTreeMap<Part, String>,
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
        cluster.unknown.modes |= self.unread.keys().any(|part| part.matters_to_modes());
        cluster.guards.clone_from(&self.guards);
        cluster.as_observer(now).leaving_alone(&self.installed(), self.kuperator.clone())
    }

    /// What the controller looks after.
    fn installed(&self) -> Installed {
        self.installed.clone().unwrap_or_else(|| Installed::with(&[Component::KusionStack]))
    }

    /// Whether the controller acts on OperationJobs.
    pub(crate) fn serves_jobs(&self) -> bool {
        let is_on = |holder: &Holder| holder.own() == Some(&OPERATION_JOB.group_kind) && self.installed().has(*holder);
        self.kuperator.is_none()
            && !self.unlisted.contains(&OPERATION_JOB.plural)
            && kind::holders().any(|holder| is_on(&holder))
    }

    /// Why workloads of the kind are left alone, if they are.
    pub(crate) fn left_alone(&self, kind: &GroupKind) -> Option<String> {
        let left = kuperator::left(&self.installed(), self.kuperator.as_ref()).any(|left| left == kind);
        let off = || {
            format!(
                "the controller does not look after them: {} does not name their component, or {} names them",
                Installed::COMPONENTS,
                Installed::SWITCHED_OFF
            )
        };
        left.then(|| self.kuperator.as_ref().map_or_else(off, ToString::to_string))
    }

    /// What the controller decides now, and why; in detail of the pods for which `asked` holds.
    pub(crate) fn explain(&self, now: Timestamp, asked: impl Fn(&PodView) -> bool) -> Explanation {
        explain(&self.observed(now), &mut GateCache::new(self.settings.clone()), now, asked)
    }

    /// What the reader has to know about what was not read: one note, however much it is.
    pub(crate) fn notes(&self) -> Vec<String> {
        let left = self.kuperator.iter().map(|there| format!("{there}; hitless leaves its kinds to it"));
        left.chain(self.unguarded_notes()).chain(self.unread_note()).collect()
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

    fn unread_note(&self) -> Option<String> {
        let (first, message) = self.unread.first_key_value()?;
        if self.unread.len() == 1 {
            return Some(format!("{first} not read: {message}; {}", first.consequence()));
        }
        let names: Vec<String> = self.unread.keys().map(Part::to_string).collect();
        let unknown: BTreeSet<&str> = self.unread.keys().map(|part| part.unknown()).collect();
        let unknown: Vec<&str> = unknown.into_iter().collect();
        Some(format!(
            "{} kinds may not be read ({}): what is not known is {}; ask for ClusterRole hitless-view. The first answer: {message}",
            names.len(),
            names.join(", "),
            unknown.join(", ")
        ))
    }

    /// Everything that could be in the way of a pod was read.
    pub(crate) fn sees_what_is_in_the_way(&self) -> bool {
        !self.unread.keys().any(|part| part.may_be_in_the_way())
    }
}

/// What can be left out if the user may not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Workloads,
    Transitions,
    Ledgers,
    Rules,
    Budgets,
    ClusterBudgets,
    DisruptionBudgets,
    Services,
    DrainPolicies,
    DefaultDrainPolicy,
    TrafficProviders,
    Elsewhere,
    Nodes,
    Agents,
    Events,
    Controller,
}

impl Part {
    fn matters_to_modes(self) -> bool {
        match self {
            // What agents can do is in the first of them.
            Self::Transitions | Self::Services | Self::DrainPolicies | Self::DefaultDrainPolicy => true,
            // What is said without them is said without them of the mode, too.
            Self::Workloads
            | Self::Ledgers
            | Self::Rules
            | Self::Budgets
            | Self::ClusterBudgets
            | Self::DisruptionBudgets
            | Self::Elsewhere
            | Self::TrafficProviders
            | Self::Nodes
            | Self::Agents
            | Self::Events
            | Self::Controller => false,
        }
    }

    /// Whether something in it could keep a pod from being operated.
    fn may_be_in_the_way(self) -> bool {
        match self {
            Self::Transitions
            | Self::Workloads
            | Self::Ledgers
            | Self::Rules
            | Self::Budgets
            | Self::ClusterBudgets
            | Self::DisruptionBudgets
            | Self::TrafficProviders
            | Self::Elsewhere
            | Self::Nodes
            | Self::Agents => true,
            // Without them only the mode, or what was said last, is not known.
            Self::Services | Self::DrainPolicies | Self::DefaultDrainPolicy | Self::Events | Self::Controller => false,
        }
    }

    /// What is not known without it, in a few words.
    fn unknown(self) -> &'static str {
        match self {
            Self::Transitions | Self::Ledgers => "which operations run",
            Self::Workloads => "what some workloads wish",
            Self::Rules | Self::Budgets | Self::ClusterBudgets | Self::DisruptionBudgets | Self::Elsewhere => {
                "which rules are in the way"
            }
            Self::Services | Self::DrainPolicies | Self::DefaultDrainPolicy => "which mode pods would get",
            Self::TrafficProviders => "which load balancers are in the way",
            Self::Nodes | Self::Agents => "whether nodes have an agent",
            Self::Events | Self::Controller => "what the controller said last",
        }
    }

    fn consequence(self) -> &'static str {
        match self {
            Self::Transitions => "which operations run, which have failed, and which mode pods would get, is not known",
            Self::Workloads => "what these workloads wish for their pods is not known",
            Self::Ledgers => "pods with a place in a budget count as free",
            Self::Rules => "they are left out of the answer",
            Self::Budgets | Self::ClusterBudgets | Self::DisruptionBudgets => "they may be in the way all the same",
            Self::Services | Self::DrainPolicies | Self::DefaultDrainPolicy => "which mode pods would get is not known",
            Self::TrafficProviders => "load balancers outside of the cluster may be in the way all the same",
            Self::Elsewhere => "budgets of the whole cluster count the pods of this namespace only",
            Self::Nodes => "zones are not known",
            Self::Agents => "whether the nodes have an agent is not known",
            Self::Events => "what the controller said last is not known",
            Self::Controller => "its settings are assumed to be the defaults",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workloads => "some kinds of workloads",
            Self::Transitions => "NodeTransitions",
            Self::Ledgers => "TransitionLedgers",
            Self::Rules => "PodTransitionRules",
            Self::Budgets => "TransitionBudgets",
            Self::ClusterBudgets => "TransitionBudgets of hitless-system",
            Self::DisruptionBudgets => "PodDisruptionBudgets",
            Self::Services => "Services",
            Self::DrainPolicies => "DrainPolicies",
            Self::DefaultDrainPolicy => "DrainPolicy default of hitless-system",
            Self::TrafficProviders => "TrafficProviders",
            Self::Elsewhere => "pods and TransitionLedgers of other namespaces",
            Self::Nodes => "nodes",
            Self::Agents => "agents (pods of hitless-system)",
            Self::Events => "Events",
            Self::Controller => "Deployment hitless-controller",
        })
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
        Some(Self { view: Arc::new(kind::read(raw.clone())?.ok()?), raw })
    }

    /// Of an object of this resource: in a list objects do not name their kind.
    pub(crate) fn listed(resource: &kind::Resource, object: DynamicObject) -> Option<Self> {
        let mut raw = serde_json::to_value(object).ok()?;
        raw["apiVersion"] = resource.api_version().into();
        raw["kind"] = resource.group_kind.kind.clone().into();
        Self::of(raw)
    }
}

impl Snapshot {
    /// With these objects of workloads.
    pub(crate) fn with_objects(mut self, objects: Vec<Arc<WorkloadObject>>) -> Self {
        self.cluster.objects = objects.iter().map(|object| object.view.clone()).collect();
        self.objects = objects;
        self
    }
}

/// What the controller's Deployment tells it in the environment; what it would refuse to start with counts as the default.
pub(crate) fn settings(deployment: Deployment) -> Option<(Settings, Installed)> {
    let containers = deployment.spec?.template.spec?.containers;
    let variables: BTreeMap<String, String> = containers
        .into_iter()
        .flat_map(|container| container.env.unwrap_or_default())
        .filter_map(|variable| Some((variable.name, variable.value?)))
        .collect();
    let variables = config::Settings::new(|name| variables.get(name).cloned());
    let settings = Settings {
        implicit: variables.parsed(Settings::IMPLICIT_PERCENT, ImplicitPercent::default()).unwrap_or_default().0,
        skipped_kinds: variables.parsed(Settings::SKIPPED_KINDS, SkippedKinds::default()).unwrap_or_default().0,
    };
    let installed = Installed {
        components: variables.parsed(Installed::COMPONENTS, ComponentNames::default()).unwrap_or_default().0,
        off: variables.parsed(Installed::SWITCHED_OFF, SwitchNames::default()).unwrap_or_default().0,
    };
    Some((settings, installed))
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

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_gate::ImplicitBudget;
    use serde_json::json;

    #[test]
    fn settings_are_those_that_the_controller_is_started_with() {
        let started = |env: serde_json::Value| {
            let deployment = json!({"metadata": {}, "spec": {"selector": {}, "template": {"spec": {"containers": [
                {"name": "controller", "env": env}]}}}});
            settings(serde_json::from_value(deployment).unwrap()).unwrap().0
        };
        assert_eq!(started(json!([])), Settings::default());
        assert_eq!(started(json!([{"name": "HITLESS_IMPLICIT_PERCENT", "value": "off"}])).implicit, None);
        let half = started(json!([{"name": "HITLESS_IMPLICIT_PERCENT", "value": "50"}])).implicit;
        assert_eq!(half, Some(ImplicitBudget { percent: 50 }));
        for (name, refused) in [("HITLESS_IMPLICIT_PERCENT", "half"), ("SKIP_POD_TRANSITION_RULES", "webhooks")] {
            assert_eq!(started(json!([{"name": name, "value": refused}])), Settings::default(), "{refused}");
        }
        let skipped = started(json!([{"name": "SKIP_POD_TRANSITION_RULES", "value": "webhook, labelCheck"}]));
        assert_eq!(skipped.skipped_kinds.into_iter().collect::<Vec<_>>(), ["labelCheck", "webhook"]);
    }
}

//! What is in the cluster, as far as commands look at it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_api::pod_transition_rule::PodTransitionRuleStatus;
use hitless_api::{
    DrainPolicy, NodeTransition, PodTransitionRule, TransitionBudget, TransitionLedger, TransitionLedgerSpec,
};
use hitless_gate::settings::{ImplicitPercent, SkippedKinds};
use hitless_gate::{Budget, DisruptionBudget, RuleSet, Settings};
use hitless_rollout::mode::{PolicyView, ServiceView};
use hitless_runtime::config;
use hitless_workloads::{DeploymentView, ReplicaSetView};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DynamicObject, PartialObjectMeta};
use serde::de::DeserializeOwned;

/// One picture of the cluster, or of one namespace and what is not in any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) deployments: Vec<Arc<DeploymentView>>,
    pub(crate) replica_sets: Vec<Arc<ReplicaSetView>>,
    pub(crate) pods: Vec<Arc<PodView>>,
    /// Pods of other namespaces, read only where a budget of the whole cluster counts them.
    pub(crate) elsewhere: Vec<Arc<PodView>>,
    pub(crate) transitions: Vec<Arc<NodeTransition>>,
    pub(crate) ledgers: Vec<Arc<TransitionLedgerSpec>>,
    pub(crate) rules: Vec<Arc<RuleView>>,
    pub(crate) budgets: Vec<Arc<Budget>>,
    pub(crate) disruption_budgets: Vec<Arc<DisruptionBudget>>,
    /// Read only where somebody asks which way pods go.
    pub(crate) services: Vec<Arc<ServiceView>>,
    /// The same; with the cluster's default.
    pub(crate) drain_policies: Vec<Arc<PolicyView>>,
    pub(crate) events: Vec<Arc<EventView>>,
    /// `None`: nobody knows.
    pub(crate) nodes: Option<Vec<Arc<NodeView>>>,
    /// Pods of the agents; `None`: nobody knows.
    pub(crate) agents: Option<Vec<Arc<PodView>>>,
    /// Settings of the controller.
    pub(crate) settings: Settings,
    /// What could not be read, and why.
    pub(crate) unread: BTreeMap<Part, String>,
}

impl Snapshot {
    /// Whether a budget counts the pods of all namespaces.
    pub(crate) fn counts_cluster_wide(&self) -> bool {
        self.budgets.iter().any(|budget| budget.is_cluster_wide())
    }

    /// Whether all was read that the choice between Leave and Hold rests on.
    pub(crate) fn tells_modes(&self) -> bool {
        !self.unread.keys().any(|part| part.matters_to_modes())
    }

    /// What the reader has to know about what was not read.
    pub(crate) fn notes(&self) -> Vec<String> {
        let note = |(part, message): (&Part, &String)| format!("{part} not read: {message}; {}", part.consequence());
        self.unread.iter().map(note).collect()
    }
}

/// What can be left out if the user may not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Transitions,
    Ledgers,
    Rules,
    Budgets,
    ClusterBudgets,
    DisruptionBudgets,
    Services,
    DrainPolicies,
    DefaultDrainPolicy,
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
            Self::Ledgers
            | Self::Rules
            | Self::Budgets
            | Self::ClusterBudgets
            | Self::DisruptionBudgets
            | Self::Elsewhere
            | Self::Nodes
            | Self::Agents
            | Self::Events
            | Self::Controller => false,
        }
    }

    fn consequence(self) -> &'static str {
        match self {
            Self::Transitions => "which operations run, which have failed, and which mode pods would get, is not known",
            Self::Ledgers => "pods with a place in a budget count as free",
            Self::Rules => "they are left out of the answer",
            Self::Budgets | Self::ClusterBudgets | Self::DisruptionBudgets => "they may be in the way all the same",
            Self::Services | Self::DrainPolicies | Self::DefaultDrainPolicy => "which mode pods would get is not known",
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
            Self::Transitions => "NodeTransitions",
            Self::Ledgers => "TransitionLedgers",
            Self::Rules => "PodTransitionRules",
            Self::Budgets => "TransitionBudgets",
            Self::ClusterBudgets => "TransitionBudgets of hitless-system",
            Self::DisruptionBudgets => "PodDisruptionBudgets",
            Self::Services => "Services",
            Self::DrainPolicies => "DrainPolicies",
            Self::DefaultDrainPolicy => "DrainPolicy default of hitless-system",
            Self::Elsewhere => "pods and TransitionLedgers of other namespaces",
            Self::Nodes => "nodes",
            Self::Agents => "agents (pods of hitless-system)",
            Self::Events => "Events",
            Self::Controller => "Deployment hitless-controller",
        })
    }
}

/// A PodTransitionRule, and what the controller reports of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RuleView {
    pub(crate) set: RuleSet,
    pub(crate) status: Option<PodTransitionRuleStatus>,
}

/// A Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeView {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
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

/// What is kept of an object of the API.
pub(crate) trait Seen: Sized {
    type Object;

    /// `None` where it is of no interest.
    fn seen(object: Self::Object) -> Option<Self>;
}

impl Seen for DeploymentView {
    type Object = DynamicObject;

    fn seen(object: DynamicObject) -> Option<Self> {
        raw(&object)
    }
}

impl Seen for ReplicaSetView {
    type Object = DynamicObject;

    fn seen(object: DynamicObject) -> Option<Self> {
        raw(&object)
    }
}

/// Read as raw JSON, because a revision is a hash over all fields, also those that no type of ours knows.
fn raw<T: DeserializeOwned>(object: &DynamicObject) -> Option<T> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

impl Seen for PodView {
    type Object = Pod;

    fn seen(pod: Pod) -> Option<Self> {
        let view = Self::from(&pod);
        (!view.finished).then_some(view)
    }
}

impl Seen for NodeTransition {
    type Object = Self;

    fn seen(node: Self) -> Option<Self> {
        Some(node)
    }
}

impl Seen for TransitionLedgerSpec {
    type Object = TransitionLedger;

    fn seen(ledger: TransitionLedger) -> Option<Self> {
        Some(ledger.spec)
    }
}

impl Seen for RuleView {
    type Object = PodTransitionRule;

    fn seen(rule: PodTransitionRule) -> Option<Self> {
        let set = RuleSet { name: rule.metadata.name?, namespace: rule.metadata.namespace?, spec: rule.spec };
        Some(Self { set, status: rule.status })
    }
}

impl Seen for Budget {
    type Object = TransitionBudget;

    fn seen(budget: TransitionBudget) -> Option<Self> {
        Some(Self { name: budget.metadata.name?, namespace: budget.metadata.namespace?, spec: budget.spec })
    }
}

impl Seen for DisruptionBudget {
    type Object = PodDisruptionBudget;

    fn seen(budget: PodDisruptionBudget) -> Option<Self> {
        let spec = budget.spec.unwrap_or_default();
        Some(Self {
            name: budget.metadata.name?,
            namespace: budget.metadata.namespace?,
            selector: spec.selector,
            min_available: spec.min_available,
            max_unavailable: spec.max_unavailable,
        })
    }
}

impl Seen for ServiceView {
    type Object = Service;

    fn seen(service: Service) -> Option<Self> {
        Some(Self::from(&service))
    }
}

impl Seen for PolicyView {
    type Object = DrainPolicy;

    fn seen(policy: DrainPolicy) -> Option<Self> {
        Some(Self::from(policy))
    }
}

impl Seen for NodeView {
    type Object = PartialObjectMeta<Node>;

    fn seen(node: PartialObjectMeta<Node>) -> Option<Self> {
        Some(Self { name: node.metadata.name?, labels: node.metadata.labels.unwrap_or_default() })
    }
}

/// What the controller's Deployment tells it in the environment; what it would refuse to start with counts as the default.
impl Seen for Settings {
    type Object = Deployment;

    fn seen(deployment: Deployment) -> Option<Self> {
        let containers = deployment.spec?.template.spec?.containers;
        let variables: BTreeMap<String, String> = containers
            .into_iter()
            .flat_map(|container| container.env.unwrap_or_default())
            .filter_map(|variable| Some((variable.name, variable.value?)))
            .collect();
        let variables = config::Settings::new(|name| variables.get(name).cloned());
        Some(Self {
            implicit: variables.parsed(Self::IMPLICIT_PERCENT, ImplicitPercent::default()).unwrap_or_default().0,
            skipped_kinds: variables.parsed(Self::SKIPPED_KINDS, SkippedKinds::default()).unwrap_or_default().0,
        })
    }
}

impl Seen for EventView {
    type Object = Event;

    fn seen(event: Event) -> Option<Self> {
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
        let settings = |env: serde_json::Value| {
            let deployment = json!({"metadata": {}, "spec": {"selector": {}, "template": {"spec": {"containers": [
                {"name": "controller", "env": env}]}}}});
            Settings::seen(serde_json::from_value(deployment).unwrap()).unwrap()
        };
        assert_eq!(settings(json!([])), Settings::default());
        assert_eq!(settings(json!([{"name": "HITLESS_IMPLICIT_PERCENT", "value": "off"}])).implicit, None);
        let half = settings(json!([{"name": "HITLESS_IMPLICIT_PERCENT", "value": "50"}])).implicit;
        assert_eq!(half, Some(ImplicitBudget { percent: 50 }));
        for (name, refused) in [("HITLESS_IMPLICIT_PERCENT", "half"), ("SKIP_POD_TRANSITION_RULES", "webhooks")] {
            assert_eq!(settings(json!([{"name": name, "value": refused}])), Settings::default(), "{refused}");
        }
        let skipped = settings(json!([{"name": "SKIP_POD_TRANSITION_RULES", "value": "webhook, labelCheck"}]));
        assert_eq!(skipped.skipped_kinds.into_iter().collect::<Vec<_>>(), ["labelCheck", "webhook"]);
    }
}

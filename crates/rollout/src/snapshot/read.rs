//! The views of objects of the API, and what follows from them: the same for the controller's caches and for a command line.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::ledger::CLUSTER;
use hitless_api::names::{self, system_namespace};
use hitless_api::pod::PodView;
use hitless_api::{Lenient, NodeTransition, PodTransitionRule, TransitionLedger};
use hitless_gate::RuleSet;
use hitless_workloads::Object;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{AgentState, LedgerView, NodePressure, NodeTransitionView, NodeView, RuleView, Version};
use crate::prefetch::{NamePool, NodeImages};
use crate::round::write::FENCE;

fn version(meta: &ObjectMeta) -> Version {
    Version {
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
    }
}

impl NodeView {
    /// Of a Node. Names of images are kept once for all nodes that are read with the same pool.
    #[must_use]
    pub fn of(node: &Node, names: &mut NamePool) -> Self {
        let images = node.status.iter().flat_map(|status| status.images.iter().flatten());
        let images = images.map(|image| image.names.iter().flatten().map(String::as_str));
        Self {
            images: NodeImages::of(images, names),
            pressure: pressure(node),
            not_ready_since: not_ready_since(node),
            ..Self::from(&node.metadata)
        }
    }
}

fn pressure(node: &Node) -> Option<NodePressure> {
    let conditions = node.status.as_ref()?.conditions.as_deref().unwrap_or_default();
    ["DiskPressure", "MemoryPressure", "PIDPressure"].into_iter().find_map(|condition| {
        let known = conditions.iter().find(|each| each.type_ == condition && each.status == "True")?;
        Some(NodePressure { condition, since: known.last_transition_time.as_ref().map(|time| time.0) })
    })
}

fn not_ready_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_deref().unwrap_or_default();
    let ready = conditions.iter().find(|each| each.type_ == "Ready").filter(|ready| ready.status != "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// Of a Node's metadata: what it has is not known.
impl From<&ObjectMeta> for NodeView {
    fn from(meta: &ObjectMeta) -> Self {
        Self {
            images: NodeImages::default(),
            pressure: None,
            not_ready_since: None,
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            labels: meta.labels.clone().unwrap_or_default(),
        }
    }
}

impl From<NodeTransition> for NodeTransitionView {
    fn from(object: NodeTransition) -> Self {
        let status = object.status.unwrap_or_default();
        Self {
            node: object.metadata.name.clone().unwrap_or_default(),
            version: version(&object.metadata),
            fence: object.metadata.annotations.and_then(|mut all| all.remove(FENCE)),
            spec: object.spec,
            agent: status.agent,
            transitions: status.transitions,
        }
    }
}

impl LedgerView {
    /// Of an object that is a ledger of ours by its name. A ledger is known by its namespace, that of the whole cluster as
    /// [`CLUSTER`].
    #[must_use]
    pub fn of(object: TransitionLedger) -> Option<Self> {
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let namespace = match object.metadata.name.as_deref() {
            Some(names::LEDGER) => namespace,
            Some(names::CLUSTER_LEDGER) if namespace == system_namespace() => CLUSTER.to_owned(),
            _ => return None,
        };
        Some(Self { namespace, version: version(&object.metadata), spec: object.spec })
    }
}

impl From<PodTransitionRule> for RuleView {
    fn from(object: PodTransitionRule) -> Self {
        Lenient { object, unreadable: None }.into()
    }
}

impl From<Lenient<PodTransitionRule>> for RuleView {
    fn from(Lenient { object, unreadable }: Lenient<PodTransitionRule>) -> Self {
        Self {
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            name: object.metadata.name.clone().unwrap_or_default(),
            version: version(&object.metadata),
            generation: object.metadata.generation.unwrap_or_default(),
            spec: object.spec,
            unreadable,
            status: object.status,
        }
    }
}

impl From<&RuleView> for RuleSet {
    fn from(rule: &RuleView) -> Self {
        Self {
            name: rule.name.clone(),
            namespace: rule.namespace.clone(),
            spec: rule.spec.clone(),
            unreadable: rule.unreadable.clone(),
        }
    }
}

/// Whether it is a pod of the agents' DaemonSet.
pub(crate) fn is_agent(pod: &PodView) -> bool {
    pod.id.namespace == system_namespace() && pod.labels.get(names::APP_LABEL).is_some_and(|name| name == names::AGENT)
}

/// Whether it is the agents' DaemonSet.
pub(crate) fn is_agents(object: &Object) -> bool {
    object.id.name == names::AGENT && object.id.namespace == system_namespace()
}

/// Which of these nodes have a Ready agent: its DaemonSet's pods, among `pods`, tell. `known` is the answer of last time; a node
/// that had none then has had none since then. `excludes`: the DaemonSet wants no pod on this node.
#[must_use]
pub fn agents<'a>(
    nodes: impl IntoIterator<Item = &'a str>,
    pods: impl IntoIterator<Item = &'a PodView>,
    excludes: impl Fn(&str) -> bool,
    known: &BTreeMap<String, AgentState>,
    now: Timestamp,
) -> BTreeMap<String, AgentState> {
    let ready = pods.into_iter().filter(|pod| is_agent(pod) && pod.available());
    let ready: BTreeSet<&str> = ready.filter_map(|pod| pod.node.as_deref()).collect();
    let state = |node: &str| match known.get(node) {
        _ if ready.contains(node) => AgentState::Ready,
        _ if excludes(node) => AgentState::Never,
        Some(AgentState::MissingSince(since)) => AgentState::MissingSince(*since),
        Some(AgentState::Ready | AgentState::Never) | None => AgentState::MissingSince(now),
    };
    nodes.into_iter().map(|node| (node.to_owned(), state(node))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cordon_keeps_no_image_away_and_pressure_does() {
        let of =
            |node: serde_json::Value| NodeView::of(&serde_json::from_value(node).unwrap(), &mut NamePool::default());
        assert_eq!(of(serde_json::json!({"metadata": {"name": "n1"}, "spec": {"unschedulable": true}})).pressure, None);
        let full = of(serde_json::json!({"metadata": {"name": "n1"}, "status": {"conditions": [
            {"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "False"},
            {"type": "DiskPressure", "status": "True", "lastTransitionTime": "2026-11-23T00:00:00Z"}]}}));
        let since = Some("2026-11-23T00:00:00Z".parse().unwrap());
        assert_eq!(full.pressure, Some(NodePressure { condition: "DiskPressure", since }));
        assert_eq!(full.not_ready_since, None);
    }

    #[test]
    fn a_node_whose_kubelet_says_nothing_is_as_little_ready_as_one_that_says_so() {
        for status in ["False", "Unknown"] {
            let node = serde_json::json!({"metadata": {"name": "n1"}, "status": {"conditions": [
                {"type": "Ready", "status": status, "lastTransitionTime": "2026-11-23T00:00:00Z"}]}});
            let node = NodeView::of(&serde_json::from_value(node).unwrap(), &mut NamePool::default());
            assert_eq!(node.not_ready_since, Some("2026-11-23T00:00:00Z".parse().unwrap()));
        }
    }
}

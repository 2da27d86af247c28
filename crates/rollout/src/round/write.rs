//! The writes of a round to what is no workload's object, and what others read in them.

pub(crate) mod pods;
pub mod service;

use hitless_api::ledger::CLUSTER;
use hitless_api::names::{AGENT, CLUSTER_LEDGER, GROUP, LEDGER, system_namespace};
use hitless_api::{
    GroupKind, JsonPatch, NodeTransition, NodeTransitionSpec, ObjectRef, TransitionLedger, TransitionLedgerSpec,
};
use hitless_workloads::{Request, Write};
use serde::Serialize;
use serde_json::json;

use crate::snapshot::{AGENT_ROLE, LedgerView, NodeTransitionView, Version};

/// Annotation on a NodeTransition that names the reservations for which there is, and by this write will be, no grant in it.
pub const FENCE: &str = "hitless.dev/fence";

const TRANSITION_LEDGER: GroupKind = GroupKind::new(GROUP, "TransitionLedger");
const NODE_TRANSITION: GroupKind = GroupKind::new(GROUP, "NodeTransition");
const ROLE_BINDING: GroupKind = GroupKind::new("rbac.authorization.k8s.io", "RoleBinding");

/// A write in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The write.
    pub write: Write,
    /// Indices of earlier steps of the round that must have succeeded; otherwise this one is dropped and the next round
    /// decides anew.
    pub needs: Vec<usize>,
}

impl Step {
    /// A step that needs no other.
    #[must_use]
    pub const fn alone(write: Write) -> Self {
        Self { write, needs: Vec::new() }
    }
}

fn tested(version: &Version) -> JsonPatch {
    JsonPatch::at(&version.uid, &version.resource_version)
}

fn on(group_kind: GroupKind, namespace: &str, name: &str, uid: &str) -> ObjectRef {
    ObjectRef { group_kind, namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.to_owned() }
}

/// The next content of a ledger. `namespace` may be [`CLUSTER`]. `version` is the one that was decided on; `None`: it is created.
#[must_use]
pub fn ledger(namespace: &str, version: Option<&Version>, spec: TransitionLedgerSpec) -> Write {
    const VERB: &str = "ledger";
    let (place, name) = if namespace == CLUSTER { (system_namespace(), CLUSTER_LEDGER) } else { (namespace, LEDGER) };
    let write = match version {
        None => {
            let mut object = TransitionLedger::new(name, spec);
            object.metadata.namespace = Some(place.to_owned());
            Write::create(VERB, &TRANSITION_LEDGER, json!(object))
        }
        Some(version) => {
            let patch = tested(version).replace(&["spec"], json!(spec));
            Write::new(VERB, on(TRANSITION_LEDGER, place, name, &version.uid), Request::Patch(patch))
        }
    };
    write.about(namespace.to_owned())
}

/// The next content of a NodeTransition. `version` is the one that was decided on; `None`: it is created, owned by the Node. Without a
/// `fence` the annotation [`FENCE`] stays as it is.
#[must_use]
pub fn node_transition(
    node: &str,
    version: Option<&Version>,
    spec: NodeTransitionSpec,
    fence: Option<String>,
) -> Write {
    const VERB: &str = "node-transition";
    let fence = fence.map(|fence| (FENCE.to_owned(), fence));
    let write = match version {
        None => {
            let owner = json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": spec.node_uid});
            let mut object = json!(NodeTransition::new(node, spec));
            object["metadata"]["ownerReferences"] = json!([owner]);
            if let Some((name, fence)) = fence {
                object["metadata"]["annotations"] = json!({name: fence});
            }
            Write::create(VERB, &NODE_TRANSITION, object)
        }
        Some(version) => {
            let mut metadata = json!({"uid": version.uid, "resourceVersion": version.resource_version});
            if let Some((name, fence)) = fence {
                metadata["annotations"] = json!({name: fence});
            }
            // A merge patch replaces lists as a whole, and the grants are one.
            let patch = json!({"metadata": metadata, "spec": spec});
            Write::new(VERB, on(NODE_TRANSITION, "", node, &version.uid), Request::Merge(patch))
        }
    };
    write.about(node.to_owned())
}

/// The RoleBinding by which agents may operate in a namespace, if it is not there. It is owned by the ledger, so that no ledger means no such
/// right. `ledger_uid` is absent where the ledger is made in the same round.
pub(crate) fn role_binding(namespace: &str, ledger_uid: Option<&str>) -> Write {
    let owner = on(TRANSITION_LEDGER, namespace, LEDGER, ledger_uid.unwrap_or_default());
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": AGENT,
            "namespace": namespace,
            "ownerReferences": [{"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "TransitionLedger", "name": LEDGER, "uid": owner.uid}],
        },
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": AGENT_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": AGENT, "namespace": system_namespace()}],
    });
    let otherwise = format!(
        "RoleBinding {AGENT} in namespace {namespace} is not owned by its ledger or does not bind the agents to {AGENT_ROLE}: \
         delete it, it is made anew"
    );
    let on = on(ROLE_BINDING, namespace, AGENT, "");
    Write::new("role-binding", on, Request::Ensure { object, owner, otherwise }).about(namespace.to_owned())
}

/// The next status of an object of ours, such as `rule-status`.
pub(crate) fn status(
    verb: &'static str,
    kind: &'static str,
    (namespace, name): (&str, &str),
    version: &Version,
    status: &impl Serialize,
) -> Write {
    let patch = tested(version).add(&["status"], json!(status));
    let on = on(GroupKind::new(GROUP, kind), namespace, name, &version.uid);
    let subject = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    Write::new(verb, on, Request::Status(patch)).about(subject)
}

/// Whether it writes a NodeTransition.
pub(crate) fn is_of_node(write: &Write) -> bool {
    write.on.group_kind == NODE_TRANSITION
}

/// The namespace whose ledger it writes, or [`CLUSTER`]; `None`: it writes none.
#[must_use]
pub fn ledger_of(write: &Write) -> Option<&str> {
    (write.on.group_kind == TRANSITION_LEDGER).then(|| write.namespace().unwrap_or(CLUSTER))
}

/// The content of the ledger that it writes.
#[must_use]
pub fn ledger_content(write: &Write) -> Option<TransitionLedgerSpec> {
    ledger_of(write).and_then(|_| write.content("/spec"))
}

/// The content of the NodeTransition that it writes.
#[must_use]
pub fn node_content(write: &Write) -> Option<NodeTransitionSpec> {
    is_of_node(write).then(|| write.content("/spec"))?
}

impl LedgerView {
    /// As it is once it has been written, but for its version; `None`: it is not written.
    #[must_use]
    pub fn after(write: &Write, known: Option<&Self>) -> Option<Self> {
        let version = known.map(|known| known.version.clone()).unwrap_or_default();
        Some(Self { namespace: ledger_of(write)?.to_owned(), version, spec: ledger_content(write)? })
    }
}

impl NodeTransitionView {
    /// As it is once it has been written, but for its version; `None`: it is not written.
    #[must_use]
    pub fn after(write: &Write, known: Option<&Self>) -> Option<Self> {
        let fence = write.content(&format!("/metadata/annotations/{}", FENCE.replace('/', "~1")));
        Some(Self {
            node: write.on.name.clone(),
            version: known.map(|known| known.version.clone()).unwrap_or_default(),
            fence: fence.or_else(|| known?.fence.clone()),
            spec: node_content(write)?,
            agent: known.and_then(|known| known.agent.clone()),
            transitions: known.map(|known| known.transitions.clone()).unwrap_or_default(),
        })
    }
}

//! The RoleBinding by which agents may operate in a namespace. It is owned by the ledger, so that no ledger means no such right.

use hitless_api::names::{AGENT, system_namespace};
use k8s_openapi::api::rbac::v1::{RoleBinding, Subject};

/// The ClusterRole that is bound (manifests/rbac/agent.yaml).
pub const AGENT_ROLE: &str = "hitless-agent-operator";

/// A RoleBinding that is called as those of ours are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingView {
    /// Namespace.
    pub namespace: String,
    /// uid of the ledger that owns it; it goes with that one.
    pub ledger_uid: Option<String>,
    /// It binds the agents' role to the agents.
    pub binds: bool,
}

impl BindingView {
    /// Of a RoleBinding; nothing of one that is called otherwise.
    #[must_use]
    pub fn of(object: &RoleBinding) -> Option<Self> {
        let meta = &object.metadata;
        if meta.name.as_deref() != Some(AGENT) {
            return None;
        }
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        let ledger = owners.iter().find(|owner| owner.kind == "TransitionLedger");
        let is_agent = |subject: &Subject| {
            subject.kind == "ServiceAccount"
                && subject.name == AGENT
                && subject.namespace.as_deref() == Some(system_namespace())
        };
        let is_role = object.role_ref.kind == "ClusterRole" && object.role_ref.name == AGENT_ROLE;
        Some(Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            ledger_uid: ledger.map(|owner| owner.uid.clone()),
            binds: is_role && meta.deletion_timestamp.is_none() && object.subjects.iter().flatten().any(is_agent),
        })
    }

    /// Whether agents may operate by it for as long as this ledger is there.
    #[must_use]
    pub fn serves(&self, ledger_uid: &str) -> bool {
        self.binds && self.ledger_uid.as_deref() == Some(ledger_uid)
    }
}

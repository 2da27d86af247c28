//! The agents' right to operate, namespace by namespace: a RoleBinding that the namespace's ledger owns, so that no ledger
//! means no such right.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use hitless_api::names::{AGENT, SYSTEM_NAMESPACE};
use hitless_runtime::write::{WriteError, Writes};
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use kube::{Api, Client};

use super::{owned_by, post};
use hitless_rollout::snapshot::LedgerView;

/// The ClusterRole that is bound (manifests/rbac/agent.yaml).
const ROLE: &str = "hitless-agent-operator";

pub(super) struct Rights {
    client: Client,
    writes: Writes,
    /// uid of the ledger by namespace, where the binding was made.
    given: Mutex<BTreeMap<String, String>>,
}

impl Rights {
    pub(super) fn new(client: Client, writes: Writes) -> Self {
        Self { client, writes, given: Mutex::default() }
    }

    /// Makes the binding, once for each ledger.
    pub(super) async fn give(&self, ledger: &LedgerView) -> Result<(), WriteError> {
        if self.given(|given| given.get(&ledger.namespace) == Some(&ledger.version.uid)) {
            return Ok(());
        }
        let binding = RoleBinding {
            metadata: owned_by(ledger, AGENT),
            role_ref: RoleRef {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "ClusterRole".to_owned(),
                name: ROLE.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: AGENT.to_owned(),
                namespace: Some(SYSTEM_NAMESPACE.to_owned()),
                ..Subject::default()
            }]),
        };
        let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), &ledger.namespace);
        match self.writes.send("rolebindings", api.create(&post(), &binding)).await {
            // It is there.
            Ok(_) | Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        self.given(|given| given.insert(ledger.namespace.clone(), ledger.version.uid.clone()));
        Ok(())
    }

    fn given<R>(&self, apply: impl FnOnce(&mut BTreeMap<String, String>) -> R) -> R {
        apply(&mut self.given.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

//! The agents' right to operate, namespace by namespace: a RoleBinding that the namespace's ledger owns, so that no ledger
//! means no such right.

use hitless_api::names::{AGENT, GROUP, LEDGER, system_namespace};
use hitless_rollout::snapshot::AGENT_ROLE;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// Of the ledger with this uid.
pub(super) fn binding(namespace: &str, ledger_uid: String) -> RoleBinding {
    let owner = OwnerReference {
        api_version: format!("{GROUP}/v1alpha1"),
        kind: "TransitionLedger".to_owned(),
        name: LEDGER.to_owned(),
        uid: ledger_uid,
        ..OwnerReference::default()
    };
    RoleBinding {
        metadata: ObjectMeta {
            name: Some(AGENT.to_owned()),
            namespace: Some(namespace.to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: AGENT_ROLE.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: AGENT.to_owned(),
            namespace: Some(system_namespace().to_owned()),
            ..Subject::default()
        }]),
    }
}

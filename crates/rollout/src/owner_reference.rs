//! Whom a pod of ours goes with.

use hitless_api::ObjectRef;
use hitless_workloads::registry;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};

/// An entry of `ownerReferences`.
pub(crate) fn owner_reference(owner: &ObjectRef, is_controller: bool) -> Value {
    let ObjectReference { api_version, kind, name, uid, .. } = owner.reference(registry::version(&owner.group_kind));
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": is_controller})
}

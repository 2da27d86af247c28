//! Events as rounds make them.

use hitless_api::PodRef;
use hitless_api::event::{EventNote, Severity};
use hitless_workloads::{Plan, registry};
use k8s_openapi::api::core::v1::ObjectReference;

pub(crate) fn note(regarding: ObjectReference, severity: Severity, reason: &'static str, text: String) -> EventNote {
    EventNote { regarding, severity, reason, action: "UpdateInPlace", text }
}

pub(crate) fn regarding(plan: &Plan) -> ObjectReference {
    plan.workload.reference(registry::version(&plan.workload.group_kind))
}

pub(crate) fn pod_reference(pod: &PodRef) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid: Some(pod.uid.clone()),
        ..ObjectReference::default()
    }
}

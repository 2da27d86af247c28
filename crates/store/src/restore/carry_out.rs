//! The writes that put something back.

use hitless_api::{GroupKind, PodRef, names};
use hitless_runtime::write::WriteError;
use hitless_workloads::{Write, registry};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::json;

use super::{Restore, Restorer};
use crate::{Target, api_resource, send};

impl Restorer {
    pub(super) async fn carry_out(&self, restore: &Restore) -> Result<(), WriteError> {
        match restore {
            Restore::Write(write) => self.send(write).await,
            Restore::Raise { pod, resource_version } => self.in_service(pod, resource_version, true).await,
            Restore::Lower { pod, resource_version } => self.in_service(pod, resource_version, false).await,
        }
    }

    async fn send(&self, write: &Write) -> Result<(), WriteError> {
        let Some((known, resource)) = resource_of(&write.on.group_kind) else { return Ok(()) };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &write.on.namespace, &known);
        let target = Target { api, resource, status: resource };
        send(&self.writes, &target, write).await.map(drop)
    }

    async fn in_service(&self, pod: &PodRef, resource_version: &str, wanted: bool) -> Result<(), WriteError> {
        let status = if wanted { "True" } else { "False" };
        let now = jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string();
        let patch = Patch::Strategic(json!({
            "metadata": {"uid": pod.uid, "resourceVersion": resource_version},
            "status": {"conditions": [{
                "type": names::IN_SERVICE, "status": status, "reason": "Uninstalled",
                "message": "hitless does not look after this pod any more", "lastTransitionTime": now,
            }]},
        }));
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let params = PatchParams::default();
        self.writes.send("pods/status", async { api.patch_status(&pod.name, &params, &patch).await.map(drop) }).await
    }
}

/// As requests name it, and as its writes are counted.
fn resource_of(kind: &GroupKind) -> Option<(ApiResource, &'static str)> {
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => Some((ApiResource::erase::<Pod>(&()), "pods")),
        ("", "Service") => Some((ApiResource::erase::<Service>(&()), "services")),
        _ => registry::resource(kind).map(|(_, resource)| (api_resource(resource), resource.plural)),
    }
}

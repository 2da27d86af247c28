//! The writes that put something back.

use hitless_api::{PodRef, names};
use hitless_runtime::write::WriteError;
use hitless_workloads::{Write, registry};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use super::{Restore, Restorer};
use crate::{Target, api_resource, send};

impl Restorer {
    pub(super) async fn carry_out(&self, restore: &Restore) -> Result<(), WriteError> {
        match restore {
            Restore::Workload(write) => self.workload(write).await,
            Restore::Close(write) => self.close(write).await,
            Restore::Raise { pod, resource_version } => self.in_service(pod, resource_version, true).await,
            Restore::Lower { pod, resource_version } => self.in_service(pod, resource_version, false).await,
            Restore::Delete(pod) => {
                let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
                let target = Target { api, resource: "pods", status: "pods/status" };
                send(&self.writes, &target, &Write::delete_helper("delete", pod, None, None)).await.map(drop)
            }
        }
    }

    async fn workload(&self, write: &Write) -> Result<(), WriteError> {
        let Some((_, resource)) = registry::resource(&write.on.group_kind) else { return Ok(()) };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &write.on.namespace, &api_resource(resource));
        let target = Target { api, resource: resource.plural, status: resource.plural };
        send(&self.writes, &target, write).await.map(drop)
    }

    async fn close(&self, write: &Write) -> Result<(), WriteError> {
        let api: Api<Service> = Api::namespaced(self.client.clone(), &write.on.namespace);
        let target = Target { api, resource: "services", status: "services" };
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

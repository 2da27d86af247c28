//! Pods that a controller of ours makes for a CollaSet and removes, as the API server does.

use hitless_agent::view::NodePod;
use hitless_api::PodRef;
use hitless_workloads::{Request, Write};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::{Object, PodObject, Refusal, Server};
use crate::checks::Checks;

impl Server {
    pub(super) fn pod_of_colla_set(&mut self, write: &Write, checks: &mut Checks) -> Result<Option<Object>, Refusal> {
        match &write.request {
            Request::Create(manifest) => self.make_pod(&write.on.namespace, manifest.clone(), checks),
            Request::Delete { resource_version } => {
                let known = self.very_pod(write)?;
                if known.view.resource_version != *resource_version {
                    return Err(Refusal::Conflict);
                }
                checks.deleted_by_us(self, &known.view);
                if known.view.node.is_none() {
                    self.remove_pod(checks, &write.on.uid);
                } else {
                    self.change_pod(checks, &write.on.uid, |pod| pod.view.terminating = true);
                }
                Ok(None)
            }
            Request::Look => self.very_pod(write).map(|pod| Some(Object::Pod(pod))),
            Request::Patch(_) | Request::Status(_) => Err(Refusal::Denied("only its agent patches a pod")),
        }
    }

    fn very_pod(&self, write: &Write) -> Result<PodObject, Refusal> {
        self.pods.get(write.on.uid.as_str()).cloned().ok_or(Refusal::Conflict)
    }

    fn make_pod(&mut self, namespace: &str, manifest: Value, checks: &mut Checks) -> Result<Option<Object>, Refusal> {
        let Ok(pod) = serde_json::from_value::<Pod>(manifest) else { return Err(Refusal::Denied("no pod")) };
        let mut pod = NodePod::from(&pod);
        let id = &pod.view.id;
        if self.pods.values().any(|known| known.view.id.namespace == namespace && known.view.id.name == id.name) {
            return Err(Refusal::Conflict);
        }
        let made = self.version() + 1;
        pod.view.id = PodRef { namespace: namespace.to_owned(), uid: format!("uid-{made}"), name: id.name.clone() };
        pod.view.created = Some(hitless_agent::instant::whole_seconds(self.stamp()));
        for container in &mut pod.view.containers {
            container.probe_periods = vec![1];
        }
        checks.pod_made(self, &pod.view);
        Ok(Some(Object::Pod(self.put_pod(checks, pod))))
    }
}

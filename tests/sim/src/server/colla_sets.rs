//! Pods that a controller of ours makes for a CollaSet and removes, as the API server does.

use hitless_agent::view::NodePod;
use hitless_api::PodRef;
use hitless_workloads::Write;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::{Object, PodObject, Refusal, Server};

impl Server {
    /// A look at a pod, which is to be the one that was seen.
    pub(super) fn very_pod(&self, write: &Write) -> Result<Option<Object>, Refusal> {
        self.pods.get(write.on.uid.as_str()).cloned().map(|pod| Some(Object::Pod(pod))).ok_or(Refusal::Conflict)
    }

    /// A look at a name, at which no pod of that owner is to be.
    pub(super) fn no_pod(&self, write: &Write, owner_uid: &str) -> Result<Option<Object>, Refusal> {
        let is_it = |pod: &PodObject| {
            let id = &pod.view.id;
            let is_named = id.namespace == write.on.namespace && id.name == write.on.name;
            is_named && pod.view.owner.as_ref().is_some_and(|owner| owner.uid == owner_uid)
        };
        if self.pods.values().any(is_it) { Err(Refusal::Conflict) } else { Ok(None) }
    }

    /// A pod as it is stored when a controller has made it, unless there is one of its name.
    pub(super) fn new_pod(&self, namespace: &str, manifest: Value) -> Result<NodePod, Refusal> {
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
        Ok(pod)
    }
}

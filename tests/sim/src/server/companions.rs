//! Companion pods, made and deleted as the API server does.

use hitless_agent::view::NodePod;
use hitless_api::PodRef;
use hitless_rollout::round::CompanionWrite;
use k8s_openapi::api::core::v1::Pod;

use super::{Object, Refusal, Server};
use crate::checks::Checks;

impl Server {
    pub(super) fn companion(&mut self, write: CompanionWrite, checks: &mut Checks) -> Result<Option<Object>, Refusal> {
        match write {
            CompanionWrite::Create { namespace, manifest, .. } => {
                self.admit_helper(&namespace)?;
                let Ok(pod) = serde_json::from_value::<Pod>(manifest) else { return Err(Refusal::Denied("no pod")) };
                let mut pod = NodePod::from(&pod);
                let id = &pod.view.id;
                if self.pods.values().any(|known| known.view.id.namespace == namespace && known.view.id.name == id.name)
                {
                    return Err(Refusal::Conflict);
                }
                let made = self.version + 1;
                pod.view.id = PodRef { namespace, uid: format!("uid-{made}"), name: id.name.clone() };
                pod.view.created = Some(hitless_agent::instant::whole_seconds(self.stamp()));
                for container in &mut pod.view.containers {
                    container.probe_periods = vec![1];
                }
                Ok(Some(Object::Pod(self.put_pod(checks, pod))))
            }
            CompanionWrite::Delete { pod, resource_version, at_once } => {
                let known = self.pods.get(pod.uid.as_str()).ok_or(Refusal::Gone)?.clone();
                if known.view.resource_version != resource_version {
                    return Err(Refusal::Conflict);
                }
                checks.companion_deleted(self, &known.view);
                if known.view.in_service().is_none() || at_once {
                    self.remove_pod(checks, &pod.uid);
                } else {
                    self.change_pod(checks, &pod.uid, |pod| pod.view.terminating = true);
                }
                Ok(None)
            }
        }
    }
}

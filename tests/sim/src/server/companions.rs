//! Companion pods, made and deleted as the API server does.

use hitless_rollout::round::CompanionWrite;

use super::{Object, Refusal, Server};
use crate::checks::Checks;

impl Server {
    pub(super) fn companion(&mut self, write: CompanionWrite, checks: &mut Checks) -> Result<Option<Object>, Refusal> {
        match write {
            CompanionWrite::Create { namespace, manifest, .. } => {
                self.admit_helper(&namespace)?;
                let pod = self.new_pod(&namespace, manifest)?;
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

//! What keeps a container from running, and whether the kubelet's next attempt may help.

use hitless_api::pod::ContainerView;

/// What keeps a new container from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble<'p> {
    /// The kubelet's reason, e.g. `CrashLoopBackOff`.
    pub reason: &'p str,
    /// The container, and the kubelet's words, for people.
    pub words: String,
    /// Whether its next attempt may help.
    pub repeats: bool,
}

impl Trouble<'_> {
    /// The container has run, and ended.
    pub(crate) fn is_crash(&self) -> bool {
        self.reason == CRASHES
    }
}

const CRASHES: &str = "CrashLoopBackOff";

/// Of a container that waits for this reason and is of the new version; `None`: it may be started any moment.
///
/// | Reason | The next attempt helps |
/// | --- | --- |
/// | `CrashLoopBackOff` | where the process ends by itself: what it found, such as a lease of the one before, may be gone |
/// | the image can't be pulled | where the registry does not answer; not where it says no |
/// | the runtime can't make or start it | where the runtime is in trouble; not where the image has no such program |
/// | a ConfigMap, a Secret or a key of one is not there | it may come; the version before would not start without it either |
/// | the name or the policy is wrong, or the image's user is not one that the pod allows | no |
pub(super) fn of(container: &ContainerView) -> Option<Trouble<'_>> {
    let status = container.status.as_ref()?;
    let reason = status.waiting.as_deref()?;
    let said = status.trouble.as_deref().unwrap_or_default();
    let repeats = match reason {
        CRASHES => !has_no_program(said) || !STARTS.iter().any(|start| said.starts_with(start)),
        "CreateContainerError" | "RunContainerError" => !has_no_program(said),
        "ErrImagePull" | "ImagePullBackOff" | "ImageInspectError" | "RegistryUnavailable" => !contains(said, &REFUSALS),
        "CreateContainerConfigError" => !contains(said, &IMAGE_USER),
        "ErrImageNeverPull" | "InvalidImageName" => false,
        _ => return None,
    };
    Some(Trouble { reason, words: words(container, reason, said), repeats })
}

/// Reasons of a container that ended because the runtime could not start it. Only then its message is the runtime's.
const STARTS: [&str; 2] = ["StartError", "ContainerCannotRun"];

/// What registries say of an image that is not there, or not for this pod.
const REFUSALS: [&str; 6] =
    ["not found", "manifest unknown", "unauthorized", "authentication required", "denied", "no match for platform"];

/// What the kubelet says of an image whose user the pod does not allow (`verifyRunAsNonRoot`).
const IMAGE_USER: [&str; 2] = ["runasnonroot", "non-root"];

/// What runtimes say of a program that is not in the image, or can't be run.
fn has_no_program(said: &str) -> bool {
    contains(
        said,
        &["executable file not found", "no such file or directory", "exec format error", "permission denied"],
    )
}

fn contains(said: &str, words: &[&str]) -> bool {
    let said = said.to_lowercase();
    words.iter().any(|word| said.contains(word))
}

fn words(container: &ContainerView, reason: &str, said: &str) -> String {
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    format!("container {}: {reason}{said}", container.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::pod::PodView;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    fn repeats(state: &Value, last: &Value) -> Option<bool> {
        let status = json!({"name": "web", "image": "", "imageID": "", "ready": false, "restartCount": 2, "state": state,
            "lastState": last});
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "web"}]},
            "status": {"containerStatuses": [status]}});
        let pod = PodView::from(&serde_json::from_value::<Pod>(pod).unwrap());
        of(&pod.containers[0]).map(|trouble| trouble.repeats)
    }

    #[test]
    fn what_the_kubelet_can_mend_by_trying_again_is_its_to_try() {
        let waiting = |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
        let ended =
            |reason: &str, message: &str| json!({"terminated": {"exitCode": 1, "reason": reason, "message": message}});
        let exited = ended("Error", "stat /state/lease: permission denied");
        let crashes = waiting("CrashLoopBackOff", "back-off 10s");
        assert_eq!(repeats(&crashes, &exited), Some(true), "the application's own words");
        assert_eq!(
            repeats(&crashes, &ended("StartError", "exec: \"web\": executable file not found in $PATH")),
            Some(false)
        );
        assert_eq!(repeats(&crashes, &ended("StartError", "context deadline exceeded")), Some(true));
        for (reason, message, expected) in [
            ("ErrImagePull", "web:v2: not found", false),
            ("ImagePullBackOff", "Back-off pulling image: 401 Unauthorized", false),
            ("ErrImagePull", "dial tcp: i/o timeout", true),
            ("CreateContainerError", "name is reserved", true),
            ("RunContainerError", "exec format error", false),
            ("CreateContainerConfigError", "secret \"a\" not found", true),
            ("CreateContainerConfigError", "container has runAsNonRoot and image will run as root", false),
            ("InvalidImageName", "", false),
        ] {
            assert_eq!(repeats(&waiting(reason, message), &exited), Some(expected), "{reason}: {message}");
        }
        assert_eq!(repeats(&waiting("ContainerCreating", ""), &exited), None);
    }
}

//! What is said of pods that are not well.

use hitless_api::pod::PodView;
use hitless_api::{Phase, PodRef};

use super::report::State;

/// What the kubelet says of containers that do not run, or are not ready, while the pod's operation waits for them.
pub(super) fn kubelet(pod: &PodView, state: State) -> String {
    let waits = match state {
        State::Running(Phase::Operating | Phase::Verifying) => true,
        State::Running(_) | State::UpToDate | State::Waiting | State::Reserved | State::Ended(_) => false,
    };
    if waits { containers(pod).unwrap_or_default() } else { String::new() }
}

fn containers(pod: &PodView) -> Option<String> {
    pod.containers.iter().find_map(|container| {
        let status = container.status.as_ref()?;
        let words: Vec<&str> = status.waiting.iter().map(String::as_str).chain(status.trouble.as_deref()).collect();
        if !words.is_empty() {
            return Some(format!("kubelet: {}: {}", container.name, words.join(": ")));
        }
        let runs_unready = !status.ready && status.running_since.is_some();
        runs_unready.then(|| format!("kubelet: {} runs and is not ready", container.name))
    })
}

/// That the pod is not ready, and what the kubelet says of it.
pub(super) fn not_ready(pod: &PodView) -> Option<String> {
    let said = containers(pod).map(|words| format!("; {words}")).unwrap_or_default();
    (!pod.ready()).then(|| format!("not ready{said}"))
}

/// What can be done for a pod of a halted workload that is not ready, which nobody operates any more.
pub(super) fn dead(pod: &PodView, not_ready: &str) -> String {
    let PodRef { namespace, name, .. } = &pod.id;
    format!(
        "{not_ready}; if it does not get ready, its owner makes a pod of the version before in its place: kubectl delete pod -n {namespace} \
         {name}"
    )
}

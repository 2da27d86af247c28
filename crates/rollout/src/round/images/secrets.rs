//! Pull secrets: a pod keeps those that it was made with (docs/contract.md#restart-annotations).

use hitless_api::PullIdentity;
use hitless_api::pod::PodView;
use hitless_workloads::{PodIntent, Template};

use super::{Images, UNFETCHED_AFTER, pulls};
use crate::prefetch::{PrefetchState, PrefetchView, Pull};

/// Words of registries for who may not pull, in lower case.
const UNAUTHORIZED: [&str; 4] = ["unauthorized", "authentication required", "denied", "forbidden"];

impl<'a> Images<'a> {
    /// Why the pod may not pull what the operation starts, and new pods may: they have other pull secrets. Those of the pod are of the day on
    /// which it was made.
    pub(in crate::round) fn old_secrets(
        &self,
        pod: &PodView,
        intent: &PodIntent,
        template: Option<&Template>,
    ) -> Option<String> {
        // Where the template names some, new pods have no others.
        let of_template = &template?.content()["spec"]["imagePullSecrets"];
        let PullIdentity { secrets, .. } = &pod.pull_identity;
        if of_template.as_array().is_some_and(|named| !named.is_empty()) || intent.operation.containers.is_empty() {
            return None;
        }
        let given = self.given(pod).filter(|given| given.secrets != *secrets)?;
        let names = given.secrets.join(", ");
        if secrets.is_empty() {
            let words = format!("pod {} was made before its service account had pull secrets ({names})", pod.id.name);
            return Some(words);
        }
        let (pull, said) = pulls(pod, intent).find_map(|pull| {
            let said = self.unauthorized(&pull)?;
            Some((pull, said))
        })?;
        Some(format!(
            "pod {} can't pull {} with the pull secrets that its service account had when it was made ({said}); new pods have others ({names})",
            pod.id.name, pull.image
        ))
    }

    /// What is fetched beside the pull, so that it shows which pull secrets new pods have: registries have refused it to those of the pod.
    pub(in crate::round) fn of_new_pods(&self, pull: &Pull) -> Option<Pull> {
        let other = without_secrets(pull);
        (!pull.identity.secrets.is_empty() && self.unauthorized(pull).is_some()).then_some(other)
    }

    /// What admission gave the latest prefetch pod of the namespace and service account that asked for no pull secrets.
    fn given(&self, pod: &PodView) -> Option<&'a PullIdentity> {
        let is_like = |prefetch: &&PrefetchView| {
            let account = prefetch.given.as_ref().map(|given| &given.service_account);
            prefetch.pod.namespace == pod.id.namespace && account == Some(&pod.pull_identity.service_account)
        };
        let like = self.snapshot.prefetches.iter().map(|prefetch| &**prefetch).filter(is_like);
        like.max_by_key(|prefetch| (prefetch.created, &prefetch.pod.name))?.given.as_ref()
    }

    /// That registries refuse the image to the pull secrets, in several attempts, in their words.
    fn unauthorized(&self, pull: &Pull) -> Option<&'a str> {
        let attempts = self.attempts(&pull.key());
        let is_sure = attempts.first().is_some_and(|latest| latest.attempt >= UNFETCHED_AFTER);
        if !is_sure || attempts.iter().any(|each| each.is_fetched()) {
            return None;
        }
        attempts.iter().find_map(|each| match &each.state {
            PrefetchState::Failed { message, .. } => {
                let said = message.to_lowercase();
                UNAUTHORIZED.iter().any(|word| said.contains(word)).then_some(message.as_str())
            }
            PrefetchState::NotBegun
            | PrefetchState::Pulling
            | PrefetchState::Fetched { .. }
            | PrefetchState::Rejected { .. } => None,
        })
    }
}

/// The same pull as a new pod makes it whose template names no pull secrets.
pub(in crate::round) fn without_secrets(pull: &Pull) -> Pull {
    let identity = PullIdentity { secrets: Vec::new(), ..pull.identity.clone() };
    Pull { identity, ..pull.clone() }
}

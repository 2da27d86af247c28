//! Pull secrets: a pod keeps those that it was made with (docs/contract.md#restart-annotations).

use std::collections::HashMap;
use std::sync::Arc;

use hitless_api::PullIdentity;
use hitless_api::pod::PodView;
use hitless_workloads::{PodIntent, Template};

use crate::prefetch::{PrefetchState, PrefetchView, Pull};
use crate::round::facts::images::{Images, UNFETCHED_AFTER, pulls};

/// Words of registries for who may not pull, in lower case.
const UNAUTHORIZED: [&str; 4] = ["unauthorized", "authentication required", "denied", "forbidden"];

impl<'a> Images<'a> {
    /// Why the pod may not pull what the operation starts, and new pods may: they have other pull secrets. Those of the pod are of the day on
    /// which it was made.
    pub(crate) fn old_secrets(&self, pod: &PodView, intent: &PodIntent, template: &Template) -> Option<String> {
        let PullIdentity { service_account, secrets } = &pod.pull_identity;
        let given = *self.given.get(&(pod.id.namespace.as_str(), service_account.as_deref()))?;
        // Where the template names some, new pods have no others.
        let of_template = template.content()["spec"]["imagePullSecrets"].as_array();
        let names_some = of_template.is_some_and(|named| !named.is_empty());
        if given.is_empty() || given == secrets.as_slice() || names_some || intent.operation.containers.is_empty() {
            return None;
        }
        let names = given.join(", ");
        if secrets.is_empty() {
            return Some(format!("pod {} was made before its service account had pull secrets ({names})", pod.id.name));
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
    pub(crate) fn of_new_pods(&self, pull: &Pull) -> Option<Pull> {
        without_secrets(pull).filter(|_| self.unauthorized(pull).is_some())
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

/// The same pull as a new pod makes it whose template names no pull secrets; `None`: it is no other.
pub(crate) fn without_secrets(pull: &Pull) -> Option<Pull> {
    let identity = || PullIdentity { secrets: Vec::new(), ..pull.identity.clone() };
    (!pull.identity.secrets.is_empty()).then(|| Pull { identity: identity(), ..pull.clone() })
}

/// What admission gave the latest prefetch pod that asked for no pull secrets, by namespace and service account.
pub(crate) fn given(prefetches: &[Arc<PrefetchView>]) -> HashMap<(&str, Option<&str>), &[String]> {
    let mut oldest_first: Vec<&PrefetchView> = prefetches.iter().map(|prefetch| &**prefetch).collect();
    oldest_first.sort_by_key(|prefetch| (prefetch.created, &prefetch.pod.name));
    let given = oldest_first.into_iter().filter_map(|prefetch| {
        let PullIdentity { service_account, secrets } = prefetch.given.as_ref()?;
        Some(((prefetch.pod.namespace.as_str(), service_account.as_deref()), secrets.as_slice()))
    });
    given.collect()
}

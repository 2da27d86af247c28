//! Other images, set by the agent; the kubelet then replaces the containers.

mod trouble;

use std::collections::BTreeMap;

use hitless_api::grant::ImageChange;
use hitless_api::names::annotations;
use hitless_api::pod::{ContainerView, PodView};
use hitless_api::{Change, Grant, JsonPatch};
use jiff::Timestamp;

use super::{Baseline, Deed, Effect, Progress, Reason, metadata, names, runs};
use crate::decision::Direction;
use crate::view::NodePod;
pub use trouble::Trouble;

/// Whether `image` is `granted`, or `granted` with a digest behind it that admission has added when the image was set.
fn is_form_of(image: &str, granted: &str) -> bool {
    let is_digest = |rest: &str| rest.strip_prefix("@sha256:").is_some_and(|digest| !digest.contains('@'));
    image == granted || !granted.contains('@') && image.strip_prefix(granted).is_some_and(is_digest)
}

/// Whether a container with this image has the one after the change, `None` if neither that nor the one before. One of them may be the
/// other one with a digest: what is equal to the letter goes first.
fn is_changed(image: &str, change: &ImageChange) -> Option<bool> {
    if image == change.to || image == change.from {
        return Some(image == change.to);
    }
    is_form_of(image, &change.to).then_some(true).or_else(|| is_form_of(image, &change.from).then_some(false))
}

/// Images, labels and annotations of a grant.
#[derive(Clone, Copy, Debug)]
pub struct Images<'a> {
    grant: &'a Grant,
}

impl<'a> Images<'a> {
    pub(super) const fn new(grant: &'a Grant) -> Self {
        Self { grant }
    }

    pub(super) fn flaw(self) -> Option<Reason<'static>> {
        let changes_none = self.grant.containers.values().all(|change| change.from == change.to);
        let message = || "the grant changes no image, so the kubelet would restart nothing".to_owned();
        changes_none.then(|| ("NoChange", message()))
    }

    pub(super) fn refusal(self, pod: &PodView) -> Option<Reason<'static>> {
        let grant = self.grant;
        if let Some(name) = grant.containers.keys().find(|name| pod.container(name).is_none()) {
            Some(("UnknownContainer", format!("the pod has no container {name}")))
        } else if let Some((name, image)) = grant.containers.iter().find_map(|(name, change)| {
            let image = &pod.container(name)?.image;
            is_changed(image, change).is_none().then_some((name, image))
        }) {
            Some(("ImageChanged", format!("container {name} has image {image}, which the grant does not know")))
        } else {
            metadata::refusal(grant, pod)
        }
    }

    /// All containers of the grant taken together.
    pub(super) fn progress(self, pod: &PodView) -> Progress {
        let other = |message: String| Progress::Other("ImageChanged", message);
        let mut patched = None;
        for (name, change) in &self.grant.containers {
            let Some(container) = pod.container(name) else {
                return other(format!("the pod has no container {name}"));
            };
            let Some(is_to) = is_changed(&container.image, change) else {
                return other(format!("container {name} has image {}", container.image));
            };
            if patched.replace(is_to).is_some_and(|before| before != is_to) {
                // The patch sets all of them at once.
                return other("some containers have the image before, some the one after".to_owned());
            }
        }
        if patched == Some(true) { Progress::Patched } else { Progress::NotPatched }
    }

    /// JSON patch of the pod that sets images, labels and annotations of the grant at once, and fails unless the pod is still the
    /// one that was looked at: a request that arrives late must not replace containers of a pod that is back in service. What is
    /// changed is tested by value too. A container that the pod does not have is left out; decisions have excluded that.
    pub(super) fn patch(self, pod: &NodePod, direction: Direction) -> JsonPatch {
        let grant = self.grant;
        let version = pod.view.resource_version.as_str();
        let mut patch = JsonPatch::of(&pod.view.id.uid).test(&["metadata", "resourceVersion"], version);
        for container in &pod.view.containers {
            let Some(change) = grant.containers.get(&container.name) else { continue };
            let (list, index) = container.place.path();
            let index = index.to_string();
            let image = ["spec", list, &index, "image"];
            let (from, to) = direction.order(change.from.as_str(), change.to.as_str());
            // As the pod has it.
            let from = if is_form_of(&container.image, from) { container.image.as_str() } else { from };
            patch = patch
                .test(&["spec", list, &index, "name"], container.name.as_str())
                .test(&image, from)
                .replace(&image, to);
        }
        let replaced = (direction == Direction::Forward).then(|| self.ids(&pod.view));
        metadata::patch(patch, grant, pod, direction, replaced)
    }

    /// The annotation that names the containers which run now: the patch is to end them. They need not be those of the grant, as one may
    /// have crashed since; and whoever looks later has no grant any more.
    fn ids(self, pod: &PodView) -> (String, Change) {
        let ids = Deed::Images(self).container_ids(pod).filter(|(_, id)| !id.is_empty());
        let ids: BTreeMap<&str, &str> = ids.collect();
        (annotations::REPLACED.to_owned(), Change { from: None, to: Some(serde_json::json!(ids).to_string()) })
    }

    pub(super) fn is_as_granted(self, pod: &PodView) -> bool {
        self.containers(pod).all(|container| {
            let id = container.status.as_ref().map_or("", |status| &status.container_id);
            self.grant.before.get(&container.name).map_or("", String::as_str) == id
        })
    }

    pub(super) fn effect(self, pod: &PodView, baseline: Baseline<'_>) -> Effect {
        let missing = || self.containers(pod).filter(|container| !self.is_replaced(pod, container, baseline));
        let is_there = |container: &&ContainerView| container.status.as_ref().is_some_and(runs) || !is_observed(pod);
        let (old, missing) = (names(missing().filter(is_there)), names(missing()));
        if !old.is_empty() {
            return Effect::Stopping(old);
        }
        if !missing.is_empty() {
            return Effect::Replacing(missing);
        }
        let unready = names(self.containers(pod).filter(|container| !is_ready(container)));
        if unready.is_empty() { Effect::Ready } else { Effect::Starting(unready) }
    }

    /// When the new containers were started that run now.
    pub(super) fn starts<'p>(
        self,
        pod: &'p PodView,
        baseline: Baseline<'p>,
    ) -> impl Iterator<Item = Timestamp> + use<'a, 'p> {
        let replaced = self.containers(pod).filter(move |container| self.is_replaced(pod, container, baseline));
        replaced.filter_map(|container| container.status.as_ref()?.running_since)
    }

    /// When the last of the new containers was started. Of one that does not run nobody knows it.
    pub(super) fn last_start(self, pod: &PodView, baseline: Baseline<'_>) -> Option<Timestamp> {
        let starts: Vec<Timestamp> = self.starts(pod, baseline).collect();
        (starts.len() == self.containers(pod).count()).then(|| starts.into_iter().max()).flatten()
    }

    pub(super) fn trouble<'p>(self, pod: &'p PodView, baseline: Baseline<'_>, is_late: bool) -> Option<Trouble<'p>> {
        let all = self.containers(pod).filter(|_| is_observed(pod));
        let all = all.filter_map(|container| Some((container, trouble::of(container)?)));
        // An old container that crashes says nothing of the new one. Of what can't be started nobody knows which it is.
        let counts = |(container, trouble): &(&ContainerView, Trouble<'_>)| {
            if trouble.is_crash() { self.is_replaced(pod, container, baseline) } else { is_late }
        };
        all.filter(counts).map(|(_, trouble)| trouble).min_by_key(|trouble| trouble.repeats)
    }

    pub(super) fn not_reverted(
        self,
        pod: &PodView,
        undone: Option<&BTreeMap<String, String>>,
        since: Timestamp,
        is_late: bool,
    ) -> String {
        names(self.containers(pod).filter(|container| !self.is_back(pod, container, undone, since, is_late)))
    }

    fn containers<'p>(self, pod: &'p PodView) -> impl Iterator<Item = &'p ContainerView> + use<'a, 'p> {
        pod.containers.iter().filter(move |container| self.has(container))
    }

    pub(super) fn has(self, container: &ContainerView) -> bool {
        self.grant.containers.contains_key(&container.name)
    }

    /// The container is another one than the one that was operated, and the kubelet has seen the new image.
    fn is_replaced(self, pod: &PodView, container: &ContainerView, baseline: Baseline<'_>) -> bool {
        let Some(status) = &container.status else { return false };
        let name = &container.name;
        let known = |ids: &BTreeMap<String, String>| ids.get(name) == Some(&status.container_id);
        let is_old = known(&self.grant.before) || baseline.ids.is_some_and(known) || known(&pod.containers_to_end());
        // The old container may have crashed after the grant and so have another id; then it runs since before the pod left.
        let started_late_enough = match (status.running_since, baseline.out_since) {
            (Some(running), Some(out_since)) => running >= out_since,
            (None, _) | (_, None) => true,
        };
        !status.container_id.is_empty() && !is_old && started_late_enough && is_observed(pod)
    }

    /// The container with the image before runs and is ready. The kubelet describes the one with the image after, which may be
    /// ready too, until that has stopped, even when it has seen the patch back.
    fn is_back(
        self,
        pod: &PodView,
        container: &ContainerView,
        undone: Option<&BTreeMap<String, String>>,
        since: Timestamp,
        is_late: bool,
    ) -> bool {
        let Some(status) = &container.status else { return false };
        let (name, id) = (&container.name, &status.container_id);
        // Patched back before the kubelet had touched it.
        let is_original = self.grant.before.get(name) == Some(id) || pod.containers_to_end().get(name) == Some(id);
        let is_new = match undone {
            Some(before) => before.get(name) != Some(id),
            // The one that is being undone may have been started in the very moment in which that was decided.
            None => status.running_since.is_some_and(|running| running > since) || is_late,
        };
        is_ready(container) && is_observed(pod) && (is_original || is_new)
    }
}

/// The kubelet has taken note of the pod's spec as it is now, as far as it tells.
const fn is_observed(pod: &PodView) -> bool {
    pod.observed_generation == 0 || pod.observed_generation >= pod.generation
}

fn is_ready(container: &ContainerView) -> bool {
    container.status.as_ref().is_some_and(|status| status.ready && runs(status))
}

#[cfg(test)]
mod tests;

//! Whether the images that an operation needs are on the pod's node: nothing leaves service, and nothing is held, for one that
//! is not (docs/contract.md 30).

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use hitless_api::PullPolicy;
use hitless_api::grant::ImageChange;
use hitless_api::pod::PodView;
use hitless_workloads::{Obstacle, PodIntent, image};
use jiff::{SignedDuration, Timestamp};

use super::wait_reason::{NotFetched, WaitReason};
use crate::prefetch::{PrefetchState, PrefetchView, Pull};
use crate::snapshot::{NodeUnfit, Snapshot};

/// Where the registry is asked at every start, it has to have answered so recently.
const FRESH: SignedDuration = SignedDuration::from_secs(30);

/// A kubelet that has made no sandbox for a prefetch pod after so long is worth a word.
const SANDBOX_WITHIN: SignedDuration = SignedDuration::from_secs(20);

/// What is known of images on nodes.
pub(super) struct Images<'a> {
    snapshot: &'a Snapshot,
    now: Timestamp,
    /// The attempts of each pull by [`Pull::key`], the latest first.
    attempts: HashMap<&'a str, Vec<&'a PrefetchView>>,
    /// Only made if it is asked for: it takes all pods.
    by_node: OnceCell<HashMap<&'a str, Vec<&'a PodView>>>,
}

/// What is known of an image that has to be on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known<'a> {
    /// It is there.
    There,
    /// It is there, but the registry is asked at every start, and its last answer is old.
    Old,
    /// A prefetch pod pulls it.
    Pulling,
    /// A prefetch pod could not pull it, in the kubelet's words; a later one may be trying again.
    Failed { reason: &'a str, message: &'a str },
    /// Nobody says that it is there.
    Unknown,
}

impl<'a> Images<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let mut attempts: HashMap<&str, Vec<&PrefetchView>> = HashMap::new();
        for each in &snapshot.prefetches {
            attempts.entry(each.key.as_str()).or_default().push(each);
        }
        for attempts in attempts.values_mut() {
            attempts.sort_by_key(|each| Reverse(each.attempt));
        }
        Self { snapshot, now, attempts, by_node: OnceCell::new() }
    }

    /// The attempts of a pull, the latest first.
    pub(super) fn attempts(&self, key: &str) -> &[&'a PrefetchView] {
        self.attempts.get(key).map_or(&[], Vec::as_slice)
    }

    /// The first image that has to be on the pod's node and is not known to be there; else the first whose registry has to be
    /// asked again.
    fn first_missing(&self, pod: &PodView, intent: &PodIntent) -> Option<(Pull, Known<'a>)> {
        let known = pulls(pod, intent).map(|pull| {
            let known = self.known(&pull);
            (pull, known)
        });
        let missing = known.filter(|(_, known)| *known != Known::There);
        missing.min_by_key(|(_, known)| *known == Known::Old)
    }

    /// The operation with images by digest, where that is needed. `chosen` is the digest that others of its workload have been
    /// brought to with a reference.
    pub(super) fn pinned(
        &self,
        pod: &PodView,
        intent: &PodIntent,
        mut chosen: impl FnMut(&str) -> Option<String>,
    ) -> Option<PodIntent> {
        intent.pinned(pod, self.now, |container, reference| {
            let pull = Pull::of(pod, container, reference)?;
            match pull.policy {
                PullPolicy::Always => chosen(reference).or_else(|| self.first_digest(&pull)),
                PullPolicy::IfNotPresent | PullPolicy::Never => self.digest_on_node(&pull),
            }
        })
    }

    /// The digest that was fetched first, on whatever node: the tag may have got another one since.
    fn first_digest(&self, pull: &Pull) -> Option<String> {
        let same =
            self.snapshot.prefetches.iter().filter(|each| {
                each.image == pull.image && each.pod.namespace == pull.namespace && each.digest().is_some()
            });
        let first = same.min_by_key(|each| (each.created, &each.pod.name))?;
        first.digest().map(ToOwned::to_owned)
    }

    /// The digest that the reference means on the pull's node.
    fn digest_on_node(&self, pull: &Pull) -> Option<String> {
        let canonical = image::canonical(&pull.image);
        let node = self.snapshot.nodes.get(&pull.node);
        let said = || node?.images.digest(&canonical).map(ToOwned::to_owned);
        let fetched = || self.attempts(&pull.key()).iter().find_map(|each| each.digest()).map(ToOwned::to_owned);
        let runs = || {
            let mut containers = self.pods_of(&pull.node).flat_map(|pod| &pod.containers);
            containers.find_map(|container| image::running_as(container, &pull.image))
        };
        said().or_else(fetched).or_else(|| runs().map(ToOwned::to_owned))
    }

    /// The attempts that tell of the image, the latest first. What was fetched by tag is as good as by the digest that came, unless
    /// the runtime names another repository's: the digests of one image may differ between repositories.
    fn telling(&self, pull: &Pull) -> Vec<&'a PrefetchView> {
        let mut attempts = self.attempts(&pull.key()).to_vec();
        if let Some(digest) = image::digest_of(&pull.image) {
            let by_tag = Pull { image: image::unpinned(&pull.image), ..pull.clone() };
            let by_tag = self.attempts(&by_tag.key()).iter().filter(|each| match &each.state {
                PrefetchState::NotBegun | PrefetchState::Pulling => true,
                PrefetchState::Fetched { image_id, .. } => {
                    image::digest_of(image_id) == Some(digest) && image::is_same_repository(image_id, &pull.image)
                }
                PrefetchState::Failed { .. } => false,
            });
            attempts.extend(by_tag);
        }
        attempts
    }

    /// What is known of the image.
    pub(super) fn known(&self, pull: &Pull) -> Known<'a> {
        let attempts = self.telling(pull);
        let asked = pull.policy == PullPolicy::Always;
        if !asked {
            let is_fetched = attempts.iter().any(|attempt| attempt.is_fetched());
            if is_fetched || self.is_there(&pull.node, &image::canonical(&pull.image)) {
                return Known::There;
            }
        }
        let Some(latest) = attempts.first() else {
            // Who can't see what nodes have takes it to be there.
            return if self.snapshot.unknown.images { Known::There } else { Known::Unknown };
        };
        match latest.state {
            PrefetchState::Fetched { at, .. } => {
                let is_fresh = at.is_some_and(|at| self.now.duration_since(at) <= FRESH);
                if is_fresh { Known::There } else { Known::Old }
            }
            PrefetchState::Failed { .. } | PrefetchState::NotBegun | PrefetchState::Pulling => {
                attempts.iter().find_map(|attempt| failure(attempt)).unwrap_or(Known::Pulling)
            }
        }
    }

    fn is_there(&self, node: &str, canonical: &str) -> bool {
        self.snapshot.nodes.get(node).is_some_and(|node| node.images.has(canonical)) || self.runs(node, canonical)
    }

    /// A container of any pod of the node runs it.
    fn runs(&self, node: &str, canonical: &str) -> bool {
        let containers = self.pods_of(node).flat_map(|pod| &pod.containers);
        containers.flat_map(image::proven).any(|name| name == canonical)
    }

    fn pods_of(&self, node: &str) -> impl Iterator<Item = &'a PodView> + use<'a, '_> {
        let by_node = self.by_node.get_or_init(|| {
            let mut by_node: HashMap<&str, Vec<&PodView>> = HashMap::new();
            for pod in &self.snapshot.pods {
                if let Some(node) = &pod.node {
                    by_node.entry(node.as_str()).or_default().push(pod);
                }
            }
            by_node
        });
        by_node.get(node).into_iter().flatten().copied()
    }

    /// What a pod waits for whose image is not there. Nothing where the registry's last answer is only old: it is asked again once
    /// the rules have let the pod go.
    pub(super) fn waiting(&self, pod: &PodView, intent: &PodIntent) -> Option<WaitReason> {
        let (pull, known) = self.first_missing(pod, intent)?;
        match known {
            Known::There | Known::Old => None,
            Known::Pulling => Some(self.under_way(pull)),
            Known::Failed { reason, message } => {
                let why = NotFetched::Failed { reason: reason.to_owned(), message: message.to_owned() };
                Some(WaitReason::ImageNotFetched { image: pull.image, node: pull.node, why })
            }
            Known::Unknown => Some(self.not_begun(pull)),
        }
    }

    /// A container that would get the name that it has: nobody could tell the digest.
    pub(super) fn without_digest(&self, intent: &PodIntent) -> Option<WaitReason> {
        let operation = &intent.operation;
        if operation.annotations.is_empty() || self.snapshot.unknown.images {
            return None;
        }
        let (container, _) = operation.containers.iter().find(|(_, change)| change.from == change.to)?;
        Some(WaitReason::Obstacle(Obstacle::DigestUnknown { container: container.clone() }))
    }

    /// The same once the rules have let it go.
    pub(super) fn waiting_for_answer(&self, pod: &PodView, intent: &PodIntent) -> Option<WaitReason> {
        let (pull, _) = self.first_missing(pod, intent)?;
        Some(self.not_begun(pull))
    }

    /// What is said of a pull that has not ended.
    fn under_way(&self, pull: Pull) -> WaitReason {
        let stuck = self.telling(&pull).into_iter().next().filter(|attempt| {
            attempt.state == PrefetchState::NotBegun && begins_by(attempt).is_some_and(|at| at <= self.now)
        });
        match stuck.map(|attempt| NotFetched::NoSandbox(attempt.pod.name.clone())) {
            Some(why) => WaitReason::ImageNotFetched { image: pull.image, node: pull.node, why },
            None => pulling(pull),
        }
    }

    fn not_begun(&self, pull: Pull) -> WaitReason {
        let refused = || self.snapshot.own_writes.refused.get(&pull.key()).cloned().map(NotFetched::Refused);
        match self.unfit(&pull).map(NotFetched::Node).or_else(refused) {
            Some(why) => WaitReason::ImageNotFetched { image: pull.image, node: pull.node, why },
            None => pulling(pull),
        }
    }

    /// Why nothing is fetched to its node.
    pub(super) fn unfit(&self, pull: &Pull) -> Option<NodeUnfit> {
        self.snapshot.nodes.get(&pull.node)?.unfit
    }
}

/// What the operation needs on the pod's node, container by container. A container that gets the name that it has is one whose
/// digest is asked for first; nothing is asked for an operation that nobody wishes. Of a pod that leaves for good it is what the pod in
/// its place will have.
pub(super) fn pulls<'p>(pod: &'p PodView, intent: &'p PodIntent) -> impl Iterator<Item = Pull> + 'p {
    let is_wished = !intent.operation.annotations.is_empty();
    let wished = pulls_of(pod, &intent.operation.containers).filter(move |_| is_wished);
    wished.chain(pulls_of(pod, &intent.operation.fetch))
}

/// The same for what was granted.
pub(super) fn pulls_of<'p>(
    pod: &'p PodView,
    containers: &'p BTreeMap<String, ImageChange>,
) -> impl Iterator<Item = Pull> + 'p {
    containers.iter().filter_map(|(name, change)| Pull::of(pod, pod.container(name)?, &change.to))
}

fn pulling(pull: Pull) -> WaitReason {
    WaitReason::ImagePulling { image: pull.image, node: pull.node }
}

/// When a kubelet has begun that is well.
pub(super) fn begins_by(attempt: &PrefetchView) -> Option<Timestamp> {
    attempt.created?.saturating_add(SANDBOX_WITHIN).ok()
}

fn failure(attempt: &PrefetchView) -> Option<Known<'_>> {
    match &attempt.state {
        PrefetchState::Failed { reason, message } => Some(Known::Failed { reason, message }),
        PrefetchState::NotBegun | PrefetchState::Pulling | PrefetchState::Fetched { .. } => None,
    }
}

//! Whether the images that an operation needs are on the pod's node: nothing leaves service, and nothing is held, for one that
//! is not (docs/contract.md#images-first).

pub(crate) mod secrets;
mod unfetched;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use hitless_api::PullPolicy;
use hitless_api::grant::ImageChange;
use hitless_api::pod::PodView;
use hitless_workloads::{Obstacle, PodIntent, image};
use jiff::{SignedDuration, Timestamp};

use crate::prefetch::{PrefetchState, PrefetchView, Pull};
use crate::round::facts::refusals::Refusals;
use crate::round::wait_reason::{NotFetched, WaitReason};
use crate::snapshot::{NodePressure, Refusal, Snapshot};

/// Where the registry is asked at every start, it has to have answered so recently.
const FRESH: SignedDuration = SignedDuration::from_secs(30);

/// With the second attempt an image counts as one that no registry has.
const UNFETCHED_AFTER: u32 = 2;

/// A kubelet that has made no sandbox for a prefetch pod after so long is worth a word.
const SANDBOX_WITHIN: SignedDuration = SignedDuration::from_secs(20);

/// After so long nobody waits for it any more.
const NO_SANDBOX_FOR: SignedDuration = SignedDuration::from_secs(60);

/// What is known of images on nodes.
pub(crate) struct Images<'a> {
    snapshot: &'a Snapshot,
    now: Timestamp,
    /// The attempts of each pull by [`Pull::key`], the latest first.
    attempts: HashMap<&'a str, Vec<&'a PrefetchView>>,
    /// What the API server does not accept.
    pub(crate) refusals: Refusals<'a>,
    /// Those that admission has given another image.
    rewritten: Vec<&'a PrefetchView>,
    /// Pull secrets of new pods that ask for none, by namespace and service account.
    given: HashMap<(&'a str, Option<&'a str>), &'a [String]>,
    /// Only made if it is asked for: it takes all pods.
    by_node: OnceCell<HashMap<&'a str, Vec<&'a PodView>>>,
}

/// What is known of an image that has to be on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageState<'a> {
    /// It is there.
    There,
    /// The last answer is old, and is asked for again once the rules have let the pod go: of a registry that is asked at every start,
    /// where the image is there; of an API server that had no room for the pod that would fetch it.
    Old,
    /// A prefetch pod pulls it.
    Pulling,
    /// A prefetch pod could not pull it, in the kubelet's words; a later one may be trying again.
    Failed { reason: &'a str, message: &'a str, attempt: u32 },
    /// Nobody says that it is there.
    Unknown,
}

impl<'a> Images<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let mut attempts: HashMap<&str, Vec<&PrefetchView>> = HashMap::new();
        for each in &snapshot.prefetches {
            attempts.entry(each.key.as_str()).or_default().push(each);
        }
        for attempts in attempts.values_mut() {
            attempts.sort_by_key(|each| Reverse(each.attempt));
        }
        let rewritten =
            snapshot.prefetches.iter().filter(|each| each.rewritten.is_some()).map(|each| &**each).collect();
        let given = secrets::given(&snapshot.prefetches);
        let refusals = Refusals::new(snapshot, now);
        Self { snapshot, now, attempts, refusals, rewritten, given, by_node: OnceCell::new() }
    }

    /// The attempts of a pull, the latest first.
    pub(crate) fn attempts(&self, key: &str) -> &[&'a PrefetchView] {
        self.attempts.get(key).map_or(&[], Vec::as_slice)
    }

    /// The first image that has to be on the pod's node and is not known to be there; else the first whose registry has to be
    /// asked again.
    fn first_missing(&self, pod: &PodView, intent: &PodIntent) -> Option<(Pull, ImageState<'a>)> {
        let known = pulls(pod, intent).map(|pull| {
            let known = self.known(&pull);
            (pull, known)
        });
        let missing =
            known.filter(|(pull, known)| *known != ImageState::There && self.given_up(intent, pull).is_none());
        missing.min_by_key(|(_, known)| *known == ImageState::Old)
    }

    /// Images of which registries have said in several attempts, somewhere, that they don't have them, or nothing.
    pub(crate) fn unfetched(&self) -> BTreeSet<String> {
        let given_up = |attempts: &&Vec<&PrefetchView>| {
            attempts.first().is_some_and(|latest| latest.attempt >= UNFETCHED_AFTER)
                && attempts.iter().any(|each| matches!(each.state, PrefetchState::Failed { .. }))
                && !attempts.iter().any(|each| each.is_fetched())
        };
        self.attempts.values().filter(given_up).filter_map(|attempts| Some(attempts.first()?.image.clone())).collect()
    }

    /// Of a pod that leaves without its next image being there: what was not fetched, and why.
    pub(crate) fn not_fetched(&self, pod: &PodView, intent: &PodIntent) -> Option<(Pull, Cow<'_, str>)> {
        let mut missing = pulls(pod, intent).filter(|pull| self.known(pull) != ImageState::There);
        missing.find_map(|pull| {
            let words = self.given_up(intent, &pull)?;
            Some((pull, words))
        })
    }

    /// The operation with the images that admission gives new pods instead of those that the template names, as far as a prefetch pod has
    /// shown that: a registry's mirror, a digest. Kubernetes would run those, too. Where the node has fetched one, it can be pulled there;
    /// where no prefetch pod finds room, the kubelet pulls what admission has made of the image elsewhere, or in a pod that was turned away.
    pub(crate) fn renamed(&self, pod: &PodView, intent: &PodIntent) -> Option<PodIntent> {
        intent.renamed(pod, |container, reference| {
            let pull = Pull::of(pod, container, reference)?;
            let mut fetched = self.attempts(&pull.key()).iter().filter(|each| each.is_fetched()).peekable();
            if fetched.peek().is_none() && self.given_up(intent, &pull).is_some() {
                return self.rewritten_as(&pull);
            }
            fetched.find_map(|each| each.rewritten.clone())
        })
    }

    /// What admission has made of the image last, in a pod of the same namespace.
    fn rewritten_as(&self, pull: &Pull) -> Option<String> {
        self.last_rewritten(&pull.namespace, &pull.image)?.rewritten.clone()
    }

    /// The prefetch pod that shows it.
    fn last_rewritten(&self, namespace: &str, image: &str) -> Option<&'a PrefetchView> {
        let same = self.rewritten.iter().filter(|each| each.image == image && each.pod.namespace == namespace);
        same.max_by_key(|each| (each.created, &each.pod.name)).copied()
    }

    /// Whether nobody else shows what admission makes of its image in its namespace.
    pub(crate) fn tells_name(&self, prefetch: &PrefetchView) -> bool {
        let last = self.last_rewritten(&prefetch.pod.namespace, &prefetch.image);
        last.is_some_and(|last| last.pod.uid == prefetch.pod.uid)
    }

    /// The operation with images by digest, where that is needed. `chosen` is the digest that others of its workload have been
    /// brought to with a reference.
    pub(crate) fn pinned(
        &self,
        pod: &PodView,
        intent: &PodIntent,
        mut chosen: impl FnMut(&str) -> Option<String>,
    ) -> Option<PodIntent> {
        intent.pinned(pod, self.now, |container, reference| {
            let pull = Pull::of(pod, container, reference)?;
            match pull.policy {
                PullPolicy::Always => {
                    // Where nobody can ask the registry beforehand, a restart is one of the same bytes.
                    let is_same = image::unpinned(&container.image) == image::unpinned(reference);
                    let running = || image::running_digest(container).filter(|_| is_same).map(ToOwned::to_owned);
                    let given_up = || self.given_up(intent, &pull).and_then(|_| running());
                    chosen(reference).or_else(|| self.first_digest(&pull)).or_else(given_up)
                }
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
        let is_under_that_name = |each: &&&PrefetchView| {
            each.rewritten.as_ref() == Some(&pull.image)
                && (each.node == pull.node && each.pod.namespace == pull.namespace && each.is_fetched())
        };
        attempts.extend(self.rewritten.iter().filter(is_under_that_name));
        if let Some(digest) = image::digest_of(&pull.image) {
            let by_tag = Pull { image: image::unpinned(&pull.image), ..pull.clone() };
            let by_tag = self.attempts(&by_tag.key()).iter().filter(|each| match &each.state {
                PrefetchState::NotBegun | PrefetchState::Pulling => true,
                PrefetchState::Fetched { image_id, .. } => {
                    image::digest_of(image_id) == Some(digest) && image::is_same_repository(image_id, &pull.image)
                }
                PrefetchState::Rejected { .. } | PrefetchState::Failed { .. } => false,
            });
            attempts.extend(by_tag);
        }
        attempts
    }

    /// What is known of the image.
    pub(crate) fn known(&self, pull: &Pull) -> ImageState<'a> {
        let attempts = self.telling(pull);
        let asked = pull.policy == PullPolicy::Always;
        if !asked {
            let is_fetched = attempts.iter().any(|attempt| attempt.is_fetched());
            // The kubelet asks which credentials a pod has, also where the image is there (KEP-2535). And what is there under the name in
            // the template may be there for others, and not to be had again from where it came: only a prefetch pod shows what admission makes of it.
            let needs_proof = !pull.identity.secrets.is_empty() || pull.is_other_repository;
            let is_proven = || !needs_proof || self.can_not_fetch(pull);
            if is_fetched || self.is_there(&pull.node, &image::canonical(&pull.image)) && is_proven() {
                return ImageState::There;
            }
        }
        let Some(latest) = attempts.first() else {
            // Who can't see what nodes have takes it to be there.
            return match self.snapshot.unknown.images {
                true => ImageState::There,
                false if self.refusals.had_no_room(pull, &pull.key()) => ImageState::Old,
                false => ImageState::Unknown,
            };
        };
        match latest.state {
            PrefetchState::Fetched { at, .. } => {
                let is_fresh = at.is_some_and(|at| self.now.duration_since(at) <= FRESH);
                if is_fresh { ImageState::There } else { ImageState::Old }
            }
            PrefetchState::Rejected { .. }
            | PrefetchState::Failed { .. }
            | PrefetchState::NotBegun
            | PrefetchState::Pulling => {
                attempts.iter().find_map(|attempt| failure(attempt)).unwrap_or(ImageState::Pulling)
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

    /// What a pod waits for whose image is not there. Nothing where the last answer is only old.
    pub(crate) fn waiting(&self, pod: &PodView, intent: &PodIntent) -> Option<WaitReason> {
        let (pull, known) = self.first_missing(pod, intent)?;
        self.waiting_for(pull, known)
    }

    /// The same of a pod that does not go, but only has its images fetched: without them it has nothing, whoever else would go without.
    pub(crate) fn waiting_to_be_fetched(&self, pod: &PodView, intent: &PodIntent) -> Option<WaitReason> {
        pulls(pod, intent).find_map(|pull| match self.known(&pull) {
            // Nothing was fetched: the API server had no room for the pod that would do it.
            ImageState::Old if self.telling(&pull).is_empty() => Some(self.not_begun(pull)),
            known => self.waiting_for(pull, known),
        })
    }

    fn waiting_for(&self, pull: Pull, known: ImageState<'_>) -> Option<WaitReason> {
        match known {
            ImageState::There | ImageState::Old => None,
            ImageState::Pulling => Some(self.under_way(pull)),
            ImageState::Failed { reason, message, attempt } => {
                let why = NotFetched::Failed { reason: reason.to_owned(), message: message.to_owned(), attempt };
                Some(WaitReason::ImageNotFetched { image: pull.image, node: pull.node, why })
            }
            ImageState::Unknown => Some(self.not_begun(pull)),
        }
    }

    /// A container that would get the name that it has: nobody could tell the digest.
    pub(crate) fn without_digest(&self, intent: &PodIntent) -> Option<WaitReason> {
        let operation = &intent.operation;
        if operation.annotations.is_empty() || self.snapshot.unknown.images {
            return None;
        }
        let (container, _) = operation.containers.iter().find(|(_, change)| change.from == change.to)?;
        Some(WaitReason::Obstacle(Obstacle::DigestUnknown { container: container.clone() }))
    }

    /// The same once the rules have let it go.
    pub(crate) fn waiting_for_answer(&self, pod: &PodView, intent: &PodIntent) -> Option<WaitReason> {
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
        let refused = || self.refusal(&pull, &pull.key()).map(|refusal| NotFetched::Refused(refusal.words.clone()));
        let pressure = self.pressure(&pull).map(|pressure| NotFetched::Pressure(pressure.condition));
        match pressure.or_else(refused) {
            Some(why) => WaitReason::ImageNotFetched { image: pull.image, node: pull.node, why },
            None => pulling(pull),
        }
    }

    /// Why the API server has not accepted the pod that would fetch, where there is none.
    fn refusal(&self, pull: &Pull, key: &str) -> Option<&Refusal> {
        self.refusals
            .of_pull(pull, key)
            .filter(|_| self.attempts(key).is_empty() || self.snapshot.own_writes.refused.contains_key(key))
    }

    /// Why nothing is fetched to its node.
    pub(crate) fn pressure(&self, pull: &Pull) -> Option<NodePressure> {
        self.snapshot.nodes.get(&pull.node)?.pressure
    }
}

/// What the operation needs on the pod's node, container by container. A container that gets the name that it has is one whose
/// digest is asked for first; nothing is asked for an operation that nobody wants. Of a pod that leaves for good it is what the pod in
/// its place will have.
pub(crate) fn pulls<'p>(pod: &'p PodView, intent: &'p PodIntent) -> impl Iterator<Item = Pull> + 'p {
    let is_wanted = !intent.operation.annotations.is_empty();
    let wanted = pulls_of(pod, &intent.operation.containers).filter(move |_| is_wanted);
    wanted.chain(pulls_of(pod, &intent.operation.fetch))
}

/// The same for what was granted.
pub(crate) fn pulls_of<'p>(
    pod: &'p PodView,
    containers: &'p BTreeMap<String, ImageChange>,
) -> impl Iterator<Item = Pull> + 'p {
    containers.iter().filter_map(|(name, change)| Pull::of(pod, pod.container(name)?, &change.to))
}

fn pulling(pull: Pull) -> WaitReason {
    WaitReason::ImagePulling { image: pull.image, node: pull.node }
}

/// When a kubelet has begun that is well.
pub(crate) fn begins_by(attempt: &PrefetchView) -> Option<Timestamp> {
    attempt.created?.saturating_add(SANDBOX_WITHIN).ok()
}

/// When nobody waits any more for a kubelet that has not begun.
pub(crate) fn gives_up_at(attempt: &PrefetchView) -> Option<Timestamp> {
    attempt.created?.saturating_add(NO_SANDBOX_FOR).ok()
}

fn failure(attempt: &PrefetchView) -> Option<ImageState<'_>> {
    match &attempt.state {
        PrefetchState::Rejected { reason, message } | PrefetchState::Failed { reason, message } => {
            Some(ImageState::Failed { reason, message, attempt: attempt.attempt })
        }
        PrefetchState::NotBegun | PrefetchState::Pulling | PrefetchState::Fetched { .. } => None,
    }
}

#[cfg(test)]
mod tests;

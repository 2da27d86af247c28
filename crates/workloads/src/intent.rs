//! What is to be done to one pod.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use hitless_api::grant::ImageChange;
use hitless_api::names::annotations;
use hitless_api::pod::{ContainerView, PodView};
use hitless_api::{Change, Grant, GrantOp, ObjectRef, PodRef, PullPolicy};
use jiff::{SignedDuration, Timestamp};

use crate::image;
use crate::removal::Removal;

/// What is done to a pod, the same for all pods of a workload that start out the same: everything of a grant that follows from
/// what is wanted alone.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What is done.
    pub op: GrantOp,
    /// Image changes by container; none where nothing in the pod is replaced.
    pub containers: BTreeMap<String, ImageChange>,
    /// Annotation changes that go into the same patch.
    pub annotations: BTreeMap<String, Change>,
    /// Label changes that go into the same patch.
    pub labels: BTreeMap<String, Change>,
    /// Images by container that have to be on the pod's node before it leaves, because the pod that is made in its place has them. No
    /// part of what the agent is asked to do.
    pub fetch: BTreeMap<String, ImageChange>,
    /// Computed when it is first asked for, once for all pods that share the operation.
    digest: OnceLock<String>,
}

impl Operation {
    pub(crate) fn new(
        op: GrantOp,
        containers: BTreeMap<String, ImageChange>,
        annotations: BTreeMap<String, Change>,
        labels: BTreeMap<String, Change>,
    ) -> Self {
        Self { op, containers, annotations, labels, fetch: BTreeMap::new(), digest: OnceLock::new() }
    }

    /// The annotations of a template among those that it changes: agents know nothing of them but what the ledger names.
    pub fn template_annotations(&self) -> impl Iterator<Item = (&String, &Change)> + Clone {
        self.annotations.iter().filter(|(key, _)| !Grant::is_own_annotation(key))
    }

    fn digest(&self) -> &str {
        self.digest.get_or_init(|| Grant::digest(&self.op, &self.containers, &self.annotations, &self.labels))
    }
}

impl PartialEq for Operation {
    fn eq(&self, other: &Self) -> bool {
        // The digest follows from these.
        let Self { op, containers, annotations, labels, fetch, digest: _ } = self;
        (op, containers, annotations, labels, fetch)
            == (&other.op, &other.containers, &other.annotations, &other.labels, &other.fetch)
    }
}

impl Eq for Operation {}

/// So long the kubelet remembers that a container was started.
const BACK_OFF: SignedDuration = SignedDuration::from_mins(10);

/// An operation that is wanted for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodIntent {
    /// The pod.
    pub pod: PodRef,
    /// What is done to it.
    pub operation: Arc<Operation>,
}

impl PodIntent {
    pub(crate) fn new(pod: &PodView, operation: Operation) -> Self {
        Self { pod: pod.id.clone(), operation: Arc::new(operation) }
    }

    /// An operation that nobody wants: for the question whether the pod may be operated now.
    #[must_use]
    pub fn assumed(pod: &PodView) -> Self {
        let same = |image: &String| ImageChange { from: image.clone(), to: image.clone() };
        let containers = pod.containers.iter().map(|each| (each.name.clone(), same(&each.image))).collect();
        Self::new(pod, Operation::new(GrantOp::Update, containers, BTreeMap::new(), BTreeMap::new()))
    }

    /// Whether it is one that nobody wants ([`Self::assumed`]): no container gets another image.
    #[must_use]
    pub fn is_assumed(&self) -> bool {
        let Operation { op, containers, .. } = &*self.operation;
        *op == GrantOp::Update && !containers.is_empty() && containers.values().all(|change| change.from == change.to)
    }

    /// The pod leaves service for good, and nothing else is done to it.
    #[must_use]
    pub fn drain(pod: &PodView) -> Self {
        Self::drain_for(pod, BTreeMap::new())
    }

    /// The same, once these images are on its node: the pod that is made in its place has them.
    #[must_use]
    pub(crate) fn drain_for(pod: &PodView, fetch: BTreeMap<String, ImageChange>) -> Self {
        let drain = Operation::new(GrantOp::Drain, BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self::new(pod, Operation { fetch, ..drain })
    }

    /// With images under other names. `name` tells the one that a container's is to have instead, if it is another one.
    #[must_use]
    pub fn renamed(&self, pod: &PodView, mut name: impl FnMut(&ContainerView, &str) -> Option<String>) -> Option<Self> {
        let rename = |(container, change): (&String, &ImageChange)| {
            let to = name(pod.container(container)?, &change.to).filter(|to| *to != change.from)?;
            Some((container.clone(), ImageChange { from: change.from.clone(), to }))
        };
        self.with(self.operation.containers.iter().filter_map(rename).collect())
    }

    fn with(&self, changes: BTreeMap<String, ImageChange>) -> Option<Self> {
        if changes.is_empty() {
            return None;
        }
        let Operation { op, containers, annotations, labels, fetch: _, digest: _ } = &*self.operation;
        let mut containers = containers.clone();
        containers.extend(changes);
        let operation = Operation::new(op.clone(), containers, annotations.clone(), labels.clone());
        Some(Self { pod: self.pod.clone(), operation: Arc::new(operation) })
    }

    /// With images by digest, where the tag may mean something else by now or the kubelet may remember the reference. `digest` tells
    /// the one that a container is to have, as far as that is known; where it is not, the reference stays as it is.
    ///
    /// * `Always`: a tag is pulled at every start, so all pods of a rollout get the same digest.
    /// * A container of a pod that was operated before, and that was started less than [`BACK_OFF`] ago, gets a reference that it has
    ///   not had: the kubelet's back-off is kept by pod, container and a hash of its spec, and is forgotten after ten minutes.
    #[must_use]
    pub fn pinned(
        &self,
        pod: &PodView,
        now: Timestamp,
        mut digest: impl FnMut(&ContainerView, &str) -> Option<String>,
    ) -> Option<Self> {
        let was_operated = pod.annotations.contains_key(annotations::REVISION);
        let pin = |(name, change): (&String, &ImageChange)| {
            let container = pod.container(name).filter(|_| image::digest_of(&change.to).is_none())?;
            let started = container.status.as_ref().and_then(|status| status.running_since);
            let is_recent = was_operated && started.is_some_and(|at| now.duration_since(at) < BACK_OFF);
            if !is_recent && container.pull_policy != PullPolicy::Always {
                return None;
            }
            let digest = digest(container, &change.to)?;
            let id = || container.status.as_ref().map_or("", |status| status.container_id.as_str());
            let plain = image::pinned(&change.to, &digest, None);
            let is_used = is_recent || plain == change.from;
            let to = if is_used { image::pinned(&change.to, &digest, Some(id())) } else { plain };
            Some((name.clone(), ImageChange { from: change.from.clone(), to }))
        };
        let pins: BTreeMap<String, ImageChange> = self.operation.containers.iter().filter_map(pin).collect();
        self.with(pins)
    }

    /// Id of the grant for this operation: the same operation always has the same id.
    #[must_use]
    pub fn id(&self) -> String {
        Grant::id_for(&self.pod.uid, self.operation.digest())
    }
}

/// Lets pods with the same operation share it: a cluster has many pods, and few kinds of operations.
pub(crate) fn share(desired: &mut [DesiredOperation]) {
    let mut last: Option<Arc<Operation>> = None;
    for intent in desired.iter_mut().filter_map(|wanted| wanted.intent.as_mut().ok()) {
        match &last {
            Some(last) if *last == intent.operation => intent.operation = last.clone(),
            _ => last = Some(intent.operation.clone()),
        }
    }
}

/// A pod that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredOperation {
    /// The pod.
    pub pod: PodRef,
    /// How to mend it, or why that can't be done in place.
    pub intent: Result<PodIntent, Obstacle>,
    /// Place in the workload's order: lower goes first.
    pub rank: i32,
    /// At least so many seconds between leaving service and the operation; with more than 0 the pod always leaves.
    pub delay_seconds: u32,
    /// Whose request it is, if that is an object.
    pub asked_by: Option<ObjectRef>,
    /// It ends what has begun: a pause does not stop it.
    pub ends: bool,
    /// The pod serves nobody and is to be deleted: no agent is asked. The intent is to drain it.
    pub removal: Option<Removal>,
}

impl DesiredOperation {
    pub(crate) fn new(pod: &PodView, intent: Result<PodIntent, Obstacle>) -> Self {
        Self { pod: pod.id.clone(), intent, rank: 0, delay_seconds: 0, asked_by: None, ends: false, removal: None }
    }
}

/// Why what is wanted can't become an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// A restart swaps equal names of one image, which takes its digest.
    #[error(
        "container {container} can't be restarted in place: its image was loaded into the node, and no registry has it by a digest; use an image \
         from a registry, or delete the pod"
    )]
    DigestUnknown {
        /// Name of the container.
        container: String,
    },
    /// The same, of a container that has never run: which image it gets is not known yet.
    #[error("container {container} has not been started yet; it can be restarted then")]
    NotStarted {
        /// Name of the container.
        container: String,
    },
    /// The same, where the kubelet has not ended the container before yet: its digest would get the name of the next image.
    #[error("the kubelet has not replaced container {container} yet; it can be restarted then")]
    NotReplaced {
        /// Name of the container.
        container: String,
    },
    /// What was done for an OperationJob or ContainerRecreateRequest is read from the pod until that says it.
    #[error(
        "its last restart was for an OperationJob or ContainerRecreateRequest that does not say so yet; it waits until the status does"
    )]
    RestartNotRecorded,
    /// Others of its workload go first.
    #[error("pods of {kind} go in order, the last ordinal first; it waits for {first}")]
    NotItsTurn {
        /// Kind of the workload.
        kind: &'static str,
        /// Name of a pod that is before it: it is being operated, is being deleted, is not available, or has to be.
        first: String,
    },
    /// Of the version that it is to get as many pods are unavailable as its workload lets be.
    #[error("maxUnavailable allows no more unavailable pods of the new version; it waits for {first}")]
    NewPodsUnavailable {
        /// Name of one of them.
        first: String,
    },
    /// The revision that the pod was made from is not known (yet).
    #[error("the ControllerRevision that it was made from is not known: {revision}; it waits until that is there")]
    UnknownRevision {
        /// The pod's label `controller-revision-hash`.
        revision: String,
    },
    /// The request names a container that the pod does not have.
    #[error("the pod has no container {container}; correct the name")]
    UnknownContainer {
        /// The name.
        container: String,
    },
}

impl Obstacle {
    /// Whether it stays so as long as the pod is as it is.
    #[must_use]
    pub fn is_for_ever(&self) -> bool {
        match self {
            Self::DigestUnknown { .. } | Self::UnknownContainer { .. } => true,
            Self::NotStarted { .. }
            | Self::NotReplaced { .. }
            | Self::RestartNotRecorded
            | Self::NotItsTurn { .. }
            | Self::NewPodsUnavailable { .. }
            | Self::UnknownRevision { .. } => false,
        }
    }

    /// The reason in CamelCase, for machines.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::DigestUnknown { .. } => "DigestUnknown",
            Self::NotStarted { .. } => "NotStarted",
            Self::NotReplaced { .. } => "NotReplaced",
            Self::RestartNotRecorded => "RestartNotRecorded",
            Self::NotItsTurn { .. } => "NotItsTurn",
            Self::NewPodsUnavailable { .. } => "NewPodsUnavailable",
            Self::UnknownRevision { .. } => "UnknownRevision",
            Self::UnknownContainer { .. } => "UnknownContainer",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn pod(policy: &str, image: &str, started: &str) -> PodView {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "uid": "u", "annotations": {"hitless.dev/revision": "r"}},
            "spec": {"containers": [{"name": "web", "image": image, "imagePullPolicy": policy}]},
            "status": {"containerStatuses": [{"name": "web", "image": "", "imageID": "r.io/web@sha256:1", "containerID": "c://1",
                "ready": true, "restartCount": 0, "state": {"running": {"startedAt": started}}}]}}))
        .unwrap();
        PodView::from(&pod)
    }

    fn to(pod: &PodView, to: &str, digest: Option<&str>) -> Option<String> {
        let change = ImageChange { from: pod.containers[0].image.clone(), to: to.to_owned() };
        let containers = BTreeMap::from([("web".to_owned(), change)]);
        let intent = PodIntent::new(pod, Operation::new(GrantOp::Update, containers, BTreeMap::new(), BTreeMap::new()));
        let now = "2026-11-23T01:00:00Z".parse().unwrap();
        let pinned = intent.pinned(pod, now, |_, _| digest.map(ToOwned::to_owned))?;
        assert_ne!(pinned.id(), intent.id());
        Some(pinned.operation.containers["web"].to.clone())
    }

    #[test]
    fn a_tag_that_is_pulled_at_every_start_is_pinned_as_soon_as_its_digest_is_known() {
        let long_ago = pod("Always", "r.io/web:v1", "2026-11-22T00:00:00Z");
        assert_eq!(to(&long_ago, "r.io/web:v2", None), None);
        assert_eq!(to(&long_ago, "r.io/web:v2", Some("sha256:2")).as_deref(), Some("r.io/web:v2@sha256:2"));
        assert_eq!(to(&long_ago, "r.io/web:v2@sha256:9", Some("sha256:2")), None, "its owner has pinned it");
        let again = pod("Always", "r.io/web:v2@sha256:2", "2026-11-22T00:00:00Z");
        let fresh = to(&again, "r.io/web:v2", Some("sha256:2")).unwrap();
        assert!(fresh.starts_with("r.io/web:v2.hitless-"), "{fresh}: the same reference would be no restart");
        let kept = pod("IfNotPresent", "r.io/web:v1", "2026-11-22T00:00:00Z");
        assert_eq!(to(&kept, "r.io/web:v2", Some("sha256:2")), None);
    }

    #[test]
    fn a_container_that_was_started_of_late_gets_a_reference_that_it_has_not_had() {
        let recent = pod("IfNotPresent", "r.io/web:v1", "2026-11-23T00:59:00Z");
        let fresh = to(&recent, "r.io/web:v2", Some("sha256:2")).unwrap();
        assert!(fresh.starts_with("r.io/web:v2.hitless-") && fresh.ends_with("@sha256:2"), "{fresh}");
        assert_eq!(to(&recent, "r.io/web:v2", None), None, "an image without a digest has one name only");
        let first = PodView { annotations: BTreeMap::new().into(), ..recent };
        assert_eq!(to(&first, "r.io/web:v2", Some("sha256:2")), None, "it has had its first image only");
    }
}

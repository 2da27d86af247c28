//! What is to be done to one pod.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use hitless_api::grant::ImageChange;
use hitless_api::pod::PodView;
use hitless_api::{Change, Grant, GrantOp, PodRef};

/// What is done to a pod, the same for all pods of a workload that start out the same: everything of a grant that follows from
/// the wish alone.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What is done.
    pub op: GrantOp,
    /// Image changes by container; never empty.
    pub containers: BTreeMap<String, ImageChange>,
    /// Annotation changes that go into the same patch.
    pub annotations: BTreeMap<String, Change>,
    /// Label changes that go into the same patch.
    pub labels: BTreeMap<String, Change>,
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
        Self { op, containers, annotations, labels, digest: OnceLock::new() }
    }

    fn digest(&self) -> &str {
        self.digest.get_or_init(|| Grant::digest(&self.op, &self.containers, &self.annotations, &self.labels))
    }
}

impl PartialEq for Operation {
    fn eq(&self, other: &Self) -> bool {
        // The digest follows from these.
        let Self { op, containers, annotations, labels, digest: _ } = self;
        (op, containers, annotations, labels) == (&other.op, &other.containers, &other.annotations, &other.labels)
    }
}

impl Eq for Operation {}

/// An operation that is wished for a pod.
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

    /// An operation that nobody wishes: for the question whether the pod may be operated now.
    #[must_use]
    pub fn assumed(pod: &PodView) -> Self {
        let same = |image: &String| ImageChange { from: image.clone(), to: image.clone() };
        let containers = pod.containers.iter().map(|each| (each.name.clone(), same(&each.image))).collect();
        Self::new(pod, Operation::new(GrantOp::Update, containers, BTreeMap::new(), BTreeMap::new()))
    }

    /// Id of the grant for this operation: the same wish always has the same id.
    #[must_use]
    pub fn id(&self) -> String {
        Grant::id_for(&self.pod.uid, self.operation.digest())
    }
}

/// Lets pods with the same operation share it: a cluster has many pods, and few kinds of operations.
pub(crate) fn share(wishes: &mut [PodWish]) {
    let mut last: Option<Arc<Operation>> = None;
    for intent in wishes.iter_mut().filter_map(|wish| wish.intent.as_mut().ok()) {
        match &last {
            Some(last) if *last == intent.operation => intent.operation = last.clone(),
            _ => last = Some(intent.operation.clone()),
        }
    }
}

/// A pod that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodWish {
    /// The pod.
    pub pod: PodRef,
    /// How to mend it, or why that can't be done in place.
    pub intent: Result<PodIntent, Obstacle>,
    /// Place in the workload's order: lower goes first.
    pub rank: i32,
}

impl PodWish {
    pub(crate) fn new(pod: &PodView, intent: Result<PodIntent, Obstacle>) -> Self {
        Self { pod: pod.id.clone(), intent, rank: 0 }
    }
}

/// Why a wish can't become an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// A restart swaps equal names of one image, which takes its digest.
    #[error(
        "container {container} can't be restarted in place: the digest of its image is not known on the node; use an image from a registry"
    )]
    DigestUnknown {
        /// Name of the container.
        container: String,
    },
    /// Others of its workload go first.
    #[error("pods of {kind} go in order, the last ordinal first; {first} comes before it")]
    NotItsTurn {
        /// Kind of the workload.
        kind: &'static str,
        /// Name of a pod that is before it: it is being operated, is not available, or has to be.
        first: String,
    },
    /// The revision that the pod was made from is not known (yet).
    #[error("the ControllerRevision that it was made from is not known: {revision}; it waits until that is there")]
    UnknownRevision {
        /// The pod's label `controller-revision-hash`.
        revision: String,
    },
    /// The wish names a container that the pod does not have.
    #[error("the pod has no container {container}; correct the name")]
    UnknownContainer {
        /// The name.
        container: String,
    },
}

impl Obstacle {
    /// The reason in CamelCase, for machines.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::DigestUnknown { .. } => "DigestUnknown",
            Self::NotItsTurn { .. } => "NotItsTurn",
            Self::UnknownRevision { .. } => "UnknownRevision",
            Self::UnknownContainer { .. } => "UnknownContainer",
        }
    }
}

//! What is to be done to one pod.

use std::collections::BTreeMap;

use hitless_api::grant::ImageChange;
use hitless_api::{Change, Grant, GrantOp, PodRef};

/// An operation that is wished for a pod: everything of a grant that follows from the wish alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodIntent {
    /// The pod.
    pub pod: PodRef,
    /// What is done.
    pub op: GrantOp,
    /// Image changes by container; never empty.
    pub containers: BTreeMap<String, ImageChange>,
    /// Annotation changes that go into the same patch.
    pub annotations: BTreeMap<String, Change>,
    /// Label changes that go into the same patch.
    pub labels: BTreeMap<String, Change>,
}

impl PodIntent {
    /// Id of the grant for this operation: the same wish always has the same id.
    #[must_use]
    pub fn id(&self) -> String {
        Grant::id_for(&self.pod.uid, &self.op, &self.containers, &self.annotations, &self.labels)
    }
}

/// A pod that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodWish {
    /// The pod.
    pub pod: PodRef,
    /// How to mend it, or why that can't be done in place.
    pub intent: Result<PodIntent, Obstacle>,
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
            Self::UnknownContainer { .. } => "UnknownContainer",
        }
    }
}

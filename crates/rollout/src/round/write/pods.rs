//! What a round wants written of pods: who is in service without an agent, who fetches images, who serves as a companion.

use hitless_api::names::IN_SERVICE;
use hitless_api::{GroupKind, JsonPatch, ObjectRef, PodRef};
use hitless_workloads::{Request, Write};
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};

use crate::prefetch::{self, Pull, Resources};

/// Why the controller puts a pod in service, and no agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutAgent {
    /// Its node has none (docs/contract.md#inservice-without-an-agent).
    NoAgent,
    /// It is a companion pod, which agents leave alone (docs/contract.md#companion-pod).
    Companion,
}

impl WithoutAgent {
    /// Reason of the condition.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoAgent => "NoAgent",
            Self::Companion => "Companion",
        }
    }

    /// Message of the condition.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::NoAgent => "set by hitless-controller: the node has no Ready agent",
            Self::Companion => "set by hitless-controller: it serves while its workload's own pod is away",
        }
    }
}

/// InService True on a pod on which it is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InServiceFallback {
    /// The pod.
    pub pod: PodRef,
    /// The version in which the condition is absent.
    pub resource_version: String,
    /// Why it is the controller that writes it.
    pub because: WithoutAgent,
}

impl InServiceFallback {
    /// What is asked of the API server at `now`.
    #[must_use]
    pub fn request(&self, now: Timestamp) -> Write {
        let condition = json!({
            "type": IN_SERVICE, "status": "True", "reason": self.because.reason(), "message": self.because.message(),
            "lastTransitionTime": now.round(Unit::Second).unwrap_or_default().to_string(),
        });
        let patch = JsonPatch::of(&self.pod.uid)
            .test(&["metadata", "resourceVersion"], self.resource_version.as_str())
            .add(&["status", "conditions", "-"], condition);
        Write::new("in-service-fallback", self.pod.object(), Request::Status(patch))
    }
}

/// A pod that fetches an image is made, or deleted when nobody needs it any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrefetchWrite {
    /// Made.
    Create {
        /// What it fetches.
        pull: Box<Pull>,
        /// Which attempt it is.
        attempt: u32,
        /// What it asks for.
        resources: Resources,
        /// Whom it goes with.
        owner: ObjectRef,
    },
    /// Deleted.
    Delete(PodRef),
}

impl PrefetchWrite {
    /// What is asked of the API server.
    #[must_use]
    pub fn request(&self) -> Write {
        match self {
            Self::Create { pull, attempt, resources, owner } => {
                let manifest = prefetch::manifest(pull, *attempt, *resources, owner);
                Write::create("create-prefetch", &GroupKind::POD, manifest)
            }
            Self::Delete(pod) => Write::delete_helper("delete-prefetch", pod, None, None),
        }
    }
}

/// A companion pod is made or deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum CompanionWrite {
    /// Made.
    Create {
        /// Namespace.
        namespace: String,
        /// Value of its label `hitless.dev/companion`.
        key: String,
        /// The pod.
        manifest: Value,
    },
    /// Deleted.
    Delete {
        /// The pod.
        pod: PodRef,
        /// The version that was decided on: one that is put in service meanwhile has clients.
        resource_version: String,
        /// Nobody was ever sent to it, so its containers are not asked to end.
        at_once: bool,
    },
}

impl CompanionWrite {
    /// What is asked of the API server.
    #[must_use]
    pub fn request(&self) -> Write {
        match self {
            Self::Create { manifest, .. } => Write::create("create-companion", &GroupKind::POD, manifest.clone()),
            Self::Delete { pod, resource_version, at_once } => {
                let version = Some(resource_version.clone());
                Write::delete_helper("delete-companion", pod, version, at_once.then_some(0))
            }
        }
    }
}

//! Images come to a node before a pod leaves service for them: by a *prefetch pod*, whose container has a command that is no
//! program. The kubelet pulls with its own credentials and says what the registry says, and nothing of the image runs.
//!
//! A container that cannot be started, and not an image volume: it works with every version of Kubernetes, needs no
//! image of ours in a foreign namespace, tells the digest, and asks for no room on the node once it has ended.

mod extra;
mod images;
mod manifest;
mod view;

pub use extra::{Annotations, Chosen, Extra, Labels, Settings, choose};
pub use images::{NamePool, NodeImages};
pub use manifest::manifest;
pub use view::{PrefetchState, PrefetchView};

use hitless_api::pod::{ContainerView, PodView};
use hitless_api::{PullIdentity, PullPolicy, digest};
use hitless_workloads::image;
use serde_json::json;

/// What is pulled where, and for whom. Pods for which it is the same share a prefetch pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pull {
    /// Namespace: pull secrets are its own.
    pub namespace: String,
    /// Name of the node.
    pub node: String,
    /// Image reference, as the container will have it.
    pub image: String,
    /// When the registry is asked.
    pub policy: PullPolicy,
    /// With whose credentials.
    pub identity: PullIdentity,
    /// Requests and limits of the container that it is for ([`hitless_api::pod::ContainerSpec::resources`]). Who shares a prefetch pod may
    /// have others, so they are no part of its key.
    pub resources: Option<Box<str>>,
    /// What its pod has besides, once that is made. No part of its key either.
    pub extra: Extra,
    /// The container runs an image of another repository: admission may have renamed it, and may rename this one. No part of its key.
    pub is_other_repository: bool,
}

/// What a prefetch pod asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resources {
    /// Nothing: a node that is full takes it all the same, and no limit slows the runtime down, whose unpacking is charged to the pod.
    None,
    /// Requests and limits of the container that it is for: where the namespace has a LimitRange or a quota that wants them stated, those
    /// of a container that runs there are within.
    OfContainer,
}

impl Pull {
    /// For a container of a pod on a node; `None` for one that has no node yet.
    #[must_use]
    pub fn of(pod: &PodView, container: &ContainerView, reference: &str) -> Option<Self> {
        Some(Self {
            namespace: pod.id.namespace.clone(),
            node: pod.node.clone()?,
            image: reference.to_owned(),
            policy: container.pull_policy,
            identity: pod.pull_identity.clone(),
            resources: container.resources.clone(),
            extra: Extra::default(),
            is_other_repository: !image::is_same_repository(&container.image, reference),
        })
    }

    /// Name of the prefetch pod of an attempt.
    #[must_use]
    pub fn pod_name(&self, attempt: u32) -> String {
        format!("hitless-prefetch-{}-{attempt}", self.key())
    }

    /// Value of the label `hitless.dev/prefetch`: the same pull always has the same.
    #[must_use]
    pub fn key(&self) -> String {
        let Self {
            namespace,
            node,
            image,
            policy,
            identity: PullIdentity { service_account, secrets },
            resources: _,
            extra: _,
            is_other_repository: _,
        } = self;
        digest::short(&json!([namespace, node, image, policy.name(), service_account, secrets]))
    }
}

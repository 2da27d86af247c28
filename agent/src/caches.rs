//! What the agent watches: the pods of its node, and the one object with their grants.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hitless_api::NodeTransition;
use hitless_api::names::OTHER_PODS;
use hitless_runtime::readiness::Readiness;
use hitless_runtime::watch::{self, Cache, Listing, Metrics, Selection};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::view::NodePod;

/// Objects in one answer of the API server; a node has about a hundred pods.
const PAGE: u32 = 100;

/// The agent's caches. Clones share the content.
#[derive(Clone)]
pub struct Caches {
    /// Pods of this node.
    pub pods: Cache<Pod, NodePod>,
    /// At most one: the one named like the node.
    pub transitions: Cache<NodeTransition, NodeTransition>,
}

/// A task that keeps a cache up to date.
pub type WatchTask = Pin<Box<dyn Future<Output = Result<(), Infallible>> + Send>>;

impl Caches {
    /// Empty caches; `wake` is notified after each change.
    #[must_use]
    pub fn new(wake: &Arc<Notify>, metrics: &Metrics) -> Self {
        Self {
            pods: Cache::new("Pod", |pod| Some(NodePod::from(&pod)), wake.clone(), metrics.clone()),
            transitions: Cache::new("NodeTransition", Some, wake.clone(), metrics.clone()),
        }
    }

    /// The tasks that fill them. Both lists are read from the API server's store and not from its watch cache: an agent that
    /// starts must not decide from a time before it ended.
    #[must_use]
    pub fn watches(
        &self,
        client: &Client,
        node: &str,
        readiness: &Readiness,
        token: &CancellationToken,
    ) -> [WatchTask; 2] {
        // Pods that fetch images are none of ours.
        let pods = Selection {
            labels: Some(OTHER_PODS.to_owned()),
            ..Selection::fields(format!("spec.nodeName={node}"), Listing::Paged(PAGE))
        };
        let transitions = Selection::fields(format!("metadata.name={node}"), Listing::Paged(PAGE));
        [
            Box::pin(watch::run(
                Api::all(client.clone()),
                pods,
                self.pods.clone(),
                readiness.guard("pods listed"),
                token.clone(),
            )),
            Box::pin(watch::run(
                Api::all(client.clone()),
                transitions,
                self.transitions.clone(),
                readiness.guard("grants listed"),
                token.clone(),
            )),
        ]
    }
}

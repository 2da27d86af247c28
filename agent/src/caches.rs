//! What the agent watches: the pods of its node, and the one object with their grants.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hitless_api::NodeTransition;
use hitless_api::large::outline_of_pod;
use hitless_api::names::OTHER_PODS;
use hitless_runtime::readiness::Readiness;
use hitless_runtime::watch::{self, Cache, Listing, Metrics, Selection};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::view::NodePod;

/// The first lists of all agents are spread over so long.
const SPREAD: Duration = Duration::from_secs(1);
/// So often it is looked whether there are grants meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// When a node's agent has its turn.
fn spread_of(node: &str) -> Duration {
    let turn = node.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    SPREAD.mul_f64(f64::from(turn % 1000) / 1000.0)
}

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
            pods: {
                let view = |pod| Some(NodePod::from(&pod));
                Cache::outlining("Pod", view, Some(outline_of_pod), wake.clone(), metrics.clone())
            },
            transitions: Cache::new("NodeTransition", Some, wake.clone(), metrics.clone()),
        }
    }

    /// Agents that start together, as they do when the API servers come back or the DaemonSet is changed, do not list together. One that
    /// has something to do does not wait: clients of a pod that is held may.
    async fn spread(&self, node: &str) {
        let end = Instant::now() + spread_of(node);
        let has_grants = || self.transitions.get("", node).is_some_and(|transition| !transition.spec.grants.is_empty());
        while !has_grants() && Instant::now() < end {
            sleep(LOOK).await;
        }
    }

    /// The tasks that fill them. The one object with the grants is read from the API server's store. The pods are not: for one node's the
    /// API server would read those of all nodes there, and every agent that starts would make it do so (Kubernetes before 1.34). They may
    /// be a little old at first, so whoever decides about one that has a grant reads that pod from the store before
    /// ([`crate::agent::Agent`]): an agent that starts must not decide from a time before it ended.
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
            ..Selection::fields(format!("spec.nodeName={node}"), Listing::Cached)
        };
        let transitions = Selection::fields(format!("metadata.name={node}"), Listing::Paged(1));
        let all_pods: Api<Pod> = Api::all(client.clone());
        let all_transitions: Api<NodeTransition> = Api::all(client.clone());
        [
            {
                let (caches, token, node) = (self.clone(), token.clone(), node.to_owned());
                let guard = readiness.guard("pods listed");
                Box::pin(async move {
                    caches.spread(&node).await;
                    watch::run(all_pods, pods, caches.pods, guard, token).await
                })
            },
            Box::pin(watch::run(
                all_transitions,
                transitions,
                self.transitions.clone(),
                readiness.guard("grants listed"),
                token.clone(),
            )),
        ]
    }
}

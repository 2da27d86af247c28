//! What the endpoint answers from.

use std::sync::Arc;

use axum::http::StatusCode;
use hitless_api::PodRef;
use hitless_api::node_transition::AgentInfo;
use hitless_api::pod::PodView;
use hitless_runtime::prefix::Prefix;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::answer::{DrainInputs, DrainStatus};
use super::identity::{Caller, Peer};
use super::inside::Unheard;
use super::limits::{Client, Limits, Place, WAITS_FOR_A_POD, WAITS_IN_A_NAMESPACE, WaitSlot};
use super::progress::{Facts, Progress};
use super::refusal::Refusal;
use crate::hooks::task::Tasks;
use crate::metrics::Refusals;
use crate::published::{Published, Step};
use crate::view::{NodePod, Observation};
use crate::waiters::{Waiters, drain_of};

/// The node's pods, as they are now.
pub trait PodSource: Send + Sync {
    /// Whether all pods are known: before, a missing one means nothing.
    fn synced(&self) -> bool;
    /// One pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<NodePod>>;
    /// All pods.
    fn pods(&self) -> Vec<Arc<NodePod>>;
    /// What the kernel shows of a pod.
    fn observation(&self, pod_uid: &str) -> Observation;
}

/// What the endpoint answers from. Clones share it.
#[derive(Clone)]
pub struct AppState(Arc<Parts>);

/// The parts of a state.
pub struct Parts {
    /// Name of the node.
    pub node: String,
    /// Version and features.
    pub agent: AgentInfo,
    /// What the agent lacks, in words.
    pub missing_capabilities: Vec<String>,
    /// The node's pods.
    pub pods: Box<dyn PodSource>,
    /// Their operations.
    pub published: Published,
    /// Who waits for them.
    pub waiters: Waiters,
    /// What their applications have said.
    pub tasks: Tasks,
    /// What one caller may take.
    pub limits: Limits,
    /// Who sees what the node sees, beside it.
    pub trusted: Vec<Prefix>,
    /// Pods that ask for the endpoint inside of them and do not get it.
    pub unheard: Unheard,
    /// Counts what was refused.
    pub refusals: Refusals,
    /// Cancelled when the agent is to stop.
    pub token: CancellationToken,
}

impl std::ops::Deref for AppState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl AppState {
    /// Answers from these.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Who `peer` is.
    #[must_use]
    pub fn caller(&self, peer: &Peer) -> Caller {
        Caller::of(peer, &self.pods.pods(), &self.trusted)
    }

    /// Whether what this pod says of itself counts, as far as the agent knows it.
    pub(super) fn is_task_allowed(&self, pod: &PodRef) -> bool {
        let known = self.pods.pod(&pod.namespace, &pod.name);
        known.is_some_and(|known| known.view.id.uid == pod.uid && known.view.may_refuse())
    }

    /// Before all pods are known nothing is said of any.
    pub(super) fn check_synced(&self) -> Result<(), Refusal> {
        if self.pods.synced() {
            return Ok(());
        }
        Err(Refusal::not_yet("the agent has just started and does not know the pods of its node yet"))
    }

    /// A place among the requests that wait, and from the node among those for the same pod, or for pods of the same namespace by
    /// their labels (no `name`).
    pub(super) fn place_to_wait(
        &self,
        caller: &Caller,
        client: Client,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<(Place, Option<WaitSlot>), Refusal> {
        let refused = || {
            self.refusals.count("waits");
            Refusal::too_many("too many requests wait already; end one, or ask again without wait", 1)
        };
        let most = if name.is_some() { WAITS_FOR_A_POD } else { WAITS_IN_A_NAMESPACE };
        let what = format!("{namespace}/{}", name.unwrap_or_default());
        let wait_slot = match caller {
            Caller::Node | Caller::NodeFor(_) => Some(self.limits.wait_slots.enter(&what, most).ok_or_else(refused)?),
            Caller::Pod(_) | Caller::Stranger { .. } => None,
        };
        Ok((self.limits.waits.take(&caller.source(client)).ok_or_else(refused)?, wait_slot))
    }

    /// A pod that `caller` may see.
    pub(super) fn pod(&self, caller: &Caller, namespace: &str, name: &str) -> Result<Arc<NodePod>, Refusal> {
        self.check_synced()?;
        // Nobody learns by asking which pods there are.
        if !caller.sees(namespace, name) {
            return Err(Refusal::forbidden(caller.to_string()));
        }
        let unknown = || {
            let node = &self.node;
            Refusal::not_found(format!("there is no pod {name} in namespace {namespace} on node {node}; ask its node"))
        };
        self.pods.pod(namespace, name).ok_or_else(unknown)
    }

    /// The pod that `caller` is.
    pub(super) fn own_pod(&self, caller: &Caller) -> Result<Arc<NodePod>, Refusal> {
        match caller {
            Caller::Pod(own) | Caller::NodeFor(own) => self.pod(caller, &own.namespace, &own.name),
            Caller::Node => {
                let words = "only a pod has a self, and this is the node; ask for /v1/pods/<namespace>/<name>/drain";
                Err(Refusal::new(StatusCode::NOT_FOUND, words))
            }
            Caller::Stranger { .. } => Err(Refusal::forbidden(caller.to_string())),
        }
    }

    /// Where a pod stands that was there as `pod`, and whose drain has this `minSeconds`. Cheap: everybody who waits asks at
    /// every change.
    pub(super) fn progress(&self, pod: &PodView, min_seconds: u32, now: Timestamp) -> Progress {
        self.look(pod, min_seconds, now).progress
    }

    /// How the draining of a pod stands that was there as `pod`, and whether there is anything to wait for.
    pub(super) fn status(&self, pod: &PodView, now: Timestamp) -> (DrainStatus, Progress) {
        let Looked { present, step, observation, progress } = self.look(pod, drain_of(pod).min_seconds, now);
        let pod = present.as_ref().map_or(pod, |present| &present.view);
        (DrainStatus::of(DrainInputs { node: &self.node, pod, step, observation, progress, now }), progress)
    }

    fn look(&self, pod: &PodView, min_seconds: u32, now: Timestamp) -> Looked {
        let uid = &pod.id.uid;
        let present = self.pods.pod(&pod.id.namespace, &pod.id.name).filter(|present| present.view.id.uid == *uid);
        let (step, observation) = (self.published.of(uid), self.pods.observation(uid));
        let facts = Facts {
            pod: present.as_ref().map(|present| &present.view),
            step: step.as_ref(),
            observation: &observation,
            leaving: self.waiters.leaving(uid),
            min_seconds,
        };
        let progress = Progress::of(&facts, now);
        Looked { present, step, observation, progress }
    }
}

/// What is known of a pod now.
struct Looked {
    /// Absent when it is gone.
    present: Option<Arc<NodePod>>,
    step: Option<Step>,
    observation: Observation,
    progress: Progress,
}

//! Carries the steps of a round out: each write once, conditional, in the round's order.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hitless_api::JsonPatch;
use hitless_api::ledger::CLUSTER;
use hitless_api::names::{self, labels};
use hitless_api::{Lenient, NodeTransition, PodTransitionRule, TrafficProvider, TransitionLedger};
use hitless_runtime::lease::Leadership;
use hitless_runtime::liveness::Heartbeat;
use hitless_runtime::write::{WriteError, Writes};
use hitless_store::{Target, api_resource, creating, patching, send};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::Patch;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use crate::watches::{Caches, Objects};
use hitless_rollout::round::{
    FENCE, LedgerWrite, NodeTransitionWrite, ProviderStatusWrite, RoleBindingWrite, RuleStatusWrite, Step, Write,
};
use hitless_rollout::snapshot::{AGENT_ROLE, BindingView, Version};

mod queue;
mod rights;
mod services;

pub use queue::Outcome;
use queue::Queue;

/// Writes to the API server, as long as this process leads.
pub struct Writer {
    client: Client,
    writes: Writes,
    caches: Caches,
    leadership: Receiver<Leadership>,
    /// The namespace after which the next round goes on, where the time of the last one was over before all was written.
    last: Option<String>,
}

impl Writer {
    /// Written objects go into `caches` as the API server returns them.
    #[must_use]
    pub fn new(client: Client, writes: Writes, caches: Caches, leadership: Receiver<Leadership>) -> Self {
        Self { client, writes, caches, leadership, last: None }
    }

    /// Carries the steps out, each once those that it needs are written, for a few seconds: see [`Queue`]. One outcome for each.
    pub async fn apply(&mut self, steps: &[Step], heartbeat: &Heartbeat) -> Vec<Outcome> {
        let writer = &*self;
        let mut queue = Queue::new(steps, writer.last.as_deref(), Instant::now());
        let mut running = FuturesUnordered::new();
        loop {
            while let Some(index) = queue.next(Instant::now()) {
                running.push(async move { (index, writer.write(&steps[index].write).await) });
            }
            let Some((index, result)) = running.next().await else { break };
            heartbeat.beat(Instant::now());
            queue.ended(index, result);
        }
        drop(running);
        let (outcomes, last) = queue.finish();
        self.last = last;
        outcomes
    }

    async fn write(&self, write: &Write) -> Result<(), WriteError> {
        if !self.leadership.borrow().leads(Instant::now()) {
            return Err(WriteError::Conflict { message: "this process does not lead any more".to_owned() });
        }
        match write {
            Write::Ledger(write) => self.ledger(write).await,
            Write::NodeTransition(write) => self.node_transition(write).await,
            Write::RoleBinding(write) => self.role_binding(write).await,
            Write::Workload(write) => self.workload(write).await,
            Write::Service(write) => self.service(write).await,
            Write::Prefetch(write) => self.pod(&write.request()).await,
            Write::Companion(write) => self.pod(&write.request()).await,
            Write::InServiceFallback(write) => self.pod(&write.request(Timestamp::now())).await,
            Write::RuleStatus(write) => self.rule_status(write).await,
            Write::ProviderStatus(write) => self.provider_status(write).await,
        }
    }

    async fn ledger(&self, write: &LedgerWrite) -> Result<(), WriteError> {
        let (namespace, name) = match write.namespace.as_str() {
            CLUSTER => (names::system_namespace(), names::CLUSTER_LEDGER),
            namespace => (namespace, names::LEDGER),
        };
        let api: Api<TransitionLedger> = Api::namespaced(self.client.clone(), namespace);
        let stored = match &write.version {
            None => {
                let object = TransitionLedger::new(name, write.spec.clone());
                self.writes.send("transitionledgers", api.create(&creating(), &object)).await?
            }
            Some(version) => {
                let patch = JsonPatch::of(&version.uid)
                    .test(&["metadata", "resourceVersion"], version.resource_version.as_str())
                    .replace(&["spec"], value(&write.spec)?)
                    .build();
                self.writes.send("transitionledgers", api.patch(name, &patching(), &patch)).await?
            }
        };
        self.caches.inputs.ledgers.put(stored);
        Ok(())
    }

    async fn role_binding(&self, write: &RoleBindingWrite) -> Result<(), WriteError> {
        let made =
            || self.caches.inputs.ledgers.get(&write.namespace, names::LEDGER).map(|ledger| ledger.version.uid.clone());
        let Some(ledger_uid) = write.ledger_uid.clone().or_else(made) else {
            return Err(WriteError::Conflict { message: "the ledger that is to own it is gone".to_owned() });
        };
        let binding = rights::binding(&write.namespace, ledger_uid.clone());
        let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), &write.namespace);
        match self.writes.send("rolebindings", api.create(&creating(), &binding)).await {
            Ok(stored) => self.caches.inputs.bindings.put(stored),
            // There is one that the watch has not told of yet, or one by which agents may not operate for this ledger.
            Err(error @ WriteError::Conflict { .. }) => {
                let there = Writes::read(api.get_opt(names::AGENT)).await?.ok_or(error)?;
                let serves = BindingView::of(&there).is_some_and(|view| view.serves(&ledger_uid));
                self.caches.inputs.bindings.put(there);
                if !serves {
                    let message = format!(
                        "RoleBinding {} in namespace {} is not owned by its ledger or does not bind the agents to {AGENT_ROLE}: \
                         delete it, it is made anew",
                        names::AGENT,
                        write.namespace
                    );
                    return Err(WriteError::Invalid { message });
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn node_transition(&self, write: &NodeTransitionWrite) -> Result<(), WriteError> {
        let api: Api<NodeTransition> = Api::all(self.client.clone());
        let fence = write.fence.as_ref().map(|fence| json!({FENCE: fence}));
        let stored = match &write.version {
            None => {
                let mut object = NodeTransition::new(&write.node, write.spec.clone());
                object.metadata.annotations =
                    write.fence.clone().map(|fence| [(FENCE.to_owned(), fence)].into_iter().collect());
                object.metadata.owner_references = Some(vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Node".to_owned(),
                    name: write.node.clone(),
                    uid: write.spec.node_uid.clone(),
                    ..OwnerReference::default()
                }]);
                self.writes.send("nodetransitions", api.create(&creating(), &object)).await?
            }
            Some(version) => {
                // A merge patch replaces lists as a whole, and the grants are one.
                let mut metadata = json!({"uid": version.uid, "resourceVersion": version.resource_version});
                if let Some(fence) = fence {
                    metadata["annotations"] = fence;
                }
                let patch = Patch::Merge(json!({"metadata": metadata, "spec": write.spec}));
                self.writes.send("nodetransitions", api.patch(&write.node, &patching(), &patch)).await?
            }
        };
        self.caches.inputs.node_transitions.put(stored);
        Ok(())
    }

    async fn workload(&self, write: &hitless_workloads::Write) -> Result<(), WriteError> {
        if write.on.group_kind.is("", "Pod") {
            return self.pod(write).await;
        }
        let known = self.caches.objects.iter().find(|known| known.resource.group_kind == write.on.group_kind);
        let Some(Objects { resource, cache }) = known else {
            return Err(WriteError::Invalid { message: format!("no kind has objects like {}", write.on.label()) });
        };
        let api = Api::namespaced_with(self.client.clone(), &write.on.namespace, &api_resource(resource));
        let target = Target { api, resource: resource.plural, status: resource.plural };
        if let Some(stored) = send(&self.writes, &target, write).await? {
            cache.put(stored);
        }
        Ok(())
    }

    async fn pod(&self, write: &hitless_workloads::Write) -> Result<(), WriteError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &write.on.namespace);
        let target = Target { api, resource: "pods", status: "pods/status" };
        let Some(stored) = send(&self.writes, &target, write).await? else { return Ok(()) };
        if stored.labels().contains_key(labels::PREFETCH) {
            self.caches.inputs.prefetches.put(stored);
        } else {
            self.caches.inputs.pods.put(stored);
        }
        Ok(())
    }

    async fn provider_status(&self, write: &ProviderStatusWrite) -> Result<(), WriteError> {
        let api: Api<TrafficProvider> = Api::all(self.client.clone());
        let (params, patch) = (patching(), status(&write.version, &write.status)?.build());
        let request = api.patch_status(&write.name, &params, &patch);
        let stored = self.writes.send("trafficproviders/status", request).await?;
        self.caches.inputs.providers.put(stored);
        Ok(())
    }

    async fn rule_status(&self, write: &RuleStatusWrite) -> Result<(), WriteError> {
        let api: Api<Lenient<PodTransitionRule>> = Api::namespaced(self.client.clone(), &write.namespace);
        let (params, patch) = (patching(), status(&write.version, &write.status)?.build());
        let request = api.patch_status(&write.name, &params, &patch);
        let stored = self.writes.send("podtransitionrules/status", request).await?;
        self.caches.inputs.rules.put(stored);
        Ok(())
    }
}

/// A new status for the version that was decided on.
fn status(version: &Version, status: &impl serde::Serialize) -> Result<JsonPatch, WriteError> {
    let tested = JsonPatch::of(&version.uid).test(&["metadata", "resourceVersion"], version.resource_version.as_str());
    Ok(tested.add(&["status"], value(status)?))
}

fn value(of: &impl serde::Serialize) -> Result<Value, WriteError> {
    serde_json::to_value(of).map_err(|error| invalid(&error))
}

fn invalid(error: &serde_json::Error) -> WriteError {
    WriteError::Invalid { message: error.to_string() }
}

#[cfg(test)]
mod tests;

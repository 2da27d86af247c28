//! Carries the steps of a round out: each write once, conditional, in the round's order.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hitless_api::ObjectRef;
use hitless_api::names::{GROUP, labels};
use hitless_rollout::round::Step;
use hitless_runtime::lease::Leadership;
use hitless_runtime::liveness::Heartbeat;
use hitless_runtime::write::{WriteError, Writes};
use hitless_store::inputs::Input;
use hitless_store::inputs::rows::{Bindings, Ledgers, NodeTransitions, Providers, Rules};
use hitless_store::{Target, Written, api_of, send};
use hitless_workloads::Write;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use crate::watches::{Caches, Objects};

mod queue;
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
        let (client, namespace) = (self.client.clone(), write.on.namespace.as_str());
        match (&*write.on.group_kind.group, &*write.on.group_kind.kind) {
            (GROUP, "TransitionLedger") => {
                self.one::<Ledgers>(write, Api::namespaced(client, namespace), "transitionledgers").await
            }
            (GROUP, "NodeTransition") => self.one::<NodeTransitions>(write, Api::all(client), "nodetransitions").await,
            (GROUP, "PodTransitionRule") => {
                self.one::<Rules>(write, Api::namespaced(client, namespace), "podtransitionrules/status").await
            }
            (GROUP, "TrafficProvider") => {
                self.one::<Providers>(write, Api::all(client), "trafficproviders/status").await
            }
            ("rbac.authorization.k8s.io", "RoleBinding") => {
                let write = self.owned(write)?;
                self.one::<Bindings>(&write, Api::namespaced(client, namespace), "rolebindings").await
            }
            ("", "Service") => self.service(write, Api::namespaced(client, namespace)).await,
            ("", "Pod") => self.pod(write, Api::namespaced(client, namespace)).await,
            _ => self.workload(write).await,
        }
    }

    /// To an object of a row of the table of inputs. `resource` is its name in metrics, with the subresource that is written.
    async fn one<R>(&self, write: &Write, api: Api<R::Object>, resource: &'static str) -> Result<(), WriteError>
    where
        R: Input,
        R::Object: Written,
    {
        let target = Target { api, resource, status: resource };
        if let Some(stored) = send(&self.writes, &target, write).await? {
            R::of(&self.caches.inputs).put(stored);
        }
        Ok(())
    }

    /// With the uid of its owner, where a write before this one has made that: only ledgers are.
    fn owned(&self, write: &Write) -> Result<Write, WriteError> {
        let made = |owner: &ObjectRef| {
            let ledger = self.caches.inputs.ledgers.get(&owner.namespace, &owner.name)?;
            Some(ledger.version.uid.clone())
        };
        let gone = || WriteError::Conflict { message: "the ledger that is to own it is gone".to_owned() };
        write.clone().owned_by(made).ok_or_else(gone)
    }

    async fn workload(&self, write: &Write) -> Result<(), WriteError> {
        let known = self.caches.objects.iter().find(|known| known.resource.group_kind == write.on.group_kind);
        let Some(Objects { resource, cache }) = known else {
            return Err(WriteError::Invalid { message: format!("no kind has objects like {}", write.on.label()) });
        };
        let api = api_of(&self.client, resource, &write.on.namespace);
        let target = Target { api, resource: resource.plural, status: resource.plural };
        if let Some(stored) = send(&self.writes, &target, write).await? {
            cache.put(stored);
        }
        Ok(())
    }

    async fn pod(&self, write: &Write, api: Api<Pod>) -> Result<(), WriteError> {
        let target = Target { api, resource: "pods", status: "pods/status" };
        let Some(stored) = send(&self.writes, &target, write).await? else { return Ok(()) };
        if stored.labels().contains_key(labels::PREFETCH) {
            self.caches.inputs.prefetches.put(stored);
        } else {
            self.caches.inputs.pods.put(stored);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! The writes to pods: carried out, and what their answers mean for the next decision.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{self, StreamExt as _};
use hitless_api::{Grant, PodRef, names};
use hitless_runtime::watch::Source;
use hitless_runtime::write::{WriteError, Writes};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use crate::caches::Caches;
use crate::config_files;
use crate::decision::{Action, Direction};
use crate::deed::Deed;
use crate::memory::Memory;
use crate::patch;
use crate::pauses::PodPauses;
use crate::view::{Missing, NodePod};

/// Looks at volumes at a time.
const LOOKS: usize = 4;
/// Pods that are read at a time.
const READS_AT_A_TIME: usize = 16;

/// The writer of pods.
pub(super) struct Pods {
    client: Client,
    caches: Caches,
    writes: Writes,
    wake: Arc<Notify>,
    proc_root: PathBuf,
    /// Places for looks at volumes.
    looks: Arc<Semaphore>,
    /// Pods whose last write failed, by uid.
    pauses: Mutex<PodPauses<Instant>>,
}

impl Pods {
    pub(super) fn new(client: Client, caches: Caches, writes: Writes, wake: Arc<Notify>, proc_root: PathBuf) -> Self {
        let looks = Arc::new(Semaphore::new(LOOKS));
        Self { client, caches, writes, wake, proc_root, looks, pauses: Mutex::default() }
    }

    /// Reads the pods of these grants from the API server's store, because the list that the cache begins with may be older. Says whether
    /// all that is cached of them is as new.
    pub(super) async fn confirm(&self, grants: &[Grant]) -> bool {
        let pods: BTreeSet<&PodRef> = grants.iter().map(|grant| &grant.pod).collect();
        let confirm = |id: &PodRef| {
            let id = id.clone();
            async move {
                let Some(known) = self.caches.pods.get(&id.namespace, &id.name) else { return true };
                match self.read(&id).await {
                    Ok(Some(pod)) if pod.metadata.uid.as_deref() == Some(known.view.id.uid.as_str()) => {
                        self.caches.pods.put(pod);
                        true
                    }
                    // The watch is about to tell that it is gone.
                    Ok(_) => false,
                    Err(error) => {
                        tracing::warn!(pod = id.name, %error, "can't read a pod that has a grant, trying again");
                        false
                    }
                }
            }
        };
        let answers = stream::iter(pods).map(confirm).buffer_unordered(READS_AT_A_TIME);
        answers.all(|is_confirmed| async move { is_confirmed }).await
    }

    /// When the first of the paused writes is to be tried again.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.pauses().next(Instant::now())
    }

    /// Carries out the next step of a grant, if its pod is not paused. `pod` is the one that this was decided on: a newer one,
    /// which may have come while earlier writes of the round were under way, is decided on anew.
    pub(super) async fn act(
        &self,
        grant: &Grant,
        action: &Action,
        pod: Option<&NodePod>,
        memory: &mut Memory,
        node: &str,
    ) {
        if self.is_paused(&grant.pod.uid) {
            return;
        }
        if *action == Action::FetchPod {
            return self.look(grant, memory, node, pod.is_some()).await;
        }
        let Some(pod) = pod else { return };
        if *action == Action::LookAtVolumes {
            return self.look_at_volumes(grant, memory).await;
        }
        memory.sending(action, grant, &pod.view, super::now());
        let result = match action {
            Action::FetchPod | Action::LookAtVolumes => return,
            Action::WantVolumes => self.want_volumes(pod).await,
            Action::LeaveService => self.set_in_service(pod, false, "Leaving", &grant.id).await,
            Action::ShowDrained => self.show_drained(pod, &grant.id).await,
            Action::ReturnToService { reason, message } => self.set_in_service(pod, true, reason, message).await,
            Action::Patch(direction) => self.patch(grant, pod, *direction).await,
        };
        let now = super::now();
        match &result {
            Ok(()) => memory.done(action, now),
            Err(WriteError::Denied { message } | WriteError::Invalid { message }) => {
                memory.not_done(action);
                memory.refused(action, "AdmissionDenied", message, now);
            }
            Err(WriteError::Conflict { message } | WriteError::Gone { message }) => {
                memory.not_done(action);
                // Another resourceVersion passes quickly; what an image patch tests may stay as it is.
                if matches!(action, Action::Patch(_)) {
                    memory.refused(action, "PatchConflict", message, now);
                }
            }
            Err(WriteError::Transient { .. }) => {}
        }
        self.learn(&grant.pod, result).await;
    }

    /// Raises InService of a pod that has no operation.
    pub(super) async fn raise(&self, pod: &NodePod, reason: &str) {
        let id = &pod.view.id;
        if self.is_paused(&id.uid) {
            return;
        }
        let result = self.set_in_service(pod, true, reason, "").await;
        self.learn(id, result).await;
    }

    /// Asks for a pod that is not in the cache; or for one that is, to see how quickly the API server answers.
    async fn look(&self, grant: &Grant, memory: &mut Memory, node: &str, is_known: bool) {
        let id = &grant.pod;
        let asked = Instant::now();
        let answer = self.read(id).await;
        if answer.is_ok() {
            memory.answered(u32::try_from(asked.elapsed().as_millis()).unwrap_or(u32::MAX), super::now());
        }
        match answer {
            Ok(Some(pod)) if is_known && pod.metadata.uid.as_ref() == Some(&id.uid) => self.caches.pods.put(pod),
            // Its deletion will be seen.
            Ok(_) if is_known => {}
            Ok(None) => memory.missing = Some(Missing::Gone),
            Ok(Some(pod)) if pod.metadata.uid.as_ref() != Some(&id.uid) => memory.missing = Some(Missing::OtherUid),
            Ok(Some(pod)) if pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) != Some(node) => {
                memory.missing = Some(Missing::OtherNode);
            }
            Ok(Some(pod)) => {
                self.caches.pods.put(pod);
                // Its deletion may have been seen already; then the next answer is that it is gone.
                return self.pauses().read_anew(&id.uid, Instant::now());
            }
            Err(error) => {
                tracing::warn!(pod = id.name, %error, "can't read the pod, trying again");
                return self.pauses().unread(&id.uid, Instant::now());
            }
        }
        self.pauses().succeeded(&id.uid);
        // Decide anew with the answer.
        self.wake.notify_one();
    }

    /// Files are read on another thread, and the loop waits for it no longer than it may be away. What hangs there (a file system that
    /// does not answer) keeps its place, so that only few threads can hang.
    async fn look_at_volumes(&self, grant: &Grant, memory: &mut Memory) {
        let Some(expected) = grant.config.clone() else { return };
        let (proc_root, uid) = (self.proc_root.clone(), grant.pod.uid.clone());
        let looked = match self.looks.clone().try_acquire_owned() {
            Err(_) => Err("other volumes of this node are being read, which takes long".to_owned()),
            Ok(place) => {
                let look = spawn_blocking(move || {
                    let looked = config_files::are_as_expected(&proc_root, &uid, &expected);
                    drop(place);
                    looked
                });
                match timeout(config_files::LONGEST, look).await {
                    Ok(looked) => looked.unwrap_or_else(|error| Err(error.to_string())),
                    Err(_) => Err(format!("reading them takes longer than {:?}", config_files::LONGEST)),
                }
            }
        };
        memory.looked_at_volumes(looked, super::now());
        // Decide anew with the answer.
        self.wake.notify_one();
    }

    async fn want_volumes(&self, pod: &NodePod) -> Result<(), WriteError> {
        let patch = patch::want_volumes(pod, super::now()).build();
        let (source, params) = (self.source(&pod.view.id), params());
        let text = self.writes.send("pods", source.patch(&pod.view.id.name, None, &params, &patch)).await?;
        self.put(&text);
        self.wake.notify_one();
        Ok(())
    }

    async fn set_in_service(
        &self,
        pod: &NodePod,
        is_true: bool,
        reason: &str,
        message: &str,
    ) -> Result<(), WriteError> {
        self.send_in_service(pod, patch::in_service(&pod.view, is_true, reason, message, super::now())).await
    }

    async fn show_drained(&self, pod: &NodePod, id: &str) -> Result<(), WriteError> {
        self.send_in_service(pod, patch::drained(&pod.view, id, super::now())).await
    }

    async fn send_in_service(&self, pod: &NodePod, body: Value) -> Result<(), WriteError> {
        let (source, patch, params) = (self.source(&pod.view.id), Patch::Strategic(&body), params());
        let write = source.patch(&pod.view.id.name, Some("status"), &params, &patch);
        let text = self.writes.send("pods/status", write).await?;
        self.put(&text);
        Ok(())
    }

    async fn patch(&self, grant: &Grant, pod: &NodePod, direction: Direction) -> Result<(), WriteError> {
        let patch = Deed::of(grant).patch(pod, direction).build();
        let (source, params) = (self.source(&pod.view.id), params());
        let write = source.patch(&pod.view.id.name, None, &params, &patch);
        let text = self.writes.send("pods", write).await?;
        self.put(&text);
        Ok(())
    }

    /// What the answer means for the next write.
    async fn learn(&self, pod: &PodRef, result: Result<(), WriteError>) {
        let Err(error) = result else {
            self.pauses().succeeded(&pod.uid);
            return;
        };
        tracing::info!(namespace = pod.namespace, pod = pod.name, %error, "a write was not done");
        if error.is_stale() {
            self.refresh(pod).await;
        }
        self.pauses().failed(&pod.uid, &error, Instant::now());
    }

    /// Reads a pod anew that was not what we thought.
    async fn refresh(&self, pod: &PodRef) {
        match self.read(pod).await {
            Ok(Some(pod)) => self.caches.pods.put(pod),
            // The watch will tell.
            Ok(None) => {}
            Err(error) => tracing::warn!(pod = pod.name, %error, "can't read the pod"),
        }
    }

    /// Whether the last write to the pod failed.
    pub(super) fn has_failed(&self, uid: &str) -> bool {
        self.pauses().has_failed(uid)
    }

    /// Whether nothing is to be written to the pod just now.
    pub(super) fn is_paused(&self, uid: &str) -> bool {
        self.pauses().is_paused(uid, Instant::now())
    }

    fn pauses(&self) -> MutexGuard<'_, PodPauses<Instant>> {
        // Every change leaves it valid, so a panic elsewhere can't have left it broken.
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pod as it is in the API server's store, if it is there; as an outline if it is too large.
    async fn read(&self, pod: &PodRef) -> Result<Option<Pod>, WriteError> {
        let text = Writes::read(self.source(pod).get(&pod.name)).await?;
        let invalid = |error: serde_json::Error| WriteError::Invalid { message: error.to_string() };
        text.map(|text| self.caches.pods.read(&text).map_err(invalid)).transpose()
    }

    /// What the API server has returned for a write.
    fn put(&self, text: &str) {
        match self.caches.pods.read(text) {
            Ok(pod) => self.caches.pods.put(pod),
            // It has been written. The watch tells, too.
            Err(error) => tracing::warn!(%error, "a pod does not parse"),
        }
    }

    fn source(&self, pod: &PodRef) -> Source {
        Api::<Pod>::namespaced(self.client.clone(), &pod.namespace).into()
    }
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(names::AGENT.into()), ..PatchParams::default() }
}

#[cfg(test)]
mod tests;

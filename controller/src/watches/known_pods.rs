//! Which pods are known: all of the namespaces that matter, and of the others those that carry something of ours. A pod takes one to
//! three KiB, and a cluster may have hundreds of thousands of pods in which there is nothing to do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use hitless_api::names::OTHER_PODS;
use hitless_api::pod::{PodView, Sharing};
use hitless_rollout::snapshot::{Namespaces, is_ours};
use hitless_runtime::list;
use hitless_runtime::watch::Cache;
use hitless_runtime::write::WriteError;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::READS_AT_A_TIME;

/// What was not read is tried again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// The pods of the largest clusters are read in less.
const LONGEST: Duration = Duration::from_mins(2);

/// What is known of pods beside themselves. What a panic has left in a lock is as good as any.
#[derive(Default)]
pub(super) struct KnownPods {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sharing: Sharing,
    /// What the watch tells of them is kept.
    kept: Namespaces,
    /// And what was there before has been read, too.
    read: Namespaces,
    is_reading: bool,
}

impl KnownPods {
    /// What is kept of a pod.
    pub(super) fn view(&self, pod: &Pod) -> Option<PodView> {
        let mut view = PodView::from(pod);
        let mut state = self.state();
        if !state.kept.contains(&view.id.namespace) && !is_ours(&view) {
            return None;
        }
        state.sharing.share(&mut view);
        Some(view)
    }

    /// Whether all pods of the wanted namespaces are known. If they are not, they are being read from now on, in a task of its own: there
    /// may be very many, and the loop of rounds has to be seen alive. `wake` is notified at its end.
    pub(super) fn are_known(
        self: &Arc<Self>,
        client: &Client,
        cache: &Cache<Pod, PodView>,
        wanted: &Namespaces,
        wake: &Arc<Notify>,
    ) -> bool {
        let new = {
            let mut state = self.state();
            let Some(new) = wanted.beyond(&state.read) else { return true };
            if state.is_reading {
                return false;
            }
            state.is_reading = true;
            state.kept.add(&new);
            new
        };
        let (known, client, cache, wake) = (Arc::clone(self), client.clone(), cache.clone(), Arc::clone(wake));
        tokio::spawn(async move {
            match timeout(LONGEST, read(client, &cache, &new)).await {
                Ok(Ok(true)) => known.state().read.add(&new),
                Ok(Ok(false)) => sleep(AGAIN).await,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "can't read the pods of namespaces in which there is something to do");
                    sleep(AGAIN).await;
                }
                Err(_) => {
                    tracing::warn!("the pods of namespaces in which there is something to do were not read in time");
                }
            }
            known.state().is_reading = false;
            wake.notify_one();
        });
        false
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says whether all of them were read. Not where the watch reads a list of its own, or has begun one meanwhile.
async fn read(client: Client, cache: &Cache<Pod, PodView>, new: &Namespaces) -> Result<bool, WriteError> {
    if !cache.begin_load() {
        return Ok(false);
    }
    // One that does not parse is left out, as by the watch.
    let apis: Vec<Api<DeserializeGuard<Pod>>> = match new {
        Namespaces::All => vec![Api::all(client)],
        Namespaces::Only(names) => names.iter().map(|name| Api::namespaced(client.clone(), name)).collect(),
    };
    let load = |api: Api<DeserializeGuard<Pod>>| async move {
        let put = |DeserializeGuard(pod): DeserializeGuard<Pod>| {
            match pod {
                Ok(pod) => cache.load(pod),
                Err(error) => tracing::error!(%error, "skipping a pod that does not parse"),
            }
            None::<()>
        };
        list::all(&api, ListParams::default().labels(OTHER_PODS), put).await
    };
    let answer = stream::iter(apis).map(load).buffer_unordered(READS_AT_A_TIME).try_collect::<Vec<_>>().await;
    let is_whole = cache.end_load();
    answer?;
    Ok(is_whole)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(namespace: &str, annotations: &Value) -> Pod {
        let metadata = json!({"namespace": namespace, "name": "web", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn of_namespaces_without_anything_of_ours_only_pods_are_known_that_carry_something() {
        let known = Arc::new(KnownPods::default());
        let (plain, asked) = (json!({}), json!({"hitless.dev/restart": "1"}));
        assert!(known.view(&pod("shop", &plain)).is_none());
        assert!(known.view(&pod("shop", &asked)).is_some());
        assert!(known.view(&pod("hitless-system", &plain)).is_some(), "the agents are there");
        known.state.lock().unwrap().kept.add(&Namespaces::Only(["shop".to_owned()].into()));
        assert!(known.view(&pod("shop", &plain)).is_some());
    }
}

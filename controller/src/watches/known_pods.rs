//! Which pods are known: all of the namespaces that matter, and of the others those that carry something of ours. A pod takes one to
//! three KiB, and a cluster may have hundreds of thousands of pods in which there is nothing to do.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use hitless_api::pod::{PodView, Sharing};
use hitless_rollout::snapshot::{Namespaces, is_ours};
use hitless_runtime::backoff::Pauses;
use hitless_runtime::watch::{self, Cache};
use hitless_store::inputs::Input as _;
use hitless_store::inputs::rows::Pods;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::{PAGED, READS_AT_A_TIME};

/// What was not read is tried again after so long, and after twice as long each time.
const AGAIN: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(30);

/// The pods of most namespaces are read in much less. Those of one that takes longer keep no others waiting.
const SHORT: Duration = Duration::from_secs(10);
/// The pods of the largest clusters are read in less.
const LONGEST: Duration = Duration::from_mins(2);

/// What is known of pods beside themselves. What a panic has left in a lock is as good as any.
#[derive(Default)]
pub(super) struct KnownPods {
    state: Mutex<State>,
}

struct State {
    sharing: Sharing,
    /// What the watch tells of them is kept.
    kept: Namespaces,
    /// And what was there before has been read, too.
    read: Namespaces,
    is_reading: bool,
    /// Those that could not be read, as [`Part::key`].
    failed: Pauses<String, Instant>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            sharing: Sharing::default(),
            kept: Namespaces::default(),
            read: Namespaces::default(),
            is_reading: false,
            failed: Pauses::new(LATEST),
        }
    }
}

/// Where pods are not known that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnreadPods {
    /// Namespaces in which there is something to do.
    pub(crate) namespaces: BTreeSet<String>,
    /// Some budget counts all pods of the cluster, and not all are known.
    pub(crate) uncounted: bool,
}

/// What is read at once.
#[derive(Clone, Debug)]
struct Part {
    namespaces: Namespaces,
    longest: Duration,
}

impl Part {
    /// Each namespace by itself: one that can't be read is missing alone.
    fn each(of: &Namespaces) -> Vec<Namespaces> {
        match of {
            Namespaces::All => vec![Namespaces::All],
            Namespaces::Only(names) => names.iter().map(|name| Namespaces::Only([name.clone()].into())).collect(),
        }
    }

    /// Name of the namespace; empty for all.
    fn key(of: &Namespaces) -> String {
        match of {
            Namespaces::All => String::new(),
            Namespaces::Only(names) => names.first().cloned().unwrap_or_default(),
        }
    }
}

impl State {
    /// What of `new` is to be read now. What has failed before comes after all that has not.
    fn due(&self, new: &Namespaces, now: Instant) -> Vec<Part> {
        let parts = Part::each(new).into_iter().filter(|part| !self.failed.is_paused(&Part::key(part), now));
        let (again, first): (Vec<_>, Vec<_>) = parts.partition(|part| self.failed.contains(&Part::key(part)));
        let with = |longest| move |namespaces| Part { namespaces, longest };
        if first.is_empty() {
            return again.into_iter().map(with(LONGEST)).collect();
        }
        let longest = if *new == Namespaces::All { LONGEST } else { SHORT };
        first.into_iter().map(with(longest)).collect()
    }
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

    /// Where pods of the wanted namespaces are not known; `named` are those in which there is something to do. They are being read from now
    /// on, in a task of its own: there may be very many, and the loop of rounds has to be seen alive. `wake` is notified at its end.
    pub(super) fn unread(
        self: &Arc<Self>,
        client: &Client,
        cache: &Cache<Pod, PodView>,
        wanted: &Namespaces,
        named: &BTreeSet<String>,
        wake: &Arc<Notify>,
    ) -> UnreadPods {
        let (parts, unread) = {
            let mut state = self.state();
            let Some(new) = wanted.beyond(&state.read) else { return UnreadPods::default() };
            let namespaces = named.iter().filter(|name| !state.read.contains(name)).cloned().collect();
            let unread = UnreadPods { namespaces, uncounted: new == Namespaces::All };
            let parts = if state.is_reading { Vec::new() } else { state.due(&new, Instant::now()) };
            if parts.is_empty() {
                return unread;
            }
            state.is_reading = true;
            state.kept.add(&new);
            (parts, unread)
        };
        let (known, client, cache, wake) = (Arc::clone(self), client.clone(), cache.clone(), Arc::clone(wake));
        tokio::spawn(async move {
            if !known.read(client, &cache, parts).await {
                sleep(AGAIN).await;
            }
            known.state().is_reading = false;
            wake.notify_one();
        });
        unread
    }

    /// Says whether all of them were read. None was where the watch reads a list of its own, or has begun one meanwhile.
    async fn read(&self, client: Client, cache: &Cache<Pod, PodView>, parts: Vec<Part>) -> bool {
        if !cache.begin_load() {
            return false;
        }
        let load = |part: Part| {
            let api: Api<Pod> = match &part.namespaces {
                Namespaces::All => Api::all(client.clone()),
                Namespaces::Only(_) => Api::namespaced(client.clone(), &Part::key(&part.namespaces)),
            };
            async move {
                let (source, selection) = (api.into(), Pods::SELECT.watch(PAGED));
                let answer = match timeout(part.longest, watch::load(&source, &selection, cache)).await {
                    Ok(answer) => answer.map_err(|error| error.to_string()),
                    Err(_) => Err(format!("not within {} s", part.longest.as_secs())),
                };
                (part, answer)
            }
        };
        let answers: Vec<_> = stream::iter(parts).map(load).buffer_unordered(READS_AT_A_TIME).collect().await;
        let (is_whole, now) = (cache.end_load(), Instant::now());
        let (mut state, mut is_read) = (self.state(), is_whole);
        for (part, answer) in answers {
            let key = Part::key(&part.namespaces);
            match answer {
                Ok(()) if is_whole => {
                    state.failed.remove(&key);
                    state.read.add(&part.namespaces);
                }
                Ok(()) => {}
                Err(error) => {
                    is_read = false;
                    let namespace = if key.is_empty() { "all" } else { &key };
                    tracing::warn!(namespace, %error, "can't read the pods of a namespace in which there is something to do");
                    state.failed.grow(key, AGAIN, Duration::ZERO, now);
                }
            }
        }
        is_read
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

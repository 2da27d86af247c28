//! The thread that looks.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::Notify;

use super::notifier::Notifier;
use super::observed::{Observed, Target};
use crate::view::Observation;

/// Of so many connections of one pod it is kept which they are ...
const MOST_OF_A_POD: usize = 4096;
/// ... and of so many of all pods that are looked at.
const MOST_OF_ALL: usize = 16_384;

/// Looks at the pods that it is told to look at; asleep while there are none. Dropping it ends the thread.
#[derive(Debug)]
pub struct Observer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when the targets have changed.
    changed: Notifier,
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// Targets by pod uid.
    targets: BTreeMap<String, Target>,
    /// Answers by pod uid.
    observations: BTreeMap<String, Observation>,
    stop: bool,
}

impl Observer {
    /// Starts the thread. `proc_root` is the `/proc` of the node's process namespace; `wake` is notified when something that
    /// was observed has changed.
    pub fn start(proc_root: PathBuf, wake: Arc<Notify>) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Notifier::new()?, wake });
        let worker = shared.clone();
        let thread = std::thread::Builder::new().name("drain".into()).spawn(move || worker.work(&proc_root))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Looks at these pods, and at no others, from now on.
    pub fn set_targets(&self, targets: BTreeMap<String, Target>) {
        let mut state = self.shared.state();
        if state.targets != targets {
            state.observations.retain(|uid, _| targets.contains_key(uid));
            state.targets = targets;
            self.shared.changed.notify();
        }
    }

    /// What was seen last of one pod.
    #[must_use]
    pub fn observation(&self, pod_uid: &str) -> Option<Observation> {
        self.shared.state().observations.get(pod_uid).cloned()
    }

    /// What was seen last of each pod.
    #[must_use]
    pub fn observations(&self) -> BTreeMap<String, Observation> {
        self.shared.state().observations.clone()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.changed.notify();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the drain thread has panicked");
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is a single map operation, so a panic elsewhere can't have left it broken.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, proc_root: &std::path::Path) {
        let mut pods: BTreeMap<String, Observed> = BTreeMap::new();
        // Of the node's own namespace; opened when it is needed.
        let mut node = None;
        loop {
            let state = self.state();
            if state.stop {
                return;
            }
            let gone = follow(&mut pods, &state.targets, Instant::now());
            drop(state);
            for pod in gone {
                pod.end(proc_root, &mut node, Instant::now());
            }
            self.wait(&mut pods);
            for (uid, pod) in &mut pods {
                let now = Instant::now();
                if pod.next <= now {
                    let observation = pod.look(proc_root, &mut node, now);
                    self.note(uid, observation);
                }
            }
        }
    }

    /// Until something is due or a target has changed, or a connection has ended somewhere.
    fn wait(&self, pods: &mut BTreeMap<String, Observed>) {
        self.changed.wait(pods.values().filter_map(Observed::destroy_events), pods.values().map(|pod| pod.next).min());
        let now = Instant::now();
        for pod in pods.values_mut() {
            pod.note_ends(now);
        }
    }

    fn note(&self, uid: &str, observation: Observation) {
        let mut state = self.state();
        let is_news = state.targets.contains_key(uid) && state.observations.get(uid) != Some(&observation);
        if is_news {
            state.observations.insert(uid.to_owned(), observation);
            drop(state);
            self.wake.notify_one();
        }
    }
}

/// Returns those that are not looked at any more.
fn follow(pods: &mut BTreeMap<String, Observed>, targets: &BTreeMap<String, Target>, now: Instant) -> Vec<Observed> {
    let gone = pods.extract_if(.., |uid, _| !targets.contains_key(uid)).map(|(_, pod)| pod).collect();
    for (uid, target) in targets {
        pods.entry(uid.clone())
            .and_modify(|pod| pod.follow(target.clone(), now))
            .or_insert_with(|| Observed::new(uid.clone(), target.clone(), now));
    }
    let most = MOST_OF_A_POD.min(MOST_OF_ALL / pods.len().max(1));
    for pod in pods.values_mut() {
        pod.limit(most);
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::observed::Stage;
    use hitless_api::DrainSpec;

    fn target() -> Target {
        let (drain, probe_periods, containers) = (DrainSpec::default(), vec![], vec![]);
        Target { stage: Stage::Draining, drain, probe_periods, containers, must_listen: false, sctp: None, udp: false }
    }

    #[tokio::test]
    async fn a_pod_that_can_not_be_found_is_a_failure_and_never_a_count() {
        let empty = tempfile::tempdir().unwrap();
        let wake = Arc::new(Notify::new());
        let observer = Observer::start(empty.path().to_owned(), wake.clone()).unwrap();
        observer.set_targets(BTreeMap::from([("0a-1b".to_owned(), target())]));
        wake.notified().await;
        let seen = observer.observations();
        assert!(matches!(&seen["0a-1b"], Observation::Failed(why) if why.contains("no process")), "{seen:?}");
        observer.set_targets(BTreeMap::new());
        assert!(observer.observations().is_empty());
    }
}

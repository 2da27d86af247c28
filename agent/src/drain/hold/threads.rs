//! A thread for each pod in a Hold, so that none waits for another's.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::Notify;

use super::job::{Jobs, Target};
use super::worker::{self, ListenedPorts};
use crate::view::Observation;

/// What such a thread needs at most; it keeps nothing big on its stack.
const STACK_BYTES: usize = 256 * 1024;

/// Holds new connections of the pods that it is told of. Dropping it lets all of them in.
#[derive(Debug)]
pub struct HoldThreads {
    jobs: Arc<Jobs>,
    /// All that have not been seen to have ended.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl HoldThreads {
    /// Nothing is held yet. `proc_root` is the `/proc` of the node's process namespace; `wake` is notified of news.
    #[must_use]
    pub fn new(proc_root: PathBuf, wake: Arc<Notify>) -> Self {
        Self { jobs: Arc::new(Jobs::new(proc_root, wake)), threads: Mutex::default() }
    }

    /// Does as told, and lets clients of all other pods in.
    pub fn set_targets(&self, targets: BTreeMap<String, Target>) {
        let mut threads = self.threads();
        threads.retain(|thread| !thread.is_finished());
        self.jobs.set_targets(targets, |uid| match start(self.jobs.clone(), uid.to_owned()) {
            Ok(thread) => {
                threads.push(thread);
                true
            }
            Err(error) => {
                tracing::error!(pod_uid = uid, %error, "can't start a thread to hold connections");
                false
            }
        });
    }

    /// How one Hold stands.
    #[must_use]
    pub fn observation(&self, pod_uid: &str) -> Option<Observation> {
        self.jobs.observation(pod_uid)
    }

    /// How each Hold stands.
    #[must_use]
    pub fn observations(&self) -> BTreeMap<String, Observation> {
        self.jobs.observations()
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        // Every change leaves it whole, so a panic elsewhere can't have left it broken.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HoldThreads {
    fn drop(&mut self) {
        self.jobs.stop();
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!(
                    "a thread that held new connections has panicked; they are let in by the kernel's timer"
                );
            }
        }
    }
}

/// One operation of the pod after another, until none is left.
fn start(jobs: Arc<Jobs>, uid: String) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("hold".into()).stack_size(STACK_BYTES).spawn(move || {
        let mut ports = ListenedPorts::default();
        while let Some(job) = jobs.next(&uid) {
            worker::run(&job, &mut ports);
        }
    })
}

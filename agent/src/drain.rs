//! The kernel's side of an operation: looking at the sockets of pods that leave, and holding new connections of pods that
//! stay. On threads of their own, because the calls block, and only while there is something to do.

mod ambiguous;
pub mod hold;
mod in_flight;
mod notifier;
pub mod observed;
pub mod observer;
pub mod quiet;
mod restart;
mod stragglers;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use hitless_api::PortTreatment;
use hitless_api::pod::{ContainerView, PodView};
use hitless_kernel::{KernelError, PodNetns};
use tokio::sync::Notify;

use crate::view::Observation;
use hold::HoldThreads;
use observer::Observer;

/// Whether somebody must be seen to listen in the pod: a container is ready that is probed by connections, or has TCP ports. One that
/// is being deleted may listen no more.
pub(crate) fn must_listen(pod: &PodView) -> bool {
    let is_ready = |container: &&ContainerView| container.status.as_ref().is_some_and(|status| status.ready);
    let mut ready = pod.containers.iter().filter(is_ready);
    !pod.terminating
        && ready.any(|container| {
            let has_tcp = container.ports.iter().any(|port| port.treatment != PortTreatment::Udp);
            has_tcp || !container.probe_periods.is_empty()
        })
}

/// Fails if somebody must listen, and nobody is seen to: then a count of 0 says nothing.
pub(crate) fn ensure_listened(netns: &PodNetns, pod_uid: &str, must_listen: bool) -> Result<(), KernelError> {
    if must_listen && netns.listeners()?.is_empty() {
        return Err(KernelError::NobodyListens { pod_uid: pod_uid.to_owned() });
    }
    Ok(())
}

/// All of them.
#[derive(Debug)]
pub struct Threads {
    /// Looks at pods that leave.
    pub observer: Observer,
    /// Holds new connections of pods that stay.
    pub holds: HoldThreads,
    /// The `/proc` of the node's process namespace.
    pub proc_root: PathBuf,
}

impl Threads {
    /// Nothing is to be done yet. `proc_root` is the `/proc` of the node's process namespace; `wake` is notified of news.
    pub fn start(proc_root: PathBuf, wake: &Arc<Notify>) -> io::Result<Self> {
        let observer = Observer::start(proc_root.clone(), wake.clone())?;
        Ok(Self { observer, holds: HoldThreads::new(proc_root.clone(), wake.clone()), proc_root })
    }

    /// What is known of one pod.
    #[must_use]
    pub fn observation(&self, pod_uid: &str) -> Observation {
        let held = self.holds.observation(pod_uid);
        held.or_else(|| self.observer.observation(pod_uid)).unwrap_or_default()
    }

    /// What is known of each pod, by its uid.
    #[must_use]
    pub fn observations(&self) -> BTreeMap<String, Observation> {
        let mut observations = self.observer.observations();
        observations.extend(self.holds.observations());
        observations
    }
}

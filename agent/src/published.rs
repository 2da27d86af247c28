//! What the agent's last round has decided, and the news that something has changed.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use hitless_api::{Phase, Transition};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// What the agent tells of one operation, beside the pod and the count.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// uid of the pod.
    pub pod_uid: String,
    /// The report as it should be now, stored or not.
    pub transition: Transition,
    /// What it waits for.
    pub waiting_for: Vec<String>,
    /// The pod is being taken out of service: the write has been sent, or is about to be.
    pub leaves_service: bool,
}

impl Step {
    /// Whether it has not ended.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.transition.result.is_none()
    }
}

/// The operations of the last round, shared with the endpoint. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Published {
    steps: Arc<Mutex<Vec<Step>>>,
    news: News,
}

impl Published {
    /// Replaces what is published.
    pub fn set(&self, steps: Vec<Step>) {
        // A replaced list is whole, whoever panicked.
        *self.steps.lock().unwrap_or_else(PoisonError::into_inner) = steps;
        self.news.tell();
    }

    /// The operation of a pod; one that has not ended before one that has.
    #[must_use]
    pub fn of(&self, pod_uid: &str) -> Option<Step> {
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.iter().filter(|step| step.pod_uid == pod_uid).min_by_key(|step| !step.is_live()).cloned()
    }

    /// Whether an operation has begun and has not ended: its pod has been taken out of service, or its new connections are held.
    #[must_use]
    pub fn any_begun(&self) -> bool {
        let has_begun = |step: &Step| step.is_live() && step.transition.phase != Phase::Granted && !step.leaves_service;
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).iter().any(has_begun)
    }

    /// uid of the pod of each operation.
    #[must_use]
    pub fn pods(&self) -> Vec<String> {
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.iter().map(|step| step.pod_uid.clone()).collect()
    }

    /// Tells of every change of what is published, and of what it was made from.
    #[must_use]
    pub const fn news(&self) -> &News {
        &self.news
    }
}

/// That something has changed which somebody may wait for; what it is has to be looked at. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct News(watch::Sender<()>);

impl News {
    /// Something has changed.
    pub fn tell(&self) {
        self.0.send_replace(());
    }

    /// Hears of every change from now on.
    #[must_use]
    pub fn hear(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }

    /// Passes on what `seen` is notified of, to the agent's loop and to everybody who listens, until `token` is cancelled. So
    /// nobody who waits for a pod waits for the loop too, which may be busy with a write.
    pub async fn relay(self, seen: Arc<Notify>, wake: Arc<Notify>, token: CancellationToken) -> Result<(), Infallible> {
        loop {
            tokio::select! {
                () = seen.notified() => {}
                () = token.cancelled() => return Ok(()),
            }
            wake.notify_one();
            self.tell();
        }
    }
}

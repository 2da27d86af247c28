//! Watches of what this program may have no right to read: the right is given and taken by others while it runs.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Cache, Progress, Selection, Source, follow, is_forbidden};

/// What may not be read is asked for again this often: the right may have been given.
const AGAIN: Duration = Duration::from_secs(15);

/// Whether the last answer was that this program may not read. Clones share it.
#[derive(Clone, Debug)]
pub struct Access {
    denied: Arc<AtomicBool>,
    wake: Arc<Notify>,
}

impl Access {
    /// Nothing is known; `wake` is notified when something is.
    #[must_use]
    pub fn new(wake: Arc<Notify>) -> Self {
        Self { denied: Arc::new(AtomicBool::new(false)), wake }
    }

    /// The API server has said no.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.denied.load(Ordering::Relaxed)
    }

    fn set(&self, denied: bool) {
        if self.denied.swap(denied, Ordering::Relaxed) != denied {
            self.wake.notify_one();
        }
    }
}

/// As [`super::run`], until `token` is cancelled; `access` says whether it is allowed. Its last content stays in the cache while it is not.
pub async fn run_if_allowed<K, T>(
    source: impl Into<Source>,
    selection: Selection,
    cache: Cache<K, T>,
    access: Access,
    token: CancellationToken,
) where
    K: Resource + DeserializeOwned,
    T: PartialEq,
{
    let source = source.into();
    while !token.is_cancelled() {
        let progress = |progress: Progress<'_>| match progress {
            Progress::Listed => {
                access.set(false);
                ControlFlow::Continue(())
            }
            Progress::Failed(error) if is_forbidden(error) => {
                access.set(true);
                ControlFlow::Break(())
            }
            Progress::Failed(_) => ControlFlow::Continue(()),
        };
        follow(&source, selection.clone(), &cache, token.clone(), progress).await;
        if access.is_denied() {
            // Either the token ends the pause, or it is over.
            _ = timeout(AGAIN, token.cancelled()).await;
        }
    }
}

#[cfg(test)]
mod tests;

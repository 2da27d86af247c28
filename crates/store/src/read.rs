//! Watched caches of what rounds look at, and the snapshot that is taken of them.

use std::sync::Arc;

use hitless_rollout::snapshot::Snapshot;
use hitless_runtime::watch::{Cache, Metrics};
use tokio::sync::Notify;

use crate::inputs::{Holder, Input, Inputs, Make, Visit, each};

/// Keeps a cache for each row.
#[derive(Clone, Copy, Debug)]
pub struct Cached;

impl Holder for Cached {
    type Of<R: Input> = Cache<R::Object, R::View>;
}

/// Makes empty caches.
pub struct Empty<'a> {
    /// Is notified after every change.
    pub wake: &'a Arc<Notify>,
    /// Count what goes wrong.
    pub metrics: &'a Metrics,
}

impl Empty<'_> {
    /// For one row.
    #[must_use]
    pub fn cache<R: Input>(&self) -> Cache<R::Object, R::View> {
        self.viewing::<R>(R::view())
    }

    /// For one row, of whose objects `view` takes what is needed.
    #[must_use]
    pub fn viewing<R: Input>(
        &self,
        view: impl Fn(R::Object) -> Option<R::View> + Send + Sync + 'static,
    ) -> Cache<R::Object, R::View> {
        Cache::outlining(R::KIND, view, R::OUTLINE, self.wake.clone(), self.metrics.clone())
    }
}

impl Make<Cached> for Empty<'_> {
    fn make<R: Input>(&mut self) -> Cache<R::Object, R::View> {
        self.cache::<R>()
    }
}

impl Inputs<Cached> {
    /// Whether every cache has been filled once.
    #[must_use]
    pub fn synced(&self) -> bool {
        struct Synced<'a>(&'a Inputs<Cached>, bool);
        impl Visit for Synced<'_> {
            fn visit<R: Input>(&mut self) {
                self.1 &= R::of(self.0).synced();
            }
        }
        let mut all = Synced(self, true);
        each(&mut all);
        all.1
    }

    /// What is in them at this time, and nothing else.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        struct Filling<'a>(&'a Inputs<Cached>, Snapshot);
        impl Visit for Filling<'_> {
            fn visit<R: Input>(&mut self) {
                R::put(&mut self.1, R::of(self.0).values());
            }
        }
        let mut filling = Filling(self, Snapshot::default());
        each(&mut filling);
        filling.1
    }
}

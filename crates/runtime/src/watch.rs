//! Watched caches: the current content of one kind, as the owner's own small structs.
//!
//! A cache is filled by [`run`] and read at any time. It is always one consistent picture of what the API server sent: a new
//! list replaces the old content at once, and an own write that the API server has returned ([`Cache::put`]) shows before the
//! watch tells of it. A picture may be old; every write is conditional, so that does no harm.

use std::convert::Infallible;
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::time::Duration;

use futures::StreamExt;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

pub use allowed::{Access, run_if_allowed};
pub use cache::{Cache, Key};
pub use metrics::Metrics;
pub use optional::{Definition, run_optional};

use crate::backoff::{Backoff, shortened};
use crate::readiness::Guard;

mod allowed;
mod cache;
mod metrics;
mod optional;

/// Waits between attempts. The first retry comes soon because it is usually an API server that has just restarted.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
/// A watch that has not failed for so long works, though it may have nothing to tell.
const WORKS: Duration = Duration::from_mins(1);

/// How the content is fetched before it is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// One object after the other out of the API server's watch cache: cheap for both sides. Where the API server does not
    /// know it (before Kubernetes 1.34 or with the feature off), pages of this many objects.
    Streaming(u32),
    /// The most recent content, in pages of this many objects.
    Paged(u32),
}

/// Which objects are watched.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Label selector.
    pub labels: Option<String>,
    /// Field selector.
    pub fields: Option<String>,
    /// How they are fetched first.
    pub listing: Listing,
}

impl Selection {
    /// All objects.
    #[must_use]
    pub const fn all(listing: Listing) -> Self {
        Self { labels: None, fields: None, listing }
    }

    /// Those that match a field selector, e.g. `spec.nodeName=a`.
    #[must_use]
    pub fn fields(selector: impl Into<String>, listing: Listing) -> Self {
        Self { fields: Some(selector.into()), ..Self::all(listing) }
    }

    /// Those that match a label selector, e.g. `app=web`.
    #[must_use]
    pub fn labels(selector: impl Into<String>, listing: Listing) -> Self {
        Self { labels: Some(selector.into()), ..Self::all(listing) }
    }

    fn config(&self) -> watcher::Config {
        let config = watcher::Config {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..watcher::Config::default()
        };
        match self.listing {
            Listing::Streaming(page) => config.page_size(page).streaming_lists(),
            Listing::Paged(page) => config.page_size(page),
        }
    }
}

/// Keeps `cache` up to date until `token` is cancelled; `ready` is done with the first complete list.
/// Errors of the API server are logged, counted and tried again after at most 10 s.
pub async fn run<K, T>(
    api: Api<DeserializeGuard<K>>,
    selection: Selection,
    cache: Cache<K, T>,
    ready: Guard,
    token: CancellationToken,
) -> Result<(), Infallible>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    K::DynamicType: Clone,
    T: PartialEq,
{
    let mut ready = Some(ready);
    let done = |progress: Progress<'_>| {
        if let Progress::Listed = progress
            && let Some(guard) = ready.take()
        {
            guard.done();
        }
        ControlFlow::Continue(())
    };
    follow(api, selection, &cache, token, done).await;
    Ok(())
}

/// What a watch has come to.
#[derive(Clone, Copy)]
enum Progress<'a> {
    /// A list is complete.
    Listed,
    /// The API server has not answered as it should.
    Failed(&'a watcher::Error),
}

/// Keeps `cache` up to date until `token` is cancelled or `progress` says that it is enough.
async fn follow<K, T>(
    api: Api<DeserializeGuard<K>>,
    mut selection: Selection,
    cache: &Cache<K, T>,
    token: CancellationToken,
    mut progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    K::DynamicType: Clone,
    T: PartialEq,
{
    // Not the back-off of kube's streams: that one starts anew whenever a list begins, even if no list ever succeeds.
    let (mut failures, mut last_failure) = (0, Instant::now());
    loop {
        let events = watcher::watcher(api.clone(), selection.config());
        let mut events = std::pin::pin!(events.take_until(token.clone().cancelled_owned()));
        let page = loop {
            let Some(event) = events.next().await else { return };
            let next = match event {
                Ok(event) => {
                    if matches!(event, Event::InitDone | Event::Apply(_) | Event::Delete(_)) {
                        failures = 0;
                    }
                    if take(cache, event) { progress(Progress::Listed) } else { ControlFlow::Continue(()) }
                }
                Err(error) => {
                    if let Listing::Streaming(page) = selection.listing
                        && refuses_streaming(&error)
                    {
                        break page;
                    }
                    cache.metrics().failed(cache.kind());
                    tracing::warn!(kind = cache.kind(), error = words(&error), "watch interrupted, trying again");
                    let next = progress(Progress::Failed(&error));
                    failures = if last_failure.elapsed() > WORKS { 1 } else { failures + 1 };
                    if next.is_continue()
                        && timeout(shortened(BACKOFF.delay(failures)), token.cancelled()).await.is_ok()
                    {
                        return;
                    }
                    last_failure = Instant::now();
                    next
                }
            };
            if next.is_break() {
                return;
            }
        };
        tracing::info!(kind = cache.kind(), "this API server knows no streaming lists, listing in pages");
        selection.listing = Listing::Paged(page);
    }
}

/// Applies one event; says whether it completed a list.
fn take<K, T>(cache: &Cache<K, T>, event: Event<DeserializeGuard<K>>) -> bool
where
    K: Resource + Clone,
    T: PartialEq,
{
    match event {
        Event::Init => cache.begin_list(),
        Event::InitApply(object) => {
            if let Some(object) = parsed(cache, object, Cache::carry_over) {
                cache.list(object);
            }
        }
        Event::InitDone => {
            cache.end_list();
            return true;
        }
        Event::Apply(object) => {
            if let Some(object) = parsed(cache, object, |_, _| ()) {
                cache.apply(object);
            }
        }
        Event::Delete(object) => cache.delete(&Key::of(&object), object.meta().resource_version.as_deref()),
    }
    false
}

/// The object, unless it does not parse: then its last good version is better than none.
fn parsed<K, T>(
    cache: &Cache<K, T>,
    object: DeserializeGuard<K>,
    otherwise: impl FnOnce(&Cache<K, T>, &Key),
) -> Option<K>
where
    K: Resource,
{
    match object.0 {
        Ok(object) => Some(object),
        Err(error) => {
            let key = Key::of(&DeserializeGuard::<K>(Err(error.clone())));
            cache.metrics().unparsable(cache.kind());
            tracing::error!(kind = cache.kind(), object = %key, %error, "skipping an object that does not parse");
            otherwise(cache, &key);
            None
        }
    }
}

/// Whether the API server does not know the resource.
fn is_not_found(error: &watcher::Error) -> bool {
    code(error) == Some(404)
}

/// Whether this program may not read the resource.
fn is_forbidden(error: &watcher::Error) -> bool {
    code(error) == Some(403)
}

/// HTTP status of the API server's answer, if it is one.
fn code(error: &watcher::Error) -> Option<u16> {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | WatchError(status) => Some(status.code),
        InitialListFailed(_) | WatchStartFailed(_) | WatchFailed(_) | NoResourceVersion => None,
    }
}

fn refuses_streaming(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if matches!(status.code, 400 | 422))
}

/// The server's own words where there are some; the error's text repeats them with everything else it has.
fn words(error: &watcher::Error) -> String {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | WatchError(status) => status.message.clone(),
        InitialListFailed(_) | WatchStartFailed(_) | WatchFailed(_) | NoResourceVersion => error.to_string(),
    }
}

impl Key {
    fn of(object: &impl Resource) -> Self {
        Self { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use tokio::sync::Notify;

    fn cache() -> (Cache<ConfigMap, String>, Arc<Notify>) {
        let wake = Arc::new(Notify::new());
        let view = |map: ConfigMap| map.data?.remove("v");
        (Cache::new("ConfigMap", view, wake.clone(), Metrics::default()), wake)
    }

    fn object(name: &str, version: &str, value: &str) -> DeserializeGuard<ConfigMap> {
        serde_json::from_value(json!({"metadata": {"name": name, "resourceVersion": version}, "data": {"v": value}}))
            .unwrap()
    }

    #[test]
    fn an_object_that_does_not_parse_keeps_its_last_good_version_until_it_is_deleted() {
        let (cache, _) = cache();
        let bad: DeserializeGuard<ConfigMap> =
            serde_json::from_value(json!({"metadata": {"name": "a", "resourceVersion": "3"}, "data": 7})).unwrap();
        take(&cache, Event::Init);
        take(&cache, Event::InitApply(object("a", "1", "x")));
        assert!(take(&cache, Event::InitDone));
        take(&cache, Event::Apply(bad.clone()));
        assert_eq!(*cache.get("", "a").unwrap(), "x");
        take(&cache, Event::Init);
        take(&cache, Event::InitApply(bad.clone()));
        take(&cache, Event::InitDone);
        assert_eq!(*cache.get("", "a").unwrap(), "x");
        take(&cache, Event::Delete(bad));
        assert_eq!(cache.get("", "a"), None);
    }

    #[test]
    fn only_a_refusal_of_the_request_itself_means_no_streaming_lists() {
        let failed = |code| {
            watcher::Error::WatchStartFailed(kube::Error::Api(
                kube::core::Status::failure("x", "y").with_code(code).boxed(),
            ))
        };
        assert!(refuses_streaming(&failed(422)) && refuses_streaming(&failed(400)));
        assert!(!refuses_streaming(&failed(403)) && !refuses_streaming(&failed(500)));
        assert!(!refuses_streaming(&watcher::Error::NoResourceVersion));
    }

    #[tokio::test]
    async fn a_change_wakes_and_an_equal_value_does_not() {
        let (cache, wake) = cache();
        take(&cache, Event::Init);
        take(&cache, Event::InitApply(object("a", "1", "x")));
        assert!(!cache.synced(), "a half-read list is nothing to decide on");
        take(&cache, Event::InitDone);
        assert!(cache.synced());
        wake.notified().await;
        take(&cache, Event::Apply(object("a", "2", "x")));
        assert!(futures::poll!(std::pin::pin!(wake.notified())).is_pending());
        take(&cache, Event::Apply(object("a", "3", "y")));
        wake.notified().await;
        assert_eq!(*cache.get("", "a").unwrap(), "y");
    }
}

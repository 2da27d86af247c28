//! Watched caches: the current content of one kind, as the owner's own small structs.
//!
//! A cache is filled by [`run`] and read at any time. It is always one consistent picture of what the API server sent: a new
//! list replaces the old content at once, and an own write that the API server has returned ([`Cache::put`]) shows before the
//! watch tells of it. A picture may be old; every write is conditional, so that does no harm.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::time::Duration;

use kube::api::{ListParams, VersionMatch, WatchParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub use allowed::{Access, run_if_allowed};
pub use cache::{Cache, Key};
pub use metrics::Metrics;
pub use optional::{Definition, run_optional};
pub use received::Outline;
pub use source::Source;

use crate::backoff::{Backoff, shortened};
use crate::readiness::Guard;
use crate::write::WriteError;
use source::{Event, Interruption};

mod allowed;
mod cache;
mod items;
mod metrics;
mod optional;
mod received;
mod source;

/// Waits between attempts. The first retry comes soon because it is usually an API server that has just restarted.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
/// A watch that has not failed for so long works, though it may have nothing to tell.
const WORKS: Duration = Duration::from_mins(1);
/// Any state that the API server has in memory.
const ANY_VERSION: &str = "0";

/// How the content is fetched before it is watched. However many objects there are, one at a time is in memory here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// What the API server has in memory, all at once, which costs it least: it may be a little old, but never older than what this
    /// watch has told before.
    Cached,
    /// The most recent content, in pages of this many objects.
    Paged(u32),
}

impl Listing {
    /// The same once the API server has not been able to: the most recent content.
    const AFTER_FAILURE: Self = Self::Paged(100);
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

    fn list_params(&self, known: Option<&str>) -> ListParams {
        let all = ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..ListParams::default()
        };
        match self.listing {
            Listing::Cached => ListParams {
                resource_version: Some(known.unwrap_or(ANY_VERSION).to_owned()),
                version_match: Some(VersionMatch::NotOlderThan),
                ..all
            },
            Listing::Paged(page) => all.limit(page),
        }
    }

    fn watch_params(&self, seconds: u32) -> WatchParams {
        let (label_selector, field_selector) = (self.labels.clone(), self.fields.clone());
        WatchParams {
            label_selector,
            field_selector,
            timeout: Some(seconds),
            bookmarks: true,
            send_initial_events: false,
        }
    }
}

/// Keeps `cache` up to date until `token` is cancelled; `ready` is done with the first complete list.
/// Errors of the API server are logged, counted and tried again after at most 10 s.
pub async fn run<K, T>(
    source: impl Into<Source>,
    selection: Selection,
    cache: Cache<K, T>,
    ready: Guard,
    token: CancellationToken,
) -> Result<(), Infallible>
where
    K: Resource + DeserializeOwned,
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
    follow(&source.into(), selection, &cache, token, done).await;
    Ok(())
}

/// Reads objects again that the watch of `cache` has passed over, see [`Cache::begin_load`].
///
/// # Errors
/// If the API server does not list them.
pub async fn load<K, T>(source: &Source, selection: &Selection, cache: &Cache<K, T>) -> Result<(), WriteError>
where
    K: Resource + DeserializeOwned,
    T: PartialEq,
{
    let listed = source.list(selection, None, |text| {
        if let Some(object) = parsed(cache, text, |_, _| ()) {
            cache.load(object);
        }
    });
    match listed.await {
        Ok(_) => Ok(()),
        Err(Interruption::Refused(error)) => Err(error.into()),
        Err(other) => Err(WriteError::Transient { message: other.words(), retry_after: None }),
    }
}

/// What a watch has come to.
#[derive(Clone, Copy)]
enum Progress<'a> {
    /// A list is complete.
    Listed,
    /// The API server has not answered as it should.
    Failed(&'a Interruption),
}

/// Keeps `cache` up to date until `token` is cancelled or `progress` says that it is enough.
async fn follow<K, T>(
    source: &Source,
    selection: Selection,
    cache: &Cache<K, T>,
    token: CancellationToken,
    progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
) where
    K: Resource + DeserializeOwned,
    T: PartialEq,
{
    let watch = Watch { source, selection, cache, failures: 0, last_failure: Instant::now(), progress };
    tokio::select! {
        () = token.cancelled() => {}
        () = watch.run() => {}
    }
}

struct Watch<'a, K, T, P> {
    source: &'a Source,
    selection: Selection,
    cache: &'a Cache<K, T>,
    /// In a row.
    failures: u32,
    last_failure: Instant,
    progress: P,
}

impl<K, T, P> Watch<'_, K, T, P>
where
    K: Resource + DeserializeOwned,
    T: PartialEq,
    P: FnMut(Progress<'_>) -> ControlFlow<()>,
{
    async fn run(mut self) {
        // The newest version that was told of.
        let mut version = None;
        loop {
            match self.list(version.as_deref()).await {
                Ok(listed) => {
                    self.failures = 0;
                    if (self.progress)(Progress::Listed).is_break()
                        || self.watch(version.insert(listed)).await.is_break()
                    {
                        return;
                    }
                }
                Err(error) => {
                    if self.failed(&error).await.is_break() {
                        return;
                    }
                }
            }
        }
    }

    async fn list(&self, known: Option<&str>) -> Result<String, Interruption> {
        let cache = self.cache;
        cache.begin_list();
        let is_well = self.failures == 0;
        let selection = if is_well || self.selection.listing != Listing::Cached {
            self.selection.clone()
        } else {
            Selection { listing: Listing::AFTER_FAILURE, ..self.selection.clone() }
        };
        let each = |text: &str| {
            if let Some(object) = parsed(cache, text, Cache::carry_over) {
                cache.list(object);
            }
        };
        let version = self.source.list(&selection, known, each).await?;
        cache.end_list();
        Ok(version)
    }

    /// Until everything has to be listed anew, or it is enough.
    async fn watch(&mut self, version: &mut String) -> ControlFlow<()> {
        loop {
            let (cache, mut is_told) = (self.cache, false);
            let each = |event: Event<'_>| {
                is_told = true;
                take(cache, &event);
            };
            let ended = self.source.watch(&self.selection, version, each).await;
            if is_told {
                self.failures = 0;
            }
            let Err(error) = ended else { continue };
            self.failed(&error).await?;
            if matches!(error, Interruption::NoVersion) || error.code() == Some(GONE) {
                return ControlFlow::Continue(());
            }
        }
    }

    /// Not the back-off of kube's streams: that one starts anew whenever a list begins, even if no list ever succeeds.
    async fn failed(&mut self, error: &Interruption) -> ControlFlow<()> {
        self.cache.metrics().failed(self.cache.kind());
        tracing::warn!(kind = self.cache.kind(), error = error.words(), "watch interrupted, trying again");
        let next = (self.progress)(Progress::Failed(error));
        self.failures = if self.last_failure.elapsed() > WORKS { 1 } else { self.failures + 1 };
        if next.is_continue() {
            sleep(shortened(BACKOFF.delay(self.failures))).await;
        }
        self.last_failure = Instant::now();
        next
    }
}

/// HTTP status of a version that the API server does not have any more.
const GONE: u16 = 410;

/// Applies one change.
fn take<K, T>(cache: &Cache<K, T>, event: &Event<'_>)
where
    K: Resource + DeserializeOwned,
    T: PartialEq,
{
    match event {
        Event::Apply(text) => {
            if let Some(object) = parsed(cache, text, |_, _| ()) {
                cache.apply(object);
            }
        }
        Event::Delete(text) => match received::identity(text) {
            Ok((key, version)) => cache.delete(&key, version.as_deref()),
            Err(error) => tracing::error!(kind = cache.kind(), %error, "what was deleted has no name"),
        },
    }
}

/// The object, unless it does not parse: then its last good version is better than none.
fn parsed<K, T>(cache: &Cache<K, T>, text: &str, otherwise: impl FnOnce(&Cache<K, T>, &Key)) -> Option<K>
where
    K: DeserializeOwned,
{
    let error = match cache.read(text) {
        Ok(object) => return Some(object),
        Err(error) => error,
    };
    cache.metrics().unparsable(cache.kind());
    if let Ok((key, _)) = received::identity(text) {
        tracing::error!(kind = cache.kind(), object = %key, %error, "skipping an object that does not parse");
        otherwise(cache, &key);
    } else {
        tracing::error!(kind = cache.kind(), %error, "skipping an object without a name");
    }
    None
}

/// Whether the API server does not know the resource.
fn is_not_found(error: &Interruption) -> bool {
    error.code() == Some(404)
}

/// Whether this program may not read the resource.
fn is_forbidden(error: &Interruption) -> bool {
    error.code() == Some(403)
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

    fn object(name: &str, version: &str, value: &str) -> String {
        json!({"metadata": {"name": name, "resourceVersion": version}, "data": {"v": value}}).to_string()
    }

    fn list(cache: &Cache<ConfigMap, String>, text: &str) {
        if let Some(object) = parsed(cache, text, Cache::carry_over) {
            cache.list(object);
        }
    }

    #[test]
    fn an_object_that_does_not_parse_keeps_its_last_good_version_until_it_is_deleted() {
        let (cache, _) = cache();
        let bad = json!({"metadata": {"name": "a", "resourceVersion": "3"}, "data": 7}).to_string();
        cache.begin_list();
        list(&cache, &object("a", "1", "x"));
        cache.end_list();
        take(&cache, &Event::Apply(&bad));
        assert_eq!(*cache.get("", "a").unwrap(), "x");
        cache.begin_list();
        list(&cache, &bad);
        cache.end_list();
        assert_eq!(*cache.get("", "a").unwrap(), "x");
        take(&cache, &Event::Delete(&bad));
        assert_eq!(cache.get("", "a"), None);
    }

    #[test]
    fn a_cached_list_is_never_older_than_what_was_known() {
        let version = |listing, known| Selection::all(listing).list_params(known).resource_version;
        assert_eq!(version(Listing::Cached, None).as_deref(), Some("0"));
        assert_eq!(version(Listing::Cached, Some("7")).as_deref(), Some("7"));
        assert_eq!(version(Listing::Paged(500), Some("7")), None);
    }

    #[tokio::test]
    async fn a_change_wakes_and_an_equal_value_does_not() {
        let (cache, wake) = cache();
        cache.begin_list();
        list(&cache, &object("a", "1", "x"));
        assert!(!cache.synced(), "a half-read list is nothing to decide on");
        cache.end_list();
        assert!(cache.synced());
        wake.notified().await;
        take(&cache, &Event::Apply(&object("a", "2", "x")));
        assert!(futures::poll!(std::pin::pin!(wake.notified())).is_pending());
        take(&cache, &Event::Apply(&object("a", "3", "y")));
        wake.notified().await;
        assert_eq!(*cache.get("", "a").unwrap(), "y");
    }
}

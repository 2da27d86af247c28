//! The content of one kind, keyed by namespace and name.
//!
//! This is not the store of kube's reflector, which lacks what is needed here: own writes show at once and never revive a deleted
//! object, an object that does not parse keeps its last good version, and only a change of what is used wakes the reader.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::Metrics;
use super::received::{self, Outline};

/// Name of an object within its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// Objects of kind `K`, each as a `T`. Clones share the content.
pub struct Cache<K, T>(Arc<Shared<K, T>>);

impl<K, T> Clone for Cache<K, T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Shared<K, T> {
    kind: &'static str,
    view: Box<dyn Fn(K) -> Option<T> + Send + Sync>,
    outline: Option<Outline>,
    wake: Arc<Notify>,
    metrics: Metrics,
    content: Mutex<Content<T>>,
}

struct Content<T> {
    synced: bool,
    /// The API server does not serve the kind (any more).
    unserved: bool,
    /// It serves the kind, and no list of it has ever succeeded.
    unreadable: bool,
    entries: Entries<T>,
    /// A list that is being read.
    listing: Option<Entries<T>>,
    /// While more objects are being loaded: what the watch has told to be deleted since that began.
    loading: Option<HashMap<Key, Option<u64>>>,
    /// Newest resourceVersion that the watch has told of. Events of one watch come in that order, so an object that is older
    /// and not in `entries` has been deleted since.
    newest: u64,
}

type Entries<T> = HashMap<Key, Entry<T>>;

struct Entry<T> {
    /// Unknown where the resourceVersion is no number; then the later message wins.
    version: Option<u64>,
    value: Arc<T>,
}

impl<K, T> Cache<K, T> {
    /// An empty cache. `view` takes what is needed out of an object; `None` means that the object is of no interest.
    /// `wake` is notified after every change; several caches may share it.
    pub fn new(
        kind: &'static str,
        view: impl Fn(K) -> Option<T> + Send + Sync + 'static,
        wake: Arc<Notify>,
        metrics: Metrics,
    ) -> Self {
        Self::outlining(kind, view, None, wake, metrics)
    }

    /// The same of objects of which some may be too large to look after ([`hitless_api::large`]): of those `outline` says what is read.
    pub fn outlining(
        kind: &'static str,
        view: impl Fn(K) -> Option<T> + Send + Sync + 'static,
        outline: Option<Outline>,
        wake: Arc<Notify>,
        metrics: Metrics,
    ) -> Self {
        let view = Box::new(view);
        let content = Content {
            synced: false,
            unserved: false,
            unreadable: false,
            entries: HashMap::new(),
            listing: None,
            loading: None,
            newest: 0,
        };
        Self(Arc::new(Shared { kind, view, outline, wake, metrics, content: Mutex::new(content) }))
    }

    /// Whether a complete list has been read, or there is nothing to read: before, a missing object means nothing.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.content(|content| content.synced)
    }

    /// Whether the API server serves the kind and lists have failed again and again, so that nothing is known. It may pass.
    #[must_use]
    pub fn unreadable(&self) -> bool {
        self.content(|content| content.unreadable)
    }

    /// One object; `namespace` is empty for cluster-scoped kinds.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
        self.content(|content| content.entries.get(&key).map(|entry| entry.value.clone()))
    }

    /// All objects as of now, in no order.
    #[must_use]
    pub fn snapshot(&self) -> Vec<(Key, Arc<T>)> {
        self.content(|content| content.entries.iter().map(|(key, entry)| (key.clone(), entry.value.clone())).collect())
    }

    /// All values as of now, in no order.
    #[must_use]
    pub fn values(&self) -> Vec<Arc<T>> {
        self.content(|content| content.entries.values().map(|entry| entry.value.clone()).collect())
    }

    /// Newest resourceVersion that was read; 0 if none is known.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.content(|content| content.newest)
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.content(|content| content.entries.len())
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn kind(&self) -> &'static str {
        self.0.kind
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    fn content<R>(&self, apply: impl FnOnce(&mut Content<T>) -> R) -> R {
        // Every change is a single map operation, so a panic elsewhere can't have left the content broken.
        apply(&mut self.0.content.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn begin_list(&self) {
        // What is deleted meanwhile is not told of, so nothing that was read before may be put in afterwards.
        self.content(|content| (content.listing, content.loading) = (Some(HashMap::new()), None));
    }

    pub(super) fn end_list(&self) {
        // The list is the truth even where it is older than an own write: the watch goes on from the list and tells again.
        self.content(|content| {
            if let Some(listed) = content.listing.take() {
                content.newest = listed.values().filter_map(|entry| entry.version).max().unwrap_or_default();
                content.entries = listed;
            }
            (content.synced, content.unserved) = (true, false);
            if std::mem::take(&mut content.unreadable) {
                self.0.metrics.unreadable(self.0.kind, false);
            }
        });
        self.0.wake.notify_one();
    }

    /// The API server serves the kind from now on: nothing is known until its list has been read.
    pub(super) fn expect_list(&self) {
        self.content(|content| content.synced = false);
    }

    /// The API server does not serve the kind: there are no objects, and that is all there is to know. Says whether this is new.
    pub(super) fn set_unserved(&self) -> bool {
        let changed = self.content(|content| {
            let changed = !content.synced || !content.unserved;
            *content = Content {
                synced: true,
                unserved: true,
                unreadable: false,
                entries: HashMap::new(),
                listing: None,
                loading: None,
                newest: content.newest,
            };
            changed
        });
        if changed {
            self.0.metrics.unreadable(self.0.kind, false);
            self.0.wake.notify_one();
        }
        changed
    }

    /// The API server serves the kind and does not list it. Says whether this is new; nothing where a list has been read.
    pub(super) fn set_unreadable(&self) -> bool {
        let changed = self.content(|content| !content.synced && !std::mem::replace(&mut content.unreadable, true));
        if changed {
            self.0.metrics.unreadable(self.0.kind, true);
            self.0.wake.notify_one();
        }
        changed
    }

    /// Takes the present entry over into the list that is being read.
    pub(super) fn carry_over(&self, key: &Key) {
        self.content(|content| {
            if let (Some(entry), Some(listing)) = (content.entries.get(key), &mut content.listing) {
                listing.insert(key.clone(), Entry { version: entry.version, value: entry.value.clone() });
            }
        });
    }

    pub(super) fn delete(&self, key: &Key, version: Option<&str>) {
        let version = number(version);
        let removed = self.content(|content| {
            content.newest = content.newest.max(version.unwrap_or_default());
            if let Some(deleted) = &mut content.loading {
                deleted.insert(key.clone(), version);
            }
            let outdated = content.entries.get(key).is_some_and(|entry| !older(version, entry.version));
            outdated.then(|| content.entries.remove(key)).flatten()
        });
        if removed.is_some() {
            self.0.wake.notify_one();
        }
    }
}

impl<K: DeserializeOwned, T> Cache<K, T> {
    /// An object out of the text that the API server has sent: its outline where it is too large.
    ///
    /// # Errors
    /// If it does not parse.
    pub fn read(&self, text: &str) -> serde_json::Result<K> {
        received::read(text, self.0.outline)
    }
}

impl<K: Resource, T: PartialEq> Cache<K, T> {
    /// Puts an object in that the API server has returned for an own write, so that the next decision builds on it.
    /// Ignored where the watch has told of something newer, a deletion included, and where the kind is not served any more.
    pub fn put(&self, object: K) {
        let (key, version) = (Key::of(&object), number(object.meta().resource_version.as_deref()));
        let passed = self.content(|content| {
            let is_deleted = || version.is_some_and(|version| version <= content.newest);
            content.unserved || (!content.entries.contains_key(&key) && is_deleted())
        });
        if !passed {
            self.set(key, version, (self.0.view)(object));
        }
    }

    /// Objects that were of no interest so far are about to be read and put in one by one ([`Self::load`]): from now on it is noted what
    /// the watch tells to be deleted. `false` while a list is being read, which may have left some of them out; then try it again.
    #[must_use]
    pub fn begin_load(&self) -> bool {
        self.content(|content| {
            let is_free = content.synced && content.listing.is_none();
            content.loading = is_free.then(HashMap::new);
            is_free
        })
    }

    /// Puts an object in that was read since [`Self::begin_load`], unless the watch has told of its deletion, or of something newer.
    pub fn load(&self, object: K) {
        let (key, version) = (Key::of(&object), number(object.meta().resource_version.as_deref()));
        let is_there = self.content(|content| {
            let deleted = content.loading.as_ref()?.get(&key);
            Some(deleted.is_none_or(|deleted| older(*deleted, version)))
        });
        if is_there == Some(true) {
            self.set(key, version, (self.0.view)(object));
        }
    }

    /// `false`: a list was begun meanwhile, so some of what was put in may be gone again, and all has to be read once more.
    #[must_use]
    pub fn end_load(&self) -> bool {
        self.content(|content| content.loading.take()).is_some()
    }

    pub(super) fn list(&self, object: K) {
        let (key, version) = (Key::of(&object), number(object.meta().resource_version.as_deref()));
        if let Some(value) = (self.0.view)(object) {
            self.content(|content| {
                if let Some(listing) = &mut content.listing {
                    listing.insert(key, Entry { version, value: Arc::new(value) });
                }
            });
        }
    }

    pub(super) fn apply(&self, object: K) {
        let (key, version) = (Key::of(&object), number(object.meta().resource_version.as_deref()));
        self.content(|content| content.newest = content.newest.max(version.unwrap_or_default()));
        self.set(key, version, (self.0.view)(object));
    }

    fn set(&self, key: Key, version: Option<u64>, value: Option<T>) {
        let changed = self.content(|content| match (content.entries.get_mut(&key), value) {
            (Some(entry), _) if older(version, entry.version) => false,
            (Some(entry), Some(value)) => {
                entry.version = version;
                let changed = *entry.value != value;
                if changed {
                    entry.value = Arc::new(value);
                }
                changed
            }
            (Some(_), None) => content.entries.remove(&key).is_some(),
            (None, Some(value)) => content.entries.insert(key, Entry { version, value: Arc::new(value) }).is_none(),
            (None, None) => false,
        });
        if changed {
            self.0.wake.notify_one();
        }
    }
}

fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

/// Whether `version` is known to be older than `present`.
fn older(version: Option<u64>, present: Option<u64>) -> bool {
    matches!((version, present), (Some(version), Some(present)) if version < present)
}

#[cfg(test)]
mod tests;

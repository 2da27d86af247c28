//! A watched cache as `hitless_runtime::watch` keeps it, fed with events that come late, twice or not at all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::clock::{Micros, NEVER};

/// Name of an object within its kind.
pub(crate) type Key = Arc<str>;

/// One kind, as one watcher sees it.
pub(crate) struct Feed<T> {
    entries: BTreeMap<Key, (u64, T)>,
    /// Newest version that the watch has told of: what is older and not in `entries` has been deleted since.
    newest: u64,
    queue: VecDeque<Told<T>>,
    /// The watch is broken; it lists again then.
    broken: Option<Micros>,
    /// The content has changed since somebody asked last.
    changed: bool,
}

struct Told<T> {
    due: Micros,
    version: u64,
    key: Key,
    object: Option<T>,
}

impl<T: Clone> Default for Feed<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), newest: 0, queue: VecDeque::new(), broken: None, changed: true }
    }
}

impl<T: Clone> Feed<T> {
    /// The API server tells of a change, not before `due` and not before what it told earlier.
    pub(crate) fn tell(&mut self, due: Micros, version: u64, key: Key, object: Option<T>) {
        if self.broken.is_none() {
            let due = self.queue.back().map_or(due, |last| due.max(last.due));
            self.queue.push_back(Told { due, version, key, object });
        }
    }

    /// Drops what was not told yet; the watcher lists again at `until`.
    pub(crate) fn break_until(&mut self, until: Micros) {
        self.queue.clear();
        self.broken = Some(until);
    }

    /// When the last of what was told arrives.
    pub(crate) fn last(&self) -> Micros {
        self.queue.back().map_or(0, |told| told.due)
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Micros {
        self.broken.or(self.queue.front().map(|told| told.due)).unwrap_or(NEVER)
    }

    /// Whether it is to be listed again.
    pub(crate) fn wants_list(&self, now: Micros) -> bool {
        self.broken.is_some_and(|until| until <= now)
    }

    /// Takes what has arrived.
    pub(crate) fn deliver(&mut self, now: Micros) {
        while self.queue.front().is_some_and(|told| told.due <= now) {
            let Some(told) = self.queue.pop_front() else { return };
            self.newest = self.newest.max(told.version);
            let older = self.entries.get(&told.key).is_some_and(|(version, _)| told.version < *version);
            if older {
                continue;
            }
            self.changed = true;
            match told.object {
                Some(object) => {
                    self.entries.insert(told.key, (told.version, object));
                }
                None => {
                    self.entries.remove(&told.key);
                }
            }
        }
    }

    /// The whole content, as the API server has it.
    pub(crate) fn list(&mut self, objects: impl Iterator<Item = (Key, u64, T)>) {
        self.queue.clear();
        self.broken = None;
        self.entries = objects.map(|(key, version, object)| (key, (version, object))).collect();
        self.newest = self.entries.values().map(|(version, _)| *version).max().unwrap_or_default();
        self.changed = true;
    }

    /// An object that the API server has returned; ignored where the watch has told of something newer.
    pub(crate) fn put(&mut self, key: &Key, version: u64, object: T) {
        let passed = match self.entries.get(key) {
            Some((known, _)) => version < *known,
            None => version <= self.newest,
        };
        if !passed {
            self.entries.insert(key.clone(), (version, object));
            self.changed = true;
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&T> {
        self.entries.get(key).map(|(_, object)| object)
    }

    pub(crate) fn version(&self, key: &str) -> Option<u64> {
        self.entries.get(key).map(|(version, _)| *version)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.values().map(|(_, object)| object)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the content has changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.changed
    }
}

//! What is counted by whose it is, as long as it is there.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// How many there are of each.
pub(super) type Counts<K> = Arc<Mutex<HashMap<K, usize>>>;

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct CountGuard<K: Eq + Hash> {
    of: K,
    counts: Counts<K>,
}

impl<K: Clone + Eq + Hash> CountGuard<K> {
    /// One more.
    pub(super) fn new(counts: &Counts<K>, of: &K) -> Self {
        *lock(counts).entry(of.clone()).or_default() += 1;
        Self { of: of.clone(), counts: counts.clone() }
    }

    /// One more, if that is allowed by how many there are of each.
    pub(super) fn new_if(
        counts: &Counts<K>,
        of: &K,
        is_allowed: impl FnOnce(&HashMap<K, usize>) -> bool,
    ) -> Option<Self> {
        let mut all = lock(counts);
        if !is_allowed(&all) {
            return None;
        }
        *all.entry(of.clone()).or_default() += 1;
        Some(Self { of: of.clone(), counts: counts.clone() })
    }

    /// Whose it is.
    #[must_use]
    pub const fn of(&self) -> &K {
        &self.of
    }
}

impl<K: Eq + Hash> Drop for CountGuard<K> {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        if let Some(own) = counts.get_mut(&self.of) {
            *own -= 1;
            if *own == 0 {
                counts.remove(&self.of);
            }
        }
    }
}

//! Values that many objects have in common, such as the labels of a workload's pods, can be kept once.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value that may be kept once for many objects ([`Pool`]). It reads like the value itself, and who changes it gets a copy of its own.
#[derive(Default, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

/// That of the value, as [`PartialEq`] is.
impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl From<&str> for Shared<String> {
    fn from(value: &str) -> Self {
        Self::from(value.to_owned())
    }
}

/// Below this nothing is looked through.
const FEW: usize = 1024;

/// All different values that are in use, and some that were.
#[derive(Debug)]
pub struct Pool<T> {
    values: HashSet<Shared<T>>,
    /// With so many it is looked through for those that nobody uses any more.
    full: usize,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), full: FEW }
    }
}

impl<T: Eq + Hash> Pool<T> {
    /// Puts the one value in its place that is kept for all.
    pub fn share(&mut self, value: &mut Shared<T>) {
        if let Some(known) = self.values.get(value) {
            *value = known.clone();
            return;
        }
        self.values.insert(value.clone());
        if self.values.len() >= self.full {
            self.values.retain(|value| Arc::strong_count(&value.0) > 1);
            self.full = self.values.len().saturating_mul(2).max(FEW);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_kept_once_and_a_changed_one_is_its_owners_alone() {
        let mut pool = Pool::default();
        let [mut one, mut other] = [Shared::from("web".to_owned()), Shared::from("web".to_owned())];
        pool.share(&mut one);
        pool.share(&mut other);
        assert!(Arc::ptr_eq(&one.0, &other.0));
        other.push_str("-2");
        assert_eq!((one.as_str(), other.as_str()), ("web", "web-2"));
    }

    #[test]
    fn what_nobody_uses_any_more_does_not_stay() {
        let mut pool = Pool::default();
        let kept: Vec<Shared<usize>> = (0..10 * FEW)
            .filter_map(|number| {
                let mut value = Shared::from(number);
                pool.share(&mut value);
                (number % 100 == 0).then_some(value)
            })
            .collect();
        assert!(pool.values.len() < 2 * FEW, "{} for {}", pool.values.len(), kept.len());
        assert!(kept.iter().all(|value| pool.values.contains(value)));
    }
}

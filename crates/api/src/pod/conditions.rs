//! Conditions of a pod, by type.

use std::ops::{Deref, DerefMut};

use jiff::Timestamp;

use crate::shared::Shared;

/// One condition of a pod. It reads like its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionView {
    /// `status == "True"`.
    pub is_true: bool,
    /// When the status last changed.
    pub since: Option<Timestamp>,
    pub(super) words: Shared<ConditionWords>,
}

/// Why a condition is as it is: nothing, in most conditions of most pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConditionWords {
    /// Machine-readable reason.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
}

impl ConditionView {
    /// A condition.
    #[must_use]
    pub fn new(is_true: bool, reason: impl Into<String>, message: impl Into<String>, since: Option<Timestamp>) -> Self {
        let words = ConditionWords { reason: reason.into(), message: message.into() };
        Self { is_true, since, words: words.into() }
    }
}

impl Deref for ConditionView {
    type Target = ConditionWords;

    fn deref(&self) -> &ConditionWords {
        &self.words
    }
}

impl DerefMut for ConditionView {
    fn deref_mut(&mut self) -> &mut ConditionWords {
        &mut self.words
    }
}

/// All conditions of a pod. There are few, and in a cluster many pods: a list needs a fraction of a map's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions(pub(super) Vec<(Shared<String>, ConditionView)>);

impl Conditions {
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(name))
    }

    /// The one of that type.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ConditionView> {
        self.place(name).ok().map(|place| &self.0[place].1)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut ConditionView> {
        self.place(name).ok().map(|place| &mut self.0[place].1)
    }

    /// Sets the one of that type; returns what it was.
    pub fn insert(&mut self, name: impl Into<Shared<String>>, condition: ConditionView) -> Option<ConditionView> {
        let name = name.into();
        match self.place(&name) {
            Ok(place) => Some(std::mem::replace(&mut self.0[place].1, condition)),
            Err(place) => {
                self.0.insert(place, (name, condition));
                None
            }
        }
    }

    /// Takes the one of that type away.
    pub fn remove(&mut self, name: &str) -> Option<ConditionView> {
        self.place(name).ok().map(|place| self.0.remove(place).1)
    }

    /// Takes all away.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Types of those that are True, in order.
    pub fn true_ones(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, condition)| condition.is_true).map(|(name, _)| name.as_str())
    }

    /// Their types, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

/// Of conditions of one type the last counts.
impl<N: Into<Shared<String>>> FromIterator<(N, ConditionView)> for Conditions {
    fn from_iter<I: IntoIterator<Item = (N, ConditionView)>>(conditions: I) -> Self {
        let mut all = Self::default();
        for (name, condition) in conditions {
            all.insert(name, condition);
        }
        all.0.shrink_to_fit();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(is_true: bool) -> ConditionView {
        ConditionView::new(is_true, "", "", None)
    }

    #[test]
    fn conditions_are_found_by_type_and_the_last_of_a_type_counts() {
        let all = [("Ready", false), ("Initialized", true), ("Ready", true)];
        let mut conditions: Conditions = all.iter().map(|(name, is)| (*name, condition(*is))).collect();
        assert_eq!(conditions.keys().collect::<Vec<_>>(), ["Initialized", "Ready"]);
        assert!(conditions.get("Ready").unwrap().is_true && conditions.get("PodScheduled").is_none());
        assert_eq!(conditions.insert("Initialized", condition(false)), Some(condition(true)));
        assert_eq!(conditions.remove("Ready"), Some(condition(true)));
        assert_eq!(conditions.keys().collect::<Vec<_>>(), ["Initialized"]);
    }
}

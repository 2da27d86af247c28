//! How many places of a TransitionBudget are taken.

use crate::Gate;
use crate::policy::{Check, Source};

/// The places of a TransitionBudget of which some are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Namespace of the budget.
    pub namespace: String,
    /// Name of the budget.
    pub name: String,
    /// How many of its pods may be unavailable.
    pub most: u64,
    /// How many are, pods that are wanted and not there included. More than `most` where nobody was asked: a node is down.
    pub taken: u64,
}

impl Gate {
    /// Of each TransitionBudget that says how many pods may be unavailable, and of which some are.
    pub fn places(&self) -> impl Iterator<Item = Places> {
        self.by_source.iter().filter_map(|(source, id)| {
            let Source::Budget(namespace, name) = source else { return None };
            let group = self.groups.get(*id as usize)?;
            let taken = group.counts.gone();
            if taken == 0 {
                return None;
            }
            let limits = group.policy.rules.iter().filter_map(|rule| {
                let Check::Availability(limits) = &rule.check else { return None };
                limits.max_unavailable
            });
            let most = limits.map(|limit| limit.of(group.counts.total)).min()?;
            Some(Places { namespace: namespace.clone(), name: name.clone(), most, taken })
        })
    }
}

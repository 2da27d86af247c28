//! How many objects of a tenant a round looks at. It takes time for each, and the rounds are for all namespaces.

use std::collections::BTreeMap;

/// So many objects of one of these kinds count in a namespace: PodTransitionRules, TransitionBudgets, DrainPolicies, PodDecorations. Where
/// there are more, what limits says no to everybody: it is not known whom the others would have kept.
pub const MOST: usize = 500;

/// Of the namespaces of some objects those with more than [`MOST`], with how many they have.
#[must_use]
pub fn crowded<'a>(namespaces: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for namespace in namespaces {
        *counts.entry(namespace).or_default() += 1;
    }
    counts.retain(|_, count| *count > MOST);
    counts
}

/// For people: that there are more.
#[must_use]
pub fn text(kinds: &str, namespace: &str, count: usize) -> String {
    format!(
        "namespace {namespace} has {count} {kinds}, and {MOST} of them are looked at; delete some, or use more namespaces"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_more_than_the_most_are_too_many() {
        let all = |count| std::iter::repeat_n("shop", count).chain(["bank"]);
        assert!(crowded(all(MOST)).is_empty());
        assert_eq!(crowded(all(MOST + 1)), [("shop", MOST + 1)].into());
    }
}

//! Which pods are updated before others, as their owner says (`priorityStrategy`).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hitless_api::clone_set::PriorityStrategy;
use hitless_api::selector;

type Labels = BTreeMap<String, String>;

/// The smaller one is updated first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::kinds) enum Priority {
    /// The larger sum of weights first.
    Weight(Reverse<i64>),
    /// The place of the first key that the pod has: a pod without any goes first. At the same place the larger number first.
    Order(Option<usize>, Reverse<u64>),
}

/// What a pod with these labels has.
pub(in crate::kinds) fn priority(strategy: &PriorityStrategy, labels: &Labels) -> Priority {
    if strategy.order_priority.is_empty() {
        let of_pod = strategy.weight_priority.iter().filter(|term| {
            // One that is not understood selects nothing.
            selector::read(&term.match_selector).is_ok_and(|selector| selector.matches(labels))
        });
        return Priority::Weight(Reverse(of_pod.map(|term| i64::from(term.weight)).sum()));
    }
    let mut keys = strategy.order_priority.iter().enumerate();
    let found = keys.find_map(|(place, term)| Some((place, labels.get(&term.ordered_key)?)));
    match found {
        Some((place, value)) => Priority::Order(Some(place), Reverse(number_at_end(value))),
        None => Priority::Order(None, Reverse(0)),
    }
}

/// 0 where there is none, as upstream has it.
fn number_at_end(value: &str) -> u64 {
    let digits = value.bytes().rev().take_while(u8::is_ascii_digit).count();
    value.get(value.len() - digits..).and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn weights(terms: &[(&str, i32)]) -> PriorityStrategy {
        let terms = terms.iter().map(|(key, weight)| {
            json!({"weight": weight, "matchSelector": {"matchExpressions": [{"key": key, "operator": "Exists"}]}})
        });
        serde_json::from_value(json!({"weightPriority": terms.collect::<Vec<_>>()})).unwrap()
    }

    fn orders(keys: &[&str]) -> PriorityStrategy {
        let terms: Vec<_> = keys.iter().map(|key| json!({"orderedKey": key})).collect();
        serde_json::from_value(json!({"orderPriority": terms})).unwrap()
    }

    /// Upstream's question: whether A is updated before B, or they are equal.
    fn is_first(strategy: &PriorityStrategy, a: &[(&str, &str)], b: &[(&str, &str)]) -> bool {
        priority(strategy, &labels(a)) <= priority(strategy, &labels(b))
    }

    #[test]
    fn the_larger_sum_of_weights_goes_first() {
        let two = weights(&[("foo", 20), ("bar", 10)]);
        assert!(!is_first(&two, &[("bar", "")], &[("foo", "")]));
        assert!(!is_first(&two, &[], &[("bar", "")]));
        assert!(is_first(&two, &[("foo", "")], &[("foo", "")]));
        let three = weights(&[("key1", 20), ("key2", 10), ("key3", 15)]);
        assert!(!is_first(&three, &[("key1", "")], &[("key2", ""), ("key3", "")]), "20 < 25");
    }

    #[test]
    fn the_first_key_counts_and_then_the_number_at_the_end() {
        let two = orders(&["key1", "key2"]);
        assert!(is_first(&two, &[("key1", "o-10")], &[("key1", "o-5")]));
        assert!(!is_first(&two, &[("key1", "o-10")], &[("key1", "o-20")]));
        assert!(!is_first(&two, &[("key2", "20")], &[("key1", "10")]));
        assert!(is_first(&two, &[], &[("key1", "10")]), "a pod without any key goes first");
    }

    #[test]
    fn pods_of_the_same_priority_keep_their_order() {
        let strategy = weights(&[("foo", 100), ("hello", 90)]);
        let pods = [labels(&[("hello", "")]), labels(&[]), labels(&[("foo", "")]), labels(&[])];
        let mut order: Vec<usize> = (0..pods.len()).collect();
        order.sort_by_key(|pod| priority(&strategy, &pods[*pod]));
        assert_eq!(order, [2, 0, 1, 3]);
    }
}

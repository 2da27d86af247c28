//! Labels and label selectors as symbols.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::interner::{Interner, Symbol};
use crate::selector;

/// Labels in the order of their symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels(Box<[(Symbol, Symbol)]>);

impl Labels {
    pub(crate) fn intern<T: AsRef<str>>(symbols: &mut Interner, labels: impl IntoIterator<Item = (T, T)>) -> Self {
        let pair = |(key, value): (T, T)| (symbols.intern(key.as_ref()), symbols.intern(value.as_ref()));
        let mut pairs: Vec<_> = labels.into_iter().map(pair).collect();
        pairs.sort_unstable();
        Self(pairs.into())
    }

    /// Whether they are these labels.
    pub(crate) fn are(&self, symbols: &Interner, labels: &BTreeMap<String, String>) -> bool {
        let has = |(key, value): &(Symbol, Symbol)| {
            labels.get(symbols.text(*key)).is_some_and(|given| given == symbols.text(*value))
        };
        self.0.len() == labels.len() && self.0.iter().all(has)
    }

    /// Hash of a namespace and these labels.
    pub(crate) fn hash(&self, hasher: &DefaultHashBuilder, namespace: Symbol) -> u64 {
        hasher.hash_one((namespace, &self.0))
    }

    pub(crate) fn pairs(&self) -> &[(Symbol, Symbol)] {
        &self.0
    }

    pub(crate) fn release(&self, symbols: &mut Interner) {
        for (key, value) in &self.0 {
            symbols.release(*key);
            symbols.release(*value);
        }
    }

    pub(crate) fn get(&self, key: Symbol) -> Option<Symbol> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Symbol,
    operator: Operator,
    values: Vec<Symbol>,
}

/// A selector; one that can't be understood selects nobody, as [`selector::matches`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    pairs: Vec<(Symbol, Symbol)>,
    requirements: Vec<Requirement>,
    nobody: bool,
}

impl Selector {
    pub(crate) fn intern(symbols: &mut Interner, from: &LabelSelector) -> Self {
        let pairs = from.match_labels.iter().flatten().map(|(key, value)| (symbols.intern(key), symbols.intern(value)));
        let pairs = pairs.collect();
        let requirements = from
            .match_expressions
            .iter()
            .flatten()
            .map(|each| Requirement {
                key: symbols.intern(&each.key),
                operator: match each.operator.as_str() {
                    "In" => Operator::In,
                    "NotIn" => Operator::NotIn,
                    "Exists" => Operator::Exists,
                    // Whatever else there is is a fault, and then nobody is selected.
                    _ => Operator::DoesNotExist,
                },
                values: each.values.iter().flatten().map(|value| symbols.intern(value)).collect(),
            })
            .collect();
        Self { pairs, requirements, nobody: selector::fault(from).is_some() }
    }

    /// One that selects nobody.
    pub(crate) fn nobody() -> Self {
        Self { pairs: Vec::new(), requirements: Vec::new(), nobody: true }
    }

    pub(crate) fn release(&self, symbols: &mut Interner) {
        for (key, value) in &self.pairs {
            symbols.release(*key);
            symbols.release(*value);
        }
        for requirement in &self.requirements {
            symbols.release(requirement.key);
            requirement.values.iter().for_each(|value| symbols.release(*value));
        }
    }

    /// A label that everything selected has: what the index looks selectors up by.
    pub(crate) fn key(&self) -> Option<(Symbol, Symbol)> {
        self.pairs.first().copied()
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        !self.nobody
            && self.pairs.iter().all(|(key, value)| labels.get(*key) == Some(*value))
            && self.requirements.iter().all(|requirement| requirement.meets(labels))
    }
}

impl Requirement {
    fn meets(&self, labels: &Labels) -> bool {
        let value = labels.get(self.key);
        let listed = value.is_some_and(|value| self.values.contains(&value));
        match self.operator {
            Operator::In => listed,
            Operator::NotIn => !listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn symbols_select_what_strings_select(
            labels in proptest::collection::btree_map("[ab]", "[xy]", 0..3),
            wanted in proptest::collection::btree_map("[ab]", "[xy]", 0..2),
            expressions in proptest::collection::vec(
                ("[abc]", prop_oneof!["In", "NotIn", "Exists", "DoesNotExist", "Gt"], proptest::collection::vec("[xyz]", 0..3)),
                0..3,
            ),
        ) {
            let expressions: Vec<_> = expressions
                .into_iter()
                .map(|(key, operator, values)| serde_json::json!({"key": key, "operator": operator, "values": values}))
                .collect();
            let from: LabelSelector =
                serde_json::from_value(serde_json::json!({"matchLabels": wanted, "matchExpressions": expressions})).unwrap();
            let mut symbols = Interner::default();
            let compiled = Selector::intern(&mut symbols, &from);
            let interned = Labels::intern(&mut symbols, &labels);
            prop_assert_eq!(compiled.matches(&interned), selector::matches(&from, &labels));
            prop_assert!(interned.are(&symbols, &labels));
            prop_assert_eq!(interned.are(&symbols, &wanted), labels == wanted);
            compiled.release(&mut symbols);
            interned.release(&mut symbols);
            prop_assert_eq!(symbols.len(), 0);
        }
    }
}

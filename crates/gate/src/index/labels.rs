//! Labels and label selectors as symbols.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::interner::{Interner, Symbol};
use crate::selector::{self, Operator};

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

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Symbol,
    operator: Operator,
    values: Vec<Symbol>,
}

/// Whom a limit is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selector {
    /// Nobody: there is no selector.
    Nobody,
    /// Who has these labels; all of its reach where it asks for none, and where it can't be understood, as [`selector::limits`].
    Those(Those),
}

/// Labels that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Those {
    pairs: Vec<(Symbol, Symbol)>,
    requirements: Vec<Requirement>,
}

impl Selector {
    pub(crate) fn of_limit(symbols: &mut Interner, from: Option<&LabelSelector>) -> Self {
        match from.map(selector::read) {
            None => Self::Nobody,
            Some(Ok(understood)) => Self::Those(Those::intern(symbols, &understood)),
            Some(Err(_)) => Self::Those(Those::default()),
        }
    }

    pub(crate) fn release(&self, symbols: &mut Interner) {
        match self {
            Self::Nobody => {}
            Self::Those(those) => those.release(symbols),
        }
    }

    /// A label that everything selected has: what the index looks selectors up by.
    pub(crate) fn key(&self) -> Option<(Symbol, Symbol)> {
        match self {
            Self::Nobody => None,
            Self::Those(those) => those.pairs.first().copied(),
        }
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nobody => false,
            Self::Those(those) => those.match_labels(labels),
        }
    }
}

impl Those {
    fn intern(symbols: &mut Interner, from: &selector::Selector<'_>) -> Self {
        let pairs = from.labels().map(|(key, value)| (symbols.intern(key), symbols.intern(value))).collect();
        let requirements = from.requirements().iter().map(|each| Requirement {
            key: symbols.intern(&each.key),
            operator: each.operator,
            values: each.values.iter().map(|value| symbols.intern(value)).collect(),
        });
        let requirements = requirements.collect();
        Self { pairs, requirements }
    }

    fn release(&self, symbols: &mut Interner) {
        for (key, value) in &self.pairs {
            symbols.release(*key);
            symbols.release(*value);
        }
        for requirement in &self.requirements {
            symbols.release(requirement.key);
            requirement.values.iter().for_each(|value| symbols.release(*value));
        }
    }

    fn match_labels(&self, labels: &Labels) -> bool {
        self.pairs.iter().all(|(key, value)| labels.get(*key) == Some(*value))
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
            let compiled = Selector::of_limit(&mut symbols, Some(&from));
            let interned = Labels::intern(&mut symbols, &labels);
            prop_assert_eq!(compiled.matches(&interned), selector::limits(&from, &labels));
            prop_assert!(interned.are(&symbols, &labels));
            prop_assert_eq!(interned.are(&symbols, &wanted), labels == wanted);
            compiled.release(&mut symbols);
            interned.release(&mut symbols);
            prop_assert_eq!(symbols.len(), 0);
        }
    }
}

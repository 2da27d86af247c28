//! The annotations of a template.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::digest;
use serde_json::{Value, json};

/// All annotations of a template. The values are kept, too: a template that was judged bad is put back with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotations {
    values: BTreeMap<String, String>,
    digest: String,
}

impl Annotations {
    pub(crate) fn of(template: &Value) -> Self {
        let all = template["metadata"]["annotations"].as_object().into_iter().flatten();
        let values: BTreeMap<String, String> =
            all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
        let digest = digest::short(&json!(values));
        Self { values, digest }
    }

    /// Tells whether two templates have the same annotations: value of `hitless.dev/mixed` and `hitless.dev/live`.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// About how many bytes of memory they take.
    pub(crate) fn memory(&self) -> usize {
        self.values.iter().map(|(key, value)| key.len() + value.len() + 2 * size_of::<String>()).sum()
    }

    /// Of this key.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// As a field of a template; `None` where there are none, because absent and empty are the same.
    pub(crate) fn to_field(&self) -> Option<Value> {
        (!self.values.is_empty()).then(|| json!(self.values))
    }

    /// Keys whose values differ, and those that only one has.
    pub(crate) fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        let keys: BTreeSet<&String> = self.values.keys().chain(other.values.keys()).collect();
        keys.into_iter().filter(move |key| self.values.get(*key) != other.values.get(*key)).map(String::as_str)
    }
}

//! JSON patches (RFC 6902) that carry their own preconditions.

use ::json_patch::jsonptr::PointerBuf;
use ::json_patch::{AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation};
use kube::core::params::Patch;
use serde_json::{Value, json};

/// A JSON patch under construction. Paths are given as unescaped segments: `["metadata", "labels", "a/b"]`.
///
/// Only [`Self::test`] is a precondition: kube-apiserver (tried with 1.36) carries out `replace` and `remove` of a missing
/// key as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonPatch(Vec<PatchOperation>);

impl JsonPatch {
    /// A patch of the object with this uid only: a name alone never identifies an object.
    #[must_use]
    pub fn of(uid: &str) -> Self {
        Self::default().test(&["metadata", "uid"], uid)
    }

    /// A patch of exactly this version of the object.
    #[must_use]
    pub fn at(uid: &str, resource_version: &str) -> Self {
        Self::of(uid).test(&["metadata", "resourceVersion"], resource_version)
    }

    /// The value at `path` must be this one, else nothing is written. `null` stands for "absent" where the parent exists.
    #[must_use]
    pub fn test(self, path: &[&str], value: impl Into<Value>) -> Self {
        self.with(PatchOperation::Test(TestOperation { path: pointer(path), value: value.into() }))
    }

    /// Sets a value whether or not there is one; the parent must exist.
    #[must_use]
    pub fn add(self, path: &[&str], value: impl Into<Value>) -> Self {
        self.with(PatchOperation::Add(AddOperation { path: pointer(path), value: value.into() }))
    }

    /// Sets a value; of a list, the element of that index.
    #[must_use]
    pub fn replace(self, path: &[&str], value: impl Into<Value>) -> Self {
        self.with(PatchOperation::Replace(ReplaceOperation { path: pointer(path), value: value.into() }))
    }

    /// Removes a value.
    #[must_use]
    pub fn remove(self, path: &[&str]) -> Self {
        self.with(PatchOperation::Remove(RemoveOperation { path: pointer(path) }))
    }

    /// Makes the map that was seen to be absent, e.g. the annotations of an object that has none. Fails like a test where
    /// somebody made it meanwhile.
    #[must_use]
    pub fn new_map(self, path: &[&str]) -> Self {
        self.test(path, Value::Null).add(path, json!({}))
    }

    /// Changes one value of a map from `from` (tested; `None`: not tested) to `to` (`None`: removed, if `from` says that it
    /// is there).
    #[must_use]
    pub fn change(self, path: &[&str], from: Option<&str>, to: Option<&str>) -> Self {
        match (from, to) {
            (Some(from), Some(to)) => self.test(path, from).replace(path, to),
            (Some(from), None) => self.test(path, from).remove(path),
            (None, Some(to)) => self.add(path, to),
            (None, None) => self,
        }
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.0.iter().all(|operation| matches!(operation, PatchOperation::Test(_)))
    }

    /// What it sets at this path, a JSON pointer.
    #[must_use]
    pub fn value(&self, path: &str) -> Option<&Value> {
        self.0.iter().rev().find_map(|operation| match operation {
            PatchOperation::Add(add) if add.path.as_str() == path => Some(&add.value),
            PatchOperation::Replace(replace) if replace.path.as_str() == path => Some(&replace.value),
            _ => None,
        })
    }

    /// For [`kube::Api::patch`] and its relatives.
    #[must_use]
    pub fn build(self) -> Patch<Value> {
        Patch::Json(self.operations())
    }

    /// The operations as such.
    #[must_use]
    pub fn operations(self) -> ::json_patch::Patch {
        ::json_patch::Patch(self.0)
    }

    fn with(mut self, operation: PatchOperation) -> Self {
        self.0.push(operation);
        self
    }
}

fn pointer(path: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(path.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_escaped_and_changes_are_tested_in_both_directions() {
        let annotation = |key: &'static str| ["metadata", "annotations", key];
        let patch = JsonPatch::of("u")
            .new_map(&["metadata", "annotations"])
            .change(&annotation("a/b~c"), Some("1"), Some("2"))
            .change(&annotation("gone"), Some("1"), None)
            .change(&annotation("new"), None, Some("2"))
            .change(&annotation("nothing"), None, None);
        let wanted = json!([
            {"op": "test", "path": "/metadata/uid", "value": "u"},
            {"op": "test", "path": "/metadata/annotations", "value": null},
            {"op": "add", "path": "/metadata/annotations", "value": {}},
            {"op": "test", "path": "/metadata/annotations/a~1b~0c", "value": "1"},
            {"op": "replace", "path": "/metadata/annotations/a~1b~0c", "value": "2"},
            {"op": "test", "path": "/metadata/annotations/gone", "value": "1"},
            {"op": "remove", "path": "/metadata/annotations/gone"},
            {"op": "add", "path": "/metadata/annotations/new", "value": "2"},
        ]);
        assert_eq!(serde_json::to_value(patch.0).unwrap(), wanted);
    }
}

//! Objects that the API server takes and this version can't read: a field of a later version, a number that is too large. What
//! limits operations must not be left out because of that: it limits those whom it selects to none.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::Resource;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// An object with a selector in its spec. If the rest of it can't be read, there are its metadata and whom it selects.
#[derive(Clone, Debug, PartialEq)]
pub struct Lenient<K> {
    /// The object, or what of it can be read.
    pub object: K,
    /// Which field can't be read, and why.
    pub unreadable: Option<String>,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let whole = K::deserialize(&value);
        // A status is a report. It limits nobody, and is written anew.
        if whole.is_err()
            && let Some(object) = value.as_object_mut()
        {
            object.remove("status");
        }
        match whole.or_else(|_| serde_path_to_error::deserialize(&value)) {
            Ok(object) => Ok(Self { object, unreadable: None }),
            Err(error) => {
                let object = serde_json::from_value(with_selector_only(&value)).map_err(Error::custom)?;
                Ok(Self { object, unreadable: Some(format!("{} can't be read: {}", error.path(), error.inner())) })
            }
        }
    }
}

/// What could be read of it.
impl<K: Serialize> Serialize for Lenient<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

/// The object without all that may be the reason why it can't be read. A selector that can't be read selects everybody; one that is
/// absent selects nobody, as ever.
fn with_selector_only(value: &Value) -> Value {
    let mut spec = json!({});
    if let Some(raw) = value.pointer("/spec/selector").filter(|raw| !raw.is_null()) {
        let is_readable = LabelSelector::deserialize(raw).is_ok();
        spec["selector"] = if is_readable { raw.clone() } else { json!({}) };
    }
    // Whatever else stands there might mean the cluster.
    if value.pointer("/spec/scope").is_some_and(|scope| !scope.is_null() && scope != "Namespace") {
        spec["scope"] = json!("Cluster");
    }
    let part = |name: &str| value.get(name).cloned().unwrap_or_default();
    json!({"apiVersion": part("apiVersion"), "kind": part("kind"), "metadata": part("metadata"), "spec": spec})
}

impl<K: Resource> Resource for Lenient<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        self.object.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transition_budget::Scope;
    use crate::{DrainPolicy, PodTransitionRule, TransitionBudget};

    fn read<K: DeserializeOwned>(kind: &str, spec: &Value) -> Lenient<K> {
        serde_json::from_value(json!({
            "apiVersion": "x/v1",
            "kind": kind,
            "metadata": {"name": "a", "namespace": "shop", "uid": "u"},
            "spec": spec,
        }))
        .unwrap()
    }

    fn web() -> Value {
        json!({"matchLabels": {"app": "web"}})
    }

    #[test]
    fn what_can_be_read_is_as_it_is() {
        let rule: Lenient<PodTransitionRule> =
            read("PodTransitionRule", &json!({"selector": web(), "rules": [{"name": "a", "disabled": true}]}));
        assert_eq!((rule.unreadable, rule.object.spec.rules.len()), (None, 1));
    }

    #[test]
    fn what_cannot_be_read_has_its_name_and_whom_it_selects() {
        let rules = json!([{"name": "a", "availablePolicy": {"maxUnavailableValue": 2_147_483_648_u64}}]);
        let rule: Lenient<PodTransitionRule> = read("PodTransitionRule", &json!({"selector": web(), "rules": rules}));
        assert_eq!((rule.meta().name.as_deref(), rule.object.spec.rules.len()), (Some("a"), 0));
        assert_eq!(serde_json::to_value(&rule.object.spec.selector).unwrap(), web());
        let fault = rule.unreadable.unwrap();
        assert!(fault.starts_with("spec.rules[0].availablePolicy.maxUnavailableValue can't be read: "), "{fault}");
        let budget: Lenient<TransitionBudget> =
            read("TransitionBudget", &json!({"selector": {}, "scope": "Cluster", "windows": [{"days": ["Someday"]}]}));
        assert_eq!(budget.object.spec.scope, Scope::Cluster);
        assert!(budget.unreadable.unwrap().starts_with("spec.windows[0].days[0] can't be read: "));
        let policy: Lenient<DrainPolicy> = read("DrainPolicy", &json!({"selector": web(), "mode": "Later"}));
        assert!(policy.object.spec.selector.is_some() && policy.unreadable.is_some());
    }

    #[test]
    fn a_selector_that_cannot_be_read_selects_everybody_and_an_absent_one_nobody() {
        let rule: Lenient<PodTransitionRule> =
            read("PodTransitionRule", &json!({"selector": {"matchLabels": {"a": 1}}, "rules": []}));
        assert_eq!(rule.object.spec.selector, Some(LabelSelector::default()));
        assert!(rule.unreadable.is_some());
        let rule: Lenient<PodTransitionRule> = read("PodTransitionRule", &json!({"rules": 7}));
        assert!(rule.object.spec.selector.is_none() && rule.unreadable.is_some());
    }
}

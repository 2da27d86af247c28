//! Whose a pod or a claim is, as far as its labels say.

use std::collections::BTreeMap;

use hitless_api::names::labels;

use super::names;
use crate::object::{Body, Object};

/// Whether KusionStack looks after whoever has these labels.
pub(crate) fn is_controlled(labels: &BTreeMap<String, String>) -> bool {
    labels.get(names::CONTROL).is_some_and(|value| value == "true")
}

/// uid of the CollaSet that a claim without a controller says it is of.
pub(crate) fn of_claim(object: &Object) -> Option<&str> {
    let is_one = matches!(object.body, Body::Claim(_)) && object.owner.is_none() && is_controlled(&object.labels);
    let is_whole = [names::INSTANCE_ID, names::CLAIM_TEMPLATE].iter().all(|key| object.labels.contains_key(*key));
    let is_let_go = object.labels.contains_key(names::ORPHANED);
    object.labels.get(labels::CLAIM_OF).map(String::as_str).filter(|_| is_one && is_whole && !is_let_go)
}

//! What pods are to be drained with: annotations of pod templates, and hooks of DrainPolicies that the templates can't have. What is said
//! is what the controller would say before it operates such a pod.

use std::sync::Arc;

use hitless_api::names::annotations::{PRIORITY, SKIP_RULES};
use hitless_api::pod::PodView;
use hitless_api::{DrainPolicy, GroupKind, InvalidDrain};
use hitless_gate::facts::parse_skipped_rules;
use hitless_rollout::mode::{Policies, PolicyView};
use hitless_workloads::registry;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::finding::Finding;
use crate::files::Object;

/// Where the template of an object's pods stands.
const TEMPLATE: &[&str] = &["spec", "template"];

/// All findings about these objects, each in the light of the DrainPolicies of the files.
pub(super) fn check(objects: &[Object]) -> Vec<Finding> {
    // The schema has said what is wrong with the others.
    let policies = objects.iter().filter(|object| (object.group(), object.kind()) == ("hitless.dev", "DrainPolicy"));
    let policies = policies.filter_map(|object| Some(Arc::new(PolicyView::from(object.read::<DrainPolicy>().ok()?))));
    let policies: Vec<Arc<PolicyView>> = policies.collect();
    let policies = Policies::of(&policies, 0);
    objects.iter().flat_map(|object| of_object(object, &policies)).collect()
}

fn of_object(object: &Object, policies: &Policies<'_>) -> Vec<Finding> {
    let Some(at) = template_of(object) else { return Vec::new() };
    let template = at.iter().fold(&object.value, |value, key| &value[*key]);
    let Some(pod) = view(object, template) else { return Vec::new() };
    let line = |key: &str| object.node.line_of(&[at, &["metadata", "annotations", key]].concat());
    let mut found: Vec<Finding> =
        InvalidDrain::in_annotations(&pod).into_iter().map(|(key, error)| finding(object, line(key), &error)).collect();
    if found.is_empty() {
        // One that is not usable for anybody has been named itself.
        let refusal = policies.refusal(&pod).filter(|error| !matches!(error, InvalidDrain::Policy { .. }));
        found.extend(refusal.map(|error| finding(object, object.node.line_of(&[at, &["spec"]].concat()), &error)));
    }
    let ignored = |key: &'static str, is_usable: fn(&str) -> bool, form: &str| {
        let text = pod.annotations.get(key).filter(|text| !is_usable(text))?;
        Some(Finding::warning(
            object,
            line(key),
            format!("annotation {key} is {text:?} and counts as absent; write {form}"),
        ))
    };
    found.extend(ignored(PRIORITY, |text| text.trim().parse::<i32>().is_ok(), "a whole number"));
    found.extend(ignored(SKIP_RULES, |text| parse_skipped_rules(text).is_ok(), r#"JSON such as {"skipRules": ["a"]}"#));
    found
}

/// Others may add containers when pods are made: a webhook, a PodDecoration.
fn finding(object: &Object, line: u64, error: &InvalidDrain) -> Finding {
    match error {
        InvalidDrain::NoContainer { .. } => {
            let text = format!("{error}; unless something adds it when pods are made, none of them is operated");
            Finding::warning(object, line, text)
        }
        InvalidDrain::Unreadable { .. }
        | InvalidDrain::Mode { .. }
        | InvalidDrain::Hooks { .. }
        | InvalidDrain::Policy { .. } => {
            Finding::error(object, line, format!("{error}; its pods are not operated before that is corrected"))
        }
    }
}

/// The path of what its pods are made from, if it has pods that hitless may operate.
pub(super) fn template_of(object: &Object) -> Option<&'static [&'static str]> {
    let group_kind = GroupKind::of(object.value["apiVersion"].as_str().unwrap_or_default(), object.kind());
    let is_pod = (object.group(), object.kind()) == ("", "Pod");
    is_pod.then_some(&[][..]).or_else(|| registry::is_workload(&group_kind).then_some(TEMPLATE))
}

/// A pod of this template; `None` if none can be made from it, which the schema says better.
pub(super) fn view(object: &Object, template: &Value) -> Option<PodView> {
    let mut metadata = template["metadata"].clone();
    if metadata.is_null() {
        metadata = json!({});
    }
    metadata.as_object_mut()?.insert("namespace".to_owned(), object.namespace().into());
    let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": template["spec"]})).ok()?;
    Some(PodView::from(&pod))
}

//! Workloads that are too large to look after ([`hitless_api::large`]): of such an object no template is kept, only that there is one, and
//! a hash of it, which tells whether it is another one.
//!
//! What its owner sees is what he sees of every change that can't be made in place: the change goes the native way, as it would without
//! hitless, or, where he allows nothing else than in place, it waits and says why. So a workload that was held in the very write that made
//! it too large does not stay held in silence.

use hitless_api::json_text::{self, count, field, replaced};
use hitless_api::large::{MOST_VALUES, TooLarge, only, with_few};
use hitless_api::names::{annotations, labels};
use serde_json::{Result, Value};

/// Fields of the spec without which nobody can say what is to be done, and that are short.
const SPEC: [&str; 14] = [
    "replicas",
    "paused",
    "minReadySeconds",
    "strategy",
    "updateStrategy",
    "podManagementPolicy",
    "ordinals",
    "progressDeadlineSeconds",
    "revisionHistoryLimit",
    "historyLimit",
    "namingStrategy",
    "scaleStrategy",
    "template",
    "targets",
];

/// Where templates are: of workloads, and of ControllerRevisions.
const TEMPLATES: [&[&str]; 2] = [&["spec", "template"], &["data", "spec", "template"]];

/// What is read of an object of a workload's kind that has so many values.
///
/// # Errors
/// If it is no object.
pub fn outline(json: &str, values: usize) -> Result<String> {
    let json = with_few(json, "annotations")?;
    if count(&json)? <= MOST_VALUES {
        return Ok(json);
    }
    let json = with_few(&json, "labels")?;
    let Some(path) = TEMPLATES.into_iter().find(|path| matches!(field(&json, path), Ok(Some(_)))) else {
        return Ok(json);
    };
    let template = field(&json, path)?.unwrap_or_default();
    let mark = serde_json::to_string(&mark(TooLarge(values), &digest(template)?))?;
    let json = replaced(&json, path, Some(&mark))?;
    let json = only(&json, &["data", "spec"], |name| name == "template")?;
    only(&json, &["spec"], |name| SPEC.contains(&name))
}

/// The object as it is looked after, for who has read all of it: its outline, if it has too many values.
#[must_use]
pub fn outlined(object: Value) -> Value {
    let values = |object: &Value| {
        let ignored = object["metadata"].get("managedFields").map_or(0, json_text::count_tree);
        json_text::count_tree(object) - ignored
    };
    let values = values(&object);
    if values <= MOST_VALUES {
        return object;
    }
    let outline = outline(&object.to_string(), values).and_then(|text| serde_json::from_str(&text));
    outline.unwrap_or(object)
}

/// What stands in for a template: no template is a string.
fn mark(large: TooLarge, digest: &str) -> String {
    format!("{} {digest}", large.0)
}

/// How large the template was and its hash, if this stands in for one.
pub(crate) fn marked(text: &str) -> Option<(TooLarge, &str)> {
    let (values, digest) = text.split_once(' ')?;
    Some((TooLarge(values.parse().ok()?), digest))
}

/// The same for each template that [`crate::Template::new`] takes for the same.
fn digest(template: &str) -> Result<String> {
    json_text::digest(template, &|path, name| match path {
        [] => name == "$patch",
        ["metadata"] => name == "creationTimestamp",
        ["metadata", "labels"] => name == labels::POD_TEMPLATE_HASH,
        ["metadata", "annotations"] => name == annotations::MIXED,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;
    use crate::registry;
    use hitless_api::large::{MOST_VALUES, without_managed_fields};
    use serde_json::json;

    fn template(image: &str, variables: usize) -> Value {
        let env: Vec<Value> = (0..variables).map(|number| json!({"name": format!("a{number}")})).collect();
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image, "env": env}]}})
    }

    fn read(object: &Value) -> Object {
        let text = object.to_string();
        let text = match without_managed_fields(&text).unwrap() {
            Some((text, values)) if values > MOST_VALUES => outline(&text, values).unwrap(),
            _ => text,
        };
        registry::read(serde_json::from_str(&text).unwrap()).unwrap().unwrap()
    }

    fn deployment(template: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "shop", "name": "web", "uid": "web", "annotations": {"hitless.dev/update": "in-place"}},
            "spec": {"replicas": 3, "paused": true, "selector": {"matchLabels": {"app": "web"}}, "template": template}})
    }

    #[test]
    fn of_a_large_deployment_all_is_known_but_its_template_and_that_tells_whether_it_is_another() {
        let large = read(&deployment(&template("web:1", 6_000)));
        let body = large.deployment().unwrap().body;
        assert!((body.replicas, body.paused) == (3, true) && !large.held_by_guard());
        assert!(body.template.too_large().is_some() && body.template.content().is_null());
        let mut hashed = template("web:1", 6_000);
        hashed["metadata"]["labels"]["pod-template-hash"] = "x".into();
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "shop", "name": "web-x", "uid": "x"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": hashed}});
        let same = read(&set);
        assert_eq!(same.replica_set().unwrap().body.template.revision(), body.template.revision());
        let other = read(&deployment(&template("web:2", 6_000)));
        assert_ne!(other.template().unwrap().revision(), body.template.revision());
    }

    #[test]
    fn a_controller_revision_has_the_hash_of_its_workload() {
        let large = read(
            &json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"namespace": "shop", "name": "db", "uid": "db"},
            "spec": {"replicas": 3, "updateStrategy": {"type": "OnDelete"}, "template": template("db:1", 6_000)}}),
        );
        let mut kept = template("db:1", 6_000);
        kept["$patch"] = "replace".into();
        let revision = read(&json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
            "metadata": {"namespace": "shop", "name": "db-1", "uid": "r"}, "data": {"spec": {"template": kept}}}));
        assert_eq!(revision.controller_revision().unwrap().body.shape.revision, large.template().unwrap().revision());
    }

    #[test]
    fn a_tree_that_is_as_large_is_treated_the_same() {
        let object = registry::read(deployment(&template("web:1", 6_000))).unwrap().unwrap();
        assert!(object.template().unwrap().too_large().is_some() && object.template().unwrap().content().is_null());
        assert_eq!(read(&deployment(&template("web:1", 3_000))).template().unwrap().too_large(), None);
        // Also where the template alone would not be.
        let mut near = deployment(&template("web:1", 4_990));
        near["metadata"]["labels"] = (0..100).map(|number| (format!("l{number}"), json!("x"))).collect();
        let whole = registry::read(outlined(near.clone())).unwrap().unwrap();
        assert_eq!(whole, Object { memory: whole.memory, ..read(&near) });
        assert!(
            whole.template().unwrap().too_large().is_some() && whole.held_by_guard() == read(&near).held_by_guard()
        );
    }
}

//! Objects that are too large to look after. How large an object is its author chooses, and one process reads the objects of all: so that
//! nobody can take the memory away that others need, no more than [`MOST_VALUES`] values of one object are ever made a tree of.
//!
//! The number is of values and not of bytes because that is what memory goes by: 1.4 MB of one long string take 1.4 MB, 1.4 MB of
//! `{"name":"a"}` take 70 MB.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Result;

use crate::json_text::{count, field, printed, replaced, with_fields};
use crate::names::{PREFIX, annotations};

/// More values than that (fields and entries of lists) nobody looks after: some 4 MB as a tree at most, and some 20 MB, for a moment, as a
/// pod of the client library, whose volumes take 3 KB each (`agent/tests/memory` measures that). A template of ten containers with a hundred variables each has 3,000.
pub const MOST_VALUES: usize = 10_000;

/// Why something is not looked after, a clause with its number of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it has {0} fields and list entries, and no more than {MOST_VALUES} are looked after; make it smaller, e.g. move variables to a \
     ConfigMap (envFrom)"
)]
pub struct TooLarge(pub usize);

/// The object without what nobody reads, if it has too many values; and how many it has then.
///
/// # Errors
/// If it is no object.
pub fn without_managed_fields(json: &str) -> Result<Option<(String, usize)>> {
    // A value and what separates it from the next take two bytes.
    if json.len() / 2 <= MOST_VALUES || count(json)? <= MOST_VALUES {
        return Ok(None);
    }
    let json = replaced(json, &["metadata", "managedFields"], None)?;
    let values = count(&json)?;
    Ok(Some((json, values)))
}

/// What is read of a pod that has so many values. If they are annotations that nobody here reads: all the rest. Else who it is, whose,
/// where, and its state, and the annotation [`annotations::TOO_LARGE`] says so.
///
/// # Errors
/// If it is no object.
pub fn outline_of_pod(json: &str, values: usize) -> Result<String> {
    const SPEC: [&str; 5] =
        ["nodeName", "hostNetwork", "runtimeClassName", "terminationGracePeriodSeconds", "readinessGates"];
    const STATUS: [&str; 5] = ["phase", "conditions", "podIP", "podIPs", "observedGeneration"];
    let json = with_few(json, "annotations")?;
    if count(&json)? <= MOST_VALUES {
        return Ok(json);
    }
    let json = only(&with_few(&json, "labels")?, &["spec"], |name| SPEC.contains(&name))?;
    let json = only(&json, &["status"], |name| STATUS.contains(&name))?;
    let mark = format!("\"{values}\"");
    if field(&json, &["metadata", "annotations"])?.is_none() {
        let annotations = format!("{{\"{}\":{mark}}}", annotations::TOO_LARGE);
        return with_fields(&json, &["metadata"], &mut |fields| {
            Ok(printed(fields.into_iter().chain([("annotations", annotations.as_str())])))
        });
    }
    with_fields(&json, &["metadata", "annotations"], &mut |fields| {
        let others = fields.into_iter().filter(|(name, _)| *name != annotations::TOO_LARGE);
        Ok(printed(others.chain([(annotations::TOO_LARGE, mark.as_str())])))
    })
}

/// The pod as it is looked after, for who has read all of it: its outline, if it has too many values.
#[must_use]
pub fn outlined(pod: Pod) -> Pod {
    let outline = || {
        let text = serde_json::to_string(&pod)?;
        let (text, values) = match without_managed_fields(&text)? {
            Some((text, values)) if values > MOST_VALUES => (text, values),
            Some(_) | None => return Ok(None),
        };
        serde_json::from_str(&outline_of_pod(&text, values)?).map(Some)
    };
    // What was text a moment ago can be written and read again.
    let outline: Result<Option<Pod>> = outline();
    outline.ok().flatten().unwrap_or(pod)
}

/// The object with no more `labels` or `annotations` than somebody writes who means them: those of ours and of Kubernetes first.
///
/// # Errors
/// If it is no object.
pub fn with_few(json: &str, marks: &str) -> Result<String> {
    const MOST: usize = 200;
    let is_known =
        |name: &str| name.starts_with(PREFIX) || name.contains("kusionstack.io/") || name.contains("kubernetes.io/");
    with_fields(json, &["metadata", marks], &mut |fields| {
        let (known, others): (Vec<_>, Vec<_>) = fields.into_iter().partition(|(name, _)| is_known(name));
        Ok(printed(known.into_iter().chain(others).take(MOST)))
    })
}

/// The object with only some of the fields at that path.
///
/// # Errors
/// If it is no object.
pub fn only(json: &str, path: &[&str], is_kept: impl Fn(&str) -> bool) -> Result<String> {
    with_fields(json, path, &mut |fields| Ok(printed(fields.into_iter().filter(|(name, _)| is_kept(name)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::PodView;
    use serde_json::{Value, json};

    fn pod(variables: usize) -> Value {
        let env: Vec<Value> = (0..variables).map(|number| json!({"name": format!("a{number}")})).collect();
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "shop", "name": "web", "uid": "u", "labels": {"app": "web"},
                "annotations": {"hitless.dev/revision": "r", "note": "x"}, "managedFields": [{"manager": "x"}]},
            "spec": {"nodeName": "n", "containers": [{"name": "web", "image": "web:1", "env": env}],
                "readinessGates": [{"conditionType": "hitless.dev/InService"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}})
    }

    #[test]
    fn of_a_pod_that_is_too_large_it_stays_known_who_and_where_it_is_and_in_which_state() {
        let text = pod(6000).to_string();
        let (text, values) = without_managed_fields(&text).unwrap().unwrap();
        assert!(values > MOST_VALUES);
        let view = PodView::from(&serde_json::from_str(&outline_of_pod(&text, values).unwrap()).unwrap());
        assert_eq!((view.id.name.as_str(), view.node.as_deref(), view.labels.len()), ("web", Some("n"), 1));
        assert!(view.ready() && view.gated && view.containers.is_empty());
        assert_eq!(view.annotations.get(annotations::REVISION).map(String::as_str), Some("r"));
        assert_eq!(view.too_large(), Some(TooLarge(values)));
        let mut bare = pod(6000);
        bare["metadata"].as_object_mut().unwrap().remove("annotations");
        let view = PodView::from(&serde_json::from_str(&outline_of_pod(&bare.to_string(), 7).unwrap()).unwrap());
        assert_eq!(view.too_large(), Some(TooLarge(7)));
    }

    #[test]
    fn who_reads_a_whole_pod_sees_the_same_of_it() {
        let whole = |variables| serde_json::from_value::<Pod>(pod(variables)).unwrap();
        let view = PodView::from(&outlined(whole(6_000)));
        assert!(view.too_large().is_some() && view.node.is_some() && view.containers.is_empty());
        assert_eq!(outlined(whole(100)), whole(100));
    }

    #[test]
    fn what_nobody_reads_does_not_count() {
        assert_eq!(without_managed_fields(&pod(100).to_string()).unwrap(), None);
        let mut noted = pod(100);
        let fields: serde_json::Map<String, Value> =
            (0..12_000).map(|number| (format!("f:{number}"), json!({}))).collect();
        noted["metadata"]["managedFields"] = json!([{"fieldsV1": fields}]);
        let (text, values) = without_managed_fields(&noted.to_string()).unwrap().unwrap();
        assert!(values < MOST_VALUES && !text.contains("managedFields"));
    }
}

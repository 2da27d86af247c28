//! Values of a rule's parameters for one pod. A path that leads nowhere gives an empty text, whatever is on the way.

use std::collections::BTreeMap;

use hitless_api::PodRef;
use hitless_api::pod_transition_rule::Parameter;
use serde_json::Value;

/// Paths that a pod's identity answers.
const IDENTITY: [&str; 3] = ["metadata.name", "metadata.namespace", "metadata.uid"];

/// Whether a parameter asks for something that only the whole pod can tell.
#[must_use]
pub fn need_pod(parameters: &[Parameter]) -> bool {
    parameters.iter().filter_map(path).any(|path| !IDENTITY.contains(&path))
}

/// All values by key. `object` is the pod as JSON; it may be absent where [`need_pod`] is false.
#[must_use]
pub fn resolve<'a>(parameters: &'a [Parameter], pod: &PodRef, object: Option<&Value>) -> BTreeMap<&'a str, String> {
    let value = |parameter: &Parameter| match path(parameter) {
        None => parameter.value.clone().unwrap_or_default(),
        Some(path) => match identity(path, pod) {
            Some(known) => known.to_owned(),
            None => object.map(|object| field(object, path)).unwrap_or_default(),
        },
    };
    parameters.iter().map(|parameter| (parameter.key.as_deref().unwrap_or_default(), value(parameter))).collect()
}

/// A literal value wins over a path.
fn path(parameter: &Parameter) -> Option<&str> {
    if parameter.value.as_ref().is_some_and(|value| !value.is_empty()) {
        return None;
    }
    Some(parameter.value_from.as_ref()?.field_ref.as_ref()?.field_path.as_str())
}

fn identity<'a>(path: &str, pod: &'a PodRef) -> Option<&'a str> {
    match path {
        "metadata.name" => Some(&pod.name),
        "metadata.namespace" => Some(&pod.namespace),
        "metadata.uid" => Some(&pod.uid),
        _ => None,
    }
}

fn field(object: &Value, path: &str) -> String {
    match subscript(path) {
        Some((map, key)) => text(walk(object, map).and_then(|map| map.get(key))),
        None if path == "metadata.labels" || path == "metadata.annotations" => lines(walk(object, path)),
        None => text(walk(object, path)),
    }
}

/// `metadata.labels['k']` and `metadata.annotations['k']`, also with double quotes.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix(']')?.split_once('[')?;
    let key = ['\'', '"'].into_iter().find_map(|quote| key.strip_prefix(quote)?.strip_suffix(quote))?;
    matches!(map, "metadata.labels" | "metadata.annotations").then_some((map, key))
}

fn walk<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let path = path.strip_prefix('.').unwrap_or(path);
    path.split('.').try_fold(object, |value, segment| value.get(segment))
}

fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Sorted lines `key="value"`, as the kubelet's downward API writes them.
fn lines(map: Option<&Value>) -> String {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    let sorted: BTreeMap<&String, &Value> = entries.collect();
    let lines = sorted.into_iter().filter_map(|(key, value)| Some(format!("{key}={:?}", value.as_str()?)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::pod_transition_rule::{FieldRef, ParameterSource};

    fn parameter(value: Option<&str>, path: Option<&str>) -> Parameter {
        let field_ref = path.map(|path| FieldRef { api_version: None, field_path: path.into() });
        Parameter {
            key: Some("k".into()),
            value: value.map(Into::into),
            value_from: Some(ParameterSource { kind: None, field_ref }),
        }
    }

    #[test]
    fn each_form_of_path_has_its_value_and_a_wrong_one_has_none() {
        let pod = PodRef { namespace: "ns".into(), name: "p".into(), uid: "u".into() };
        let object = serde_json::json!({
            "metadata": {"name": "p", "labels": {"b": "2", "a": "x \"y\"", "with.dots/and-slash": "d"}, "annotations": {"n": "\n"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}], "priority": 7, "hostNetwork": null},
            "status": {"podIP": "10.0.0.1"},
        });
        for (path, expected) in [
            ("metadata.name", "p"),
            ("metadata.namespace", "ns"),
            ("metadata.uid", "u"),
            ("metadata.labels", "a=\"x \\\"y\\\"\"\nb=\"2\"\nwith.dots/and-slash=\"d\""),
            ("metadata.annotations", "n=\"\\n\""),
            ("metadata.labels['b']", "2"),
            ("metadata.labels['with.dots/and-slash']", "d"),
            ("metadata.labels[\"b\"]", "2"),
            ("metadata.labels['no']", ""),
            ("metadata.annotations['n']", "\n"),
            ("status.podIP", "10.0.0.1"),
            (".spec.nodeName", "n1"),
            ("spec.priority", "7"),
            ("spec.containers", r#"[{"name":"c"}]"#),
            ("spec.hostNetwork", ""),
            // On these upstream's manager dies.
            ("spec.nodeName.further", ""),
            ("spec.containers[0].name", ""),
            ("no.such.path", ""),
            ("metadata.labels[", ""),
            ("metadata.labels[']", ""),
            ("spec['nodeName']", ""),
            ("", ""),
            ("....", ""),
        ] {
            let resolved =
                resolve(std::slice::from_ref(&parameter(None, Some(path))), &pod, Some(&object))["k"].clone();
            assert_eq!(resolved, expected, "{path}");
        }
    }

    #[test]
    fn a_literal_wins_and_an_empty_one_does_not() {
        let pod = PodRef { namespace: "ns".into(), name: "p".into(), uid: "u".into() };
        let all = [parameter(Some("v"), Some("status.podIP"))];
        assert_eq!(resolve(&all, &pod, None)["k"], "v");
        assert!(!need_pod(&all), "nothing is read that is not needed");
        let all = [parameter(Some(""), Some("metadata.uid"))];
        assert_eq!(resolve(&all, &pod, None)["k"], "u");
        assert!(!need_pod(&all));
        assert!(need_pod(&[parameter(None, Some("metadata.labels"))]));
        assert_eq!(resolve(&[Parameter::default()], &pod, None), BTreeMap::from([("", String::new())]));
    }
}

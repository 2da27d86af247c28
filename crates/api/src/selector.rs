//! Label selectors as Kubernetes evaluates them, except that what can't be understood matches nobody.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Whether `selector` selects everybody.
#[must_use]
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// Whether `selector` selects something with these labels. An empty selector selects everything, one with a
/// [`fault`] nothing.
#[must_use]
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    matches_by(selector, |key| labels.get(key).map(String::as_str))
}

/// Whether `selector` selects something of which `get` gives the labels.
#[must_use]
pub fn matches_by<'a>(selector: &LabelSelector, get: impl Fn(&str) -> Option<&'a str>) -> bool {
    selector.match_labels.iter().flatten().all(|(key, value)| get(key) == Some(value.as_str()))
        && selector.match_expressions.iter().flatten().all(|requirement| meets(requirement, get(&requirement.key)))
}

fn meets(requirement: &LabelSelectorRequirement, value: Option<&str>) -> bool {
    if requirement_fault(requirement).is_some() {
        return false;
    }
    let listed = value.is_some_and(|value| requirement.values.iter().flatten().any(|wanted| wanted == value));
    match requirement.operator.as_str() {
        "In" => listed,
        // Kubernetes lets a missing label pass NotIn.
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

/// What is wrong with the selector, if anything.
#[must_use]
pub fn fault(selector: &LabelSelector) -> Option<String> {
    selector.match_expressions.iter().flatten().find_map(requirement_fault)
}

fn requirement_fault(requirement: &LabelSelectorRequirement) -> Option<String> {
    let key = &requirement.key;
    let values = requirement.values.iter().flatten().count();
    match requirement.operator.as_str() {
        "In" | "NotIn" if values == 0 => Some(format!(
            "the requirement on label {key:?} has operator {} and no values; give it at least one",
            requirement.operator
        )),
        "Exists" | "DoesNotExist" if values > 0 => Some(format!(
            "the requirement on label {key:?} has operator {} and values; remove the values",
            requirement.operator
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => None,
        other => Some(format!(
            "the requirement on label {key:?} has operator {other:?}; use In, NotIn, Exists or DoesNotExist"
        )),
    }
}

/// The selector in the form of kubectl's `-l`.
#[must_use]
pub fn text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(|requirement| {
        let key = &requirement.key;
        let values = || requirement.values.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(",");
        match requirement.operator.as_str() {
            "In" => format!("{key} in ({})", values()),
            "NotIn" => format!("{key} notin ({})", values()),
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            other => format!("{key} {other} ({})", values()),
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(json: serde_json::Value) -> LabelSelector {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn every_operator_as_kubernetes_has_it() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let one = |key: &str, operator: &str, values: &[&str]| {
            selector(serde_json::json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        for (key, operator, values, expected) in [
            ("app", "In", &["api", "web"][..], true),
            ("app", "In", &["api"], false),
            ("zone", "In", &["a"], false),
            ("app", "NotIn", &["web"], false),
            ("app", "NotIn", &["api"], true),
            ("zone", "NotIn", &["a"], true),
            ("app", "Exists", &[], true),
            ("zone", "Exists", &[], false),
            ("app", "DoesNotExist", &[], false),
            ("zone", "DoesNotExist", &[], true),
        ] {
            let selector = one(key, operator, values);
            assert_eq!(matches(&selector, &labels), expected, "{key} {operator} {values:?}");
            assert_eq!(fault(&selector), None);
        }
        for (operator, values) in [("Gt", &["1"][..]), ("in", &["web"]), ("", &[]), ("In", &[]), ("Exists", &["web"])] {
            let selector = one("app", operator, values);
            assert!(!matches(&selector, &labels), "{operator} {values:?}");
            assert!(fault(&selector).unwrap().contains("\"app\""));
        }
    }

    #[test]
    fn all_parts_must_match_and_an_empty_selector_matches_everything() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        assert!(matches(&selector(serde_json::json!({})), &BTreeMap::new()));
        let both = selector(serde_json::json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x", "y"]}, {"key": "z", "operator": "Exists"}],
        }));
        assert!(!matches(&both, &labels));
        assert!(matches(&both, &BTreeMap::from([("app".into(), "web".into()), ("z".into(), String::new())])));
        assert_eq!(text(&both), "app=web,tier notin (x,y),z");
        assert!(is_empty(&LabelSelector::default()) && !is_empty(&both));
    }

    #[test]
    fn a_selector_selects_by_labels_and_expressions_and_says_so_as_text() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let expression = |json: serde_json::Value| selector(serde_json::json!({"matchExpressions": [json]}));
        for (selector, is_selected, wanted) in [
            (selector(serde_json::json!({"matchLabels": {"app": "web"}})), true, "app=web"),
            (selector(serde_json::json!({"matchLabels": {"app": "other"}})), false, "app=other"),
            (
                expression(serde_json::json!({"key": "app", "operator": "In", "values": ["a", "web"]})),
                true,
                "app in (a,web)",
            ),
            (
                expression(serde_json::json!({"key": "app", "operator": "NotIn", "values": ["web"]})),
                false,
                "app notin (web)",
            ),
            (expression(serde_json::json!({"key": "zone", "operator": "DoesNotExist"})), true, "!zone"),
            (expression(serde_json::json!({"key": "app", "operator": "Likes"})), false, "app Likes ()"),
        ] {
            assert_eq!((matches(&selector, &labels), text(&selector)), (is_selected, wanted.to_owned()));
        }
    }
}

//! Label selectors of CollaSets.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Whether it would select everybody.
pub(super) fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// Whether it selects whoever has these labels. What is not understood selects nobody.
pub(super) fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let mut equal = selector.match_labels.iter().flatten();
    let mut expressions = selector.match_expressions.iter().flatten();
    equal.all(|(key, value)| labels.get(key) == Some(value)) && expressions.all(|each| holds(each, labels))
}

fn holds(each: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&each.key);
    let is_listed = |value: &String| each.values.iter().flatten().any(|listed| listed == value);
    match each.operator.as_str() {
        "In" => value.is_some_and(is_listed),
        "NotIn" => !value.is_some_and(is_listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

/// As the subresource `scale` has it.
pub(super) fn text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(|each| {
        let LabelSelectorRequirement { key, operator, values } = each;
        let values = values.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(",");
        match operator.as_str() {
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            _ => format!("{key} in ({values})"),
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_selector_selects_by_labels_and_expressions_and_says_so_as_text() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        for (selector, is_selected, wanted) in [
            (json!({"matchLabels": {"app": "web"}}), true, "app=web"),
            (json!({"matchLabels": {"app": "other"}}), false, "app=other"),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "web"]}]}),
                true,
                "app in (a,web)",
            ),
            (
                json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}),
                false,
                "app notin (web)",
            ),
            (json!({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}), true, "!zone"),
            (json!({"matchExpressions": [{"key": "app", "operator": "Likes"}]}), false, "app in ()"),
        ] {
            let selector: LabelSelector = serde_json::from_value(selector).unwrap();
            assert_eq!((selects(&selector, &labels), text(&selector)), (is_selected, wanted.to_owned()));
        }
        assert!(is_empty(&LabelSelector::default()));
    }
}

//! Label selectors as Kubernetes evaluates them. One that can't be understood selects neither everybody nor nobody: whoever asks
//! has to say which side is the safe one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use thiserror::Error;

use crate::label;

/// A selector that is understood. [`read`] is the only way to one, so nobody can ask a fault whom it selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector<'a> {
    labels: Cow<'a, BTreeMap<String, String>>,
    requirements: Vec<Requirement<'a>>,
}

/// What a selector asks of one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement<'a> {
    /// The label.
    pub key: Cow<'a, str>,
    /// How it relates to the values.
    pub operator: Operator,
    /// At least one for `In` and `NotIn`, none for the others. Sorted, so that a long list costs little for each of many objects.
    pub values: Vec<Cow<'a, str>>,
}

/// How a requirement relates a label to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or is not there.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
}

/// Why a selector can't be understood, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Fault(String);

impl Operator {
    /// All of them, as a schema names them.
    pub const ALL: [Self; 4] = [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist];

    /// Its name in a selector.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
        }
    }

    /// Whether it needs values; otherwise it must have none.
    #[must_use]
    pub const fn has_values(self) -> bool {
        matches!(self, Self::In | Self::NotIn)
    }
}

/// The selector, if it is understood. Labels that no object can have are faults as for Kubernetes' own `LabelSelectorAsSelector`.
///
/// # Errors
/// What is wrong with it.
pub fn read(selector: &LabelSelector) -> Result<Selector<'_>, Fault> {
    let labels = selector.match_labels.as_ref();
    for (key, value) in labels.into_iter().flatten() {
        valid(key, std::slice::from_ref(value))?;
    }
    let requirements = selector.match_expressions.iter().flatten().map(requirement).collect::<Result<_, _>>()?;
    Ok(Selector { labels: labels.map_or_else(Cow::default, Cow::Borrowed), requirements })
}

fn requirement(from: &LabelSelectorRequirement) -> Result<Requirement<'_>, Fault> {
    let (key, name) = (&from.key, from.operator.as_str());
    let values = from.values.as_deref().unwrap_or_default();
    let fault = |text: String| Err(Fault(format!("the requirement on label {key:?} has operator {text}")));
    let Some(operator) = Operator::ALL.into_iter().find(|operator| operator.name() == name) else {
        return fault(format!("{name:?}; use In, NotIn, Exists or DoesNotExist"));
    };
    match (operator.has_values(), values.is_empty()) {
        (true, true) => return fault(format!("{name} and no values; give it at least one")),
        (false, false) => return fault(format!("{name} and values; remove the values")),
        (true, false) | (false, true) => {}
    }
    valid(key, values)?;
    let mut values: Vec<_> = values.iter().map(|value| Cow::Borrowed(value.as_str())).collect();
    values.sort_unstable();
    Ok(Requirement { key: Cow::Borrowed(key), operator, values })
}

fn valid(key: &str, values: &[String]) -> Result<(), Fault> {
    if !label::is_key(key) {
        return Err(Fault(format!("{key:?} can't be the name of a label; correct it")));
    }
    match values.iter().find(|value| !label::is_value(value)) {
        Some(value) => Err(Fault(format!("label {key:?} can't have the value {value:?}; correct it"))),
        None => Ok(()),
    }
}

/// Whether something with these labels is among those whom a limit with this selector is for. A limit that can't be understood
/// is for everybody whom it might mean.
#[must_use]
pub fn limits(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    Limit::of(selector).concerns(labels)
}

/// Whom a limit with a selector is for, read once for many objects: to read a long selector costs far more than to ask it. A limit that
/// can't be understood is for everybody whom it might mean.
#[derive(Debug)]
pub struct Limit<'a>(Result<Selector<'a>, Fault>);

impl<'a> Limit<'a> {
    /// Of a limit with this selector.
    #[must_use]
    pub fn of(selector: &'a LabelSelector) -> Self {
        Self(read(selector))
    }

    /// Whether something with these labels is among those whom the limit is for.
    #[must_use]
    pub fn concerns(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.as_ref().map_or(true, |understood| understood.matches(labels))
    }
}

/// What is wrong with the selector, if anything.
#[must_use]
pub fn fault(selector: &LabelSelector) -> Option<Fault> {
    read(selector).err()
}

impl Selector<'_> {
    /// Whether it selects something with these labels. An empty selector selects everything.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_by(|key| labels.get(key).map(String::as_str))
    }

    /// Whether it selects something of which `get` gives the labels.
    #[must_use]
    pub fn matches_by<'l>(&self, get: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.labels.iter().all(|(key, value)| get(key) == Some(value.as_str()))
            && self.requirements.iter().all(|requirement| requirement.meets(get(&requirement.key)))
    }

    /// Labels that it wants with their values.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// What it asks besides.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement<'_>] {
        &self.requirements
    }

    /// The same for whoever keeps it.
    #[must_use]
    pub fn into_owned(self) -> Selector<'static> {
        let owned = |each: Requirement<'_>| Requirement {
            key: Cow::Owned(each.key.into_owned()),
            operator: each.operator,
            values: each.values.into_iter().map(|value| Cow::Owned(value.into_owned())).collect(),
        };
        Selector {
            labels: Cow::Owned(self.labels.into_owned()),
            requirements: self.requirements.into_iter().map(owned).collect(),
        }
    }
}

impl Requirement<'_> {
    /// Whether a label with this value, or one that is not there, is as it asks.
    #[must_use]
    pub fn meets(&self, value: Option<&str>) -> bool {
        let listed = || value.is_some_and(|value| self.values.binary_search_by(|wanted| (**wanted).cmp(value)).is_ok());
        match self.operator {
            Operator::In => listed(),
            // Kubernetes lets a missing label pass NotIn.
            Operator::NotIn => !listed(),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for Selector<'_> {
    /// In the form of kubectl's `-l`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.labels().map(|(key, value)| format!("{key}={value}"));
        let expressions = self.requirements.iter().map(|each| form(&each.key, each.operator.name(), &each.values));
        f.write_str(&labels.chain(expressions).collect::<Vec<_>>().join(","))
    }
}

fn form<S: AsRef<str>>(key: &str, operator: &str, values: &[S]) -> String {
    let mut values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
    // As kubectl prints it, in whatever order it was written.
    values.sort_unstable();
    let values = || values.join(",");
    match operator {
        "In" => format!("{key} in ({})", values()),
        "NotIn" => format!("{key} notin ({})", values()),
        "Exists" => key.to_owned(),
        "DoesNotExist" => format!("!{key}"),
        other => format!("{key} {other} ({})", values()),
    }
}

/// Whether `selector` asks for nothing, so that it selects everybody.
#[must_use]
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// The selector in the form of kubectl's `-l`, also one that is not understood.
#[must_use]
pub fn text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten();
    let expressions =
        expressions.map(|each| form(&each.key, &each.operator, each.values.as_deref().unwrap_or_default()));
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(json: serde_json::Value) -> LabelSelector {
        serde_json::from_value(json).unwrap()
    }

    fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
        read(selector).unwrap().matches(labels)
    }

    #[test]
    fn every_operator_as_kubernetes_has_it() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let one = |key: &str, operator: &str, values: &[&str]| {
            selector(serde_json::json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        for (key, operator, values, expected) in [
            ("app", "In", &["api", "web"][..], true),
            ("app", "In", &["web", "zone", "api"], true),
            ("app", "NotIn", &["web", "zone", "api"], false),
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
            assert_eq!((limits(&selector, &labels), fault(&selector)), (expected, None));
            assert_eq!(read(&selector).unwrap().to_string(), text(&selector));
            assert_eq!(read(&selector).unwrap().into_owned(), read(&selector).unwrap());
        }
    }

    #[test]
    fn a_limit_that_is_not_understood_is_for_everybody_and_says_what_to_write() {
        let one = |key: &str, operator: &str, values: &[&str]| {
            selector(serde_json::json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        let long = "v".repeat(64);
        for (selector, words) in [
            (one("app", "Gt", &["1"]), "\"Gt\"; use In, NotIn, Exists or DoesNotExist"),
            (one("app", "in", &["web"]), "\"in\"; use In"),
            (one("app", "", &[]), "\"\"; use In"),
            (one("app", "In", &[]), "In and no values; give it at least one"),
            (one("app", "Exists", &["web"]), "Exists and values; remove the values"),
            (one("app", "In", &["web", "web "]), "label \"app\" can't have the value \"web \""),
            (one("app/", "Exists", &[]), "\"app/\" can't be the name of a label"),
            (selector(serde_json::json!({"matchLabels": {"app": "web:1"}})), "can't have the value \"web:1\""),
            (selector(serde_json::json!({"matchLabels": {"app": long}})), "can't have the value"),
        ] {
            let error = read(&selector).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert!(limits(&selector, &BTreeMap::new()) && fault(&selector) == Some(error));
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
        ] {
            assert_eq!((matches(&selector, &labels), text(&selector)), (is_selected, wanted.to_owned()));
        }
        let faulty = expression(serde_json::json!({"key": "app", "operator": "Likes"}));
        assert_eq!(text(&faulty), "app Likes ()");
    }
}

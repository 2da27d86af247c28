//! Why a value itself, without what is in it, is not allowed.

use hitless_api::transition_budget::Blackout;
use regex::Regex;
use serde_json::{Value, json};

use crate::files::quoting;

/// Words for people; `None`: it is allowed.
pub(super) fn wrong_value(value: &Value, schema: &Value) -> Option<String> {
    wrong_type(value, schema)
        .or_else(|| not_listed(value, schema))
        .or_else(|| out_of_range(value, schema))
        .or_else(|| wrong_length(value, schema))
        .or_else(|| wrong_form(value.as_str()?, schema))
}

fn wrong_type(value: &Value, schema: &Value) -> Option<String> {
    let (fits, wanted) = match schema["type"].as_str() {
        Some("string") => (value.is_string(), "text"),
        Some("integer") => (value.is_i64() || value.is_u64(), "a whole number"),
        Some("number") => (value.is_number(), "a number"),
        Some("boolean") => (value.is_boolean(), "true or false"),
        Some("array") => (value.is_array(), "a list"),
        Some("object") => (value.is_object(), "a map of fields"),
        _ if schema["x-kubernetes-int-or-string"] == true => {
            (value.is_i64() || value.is_u64() || value.is_string(), "a whole number or a percentage")
        }
        _ => (true, ""),
    };
    let advice = if schema["type"] == "string" { quoting(value) } else { "" };
    (!fits).then(|| format!("is {value}; it must be {wanted}{advice}"))
}

fn not_listed(value: &Value, schema: &Value) -> Option<String> {
    let allowed: Vec<&Value> = schema["enum"].as_array().into_iter().flatten().collect();
    if allowed.is_empty() || allowed.contains(&value) {
        return None;
    }
    let allowed: Vec<&str> = allowed.iter().filter_map(|value| value.as_str()).collect();
    Some(format!("is {value}; use {}", allowed.join(", ")))
}

fn out_of_range(value: &Value, schema: &Value) -> Option<String> {
    let number = value.as_f64()?;
    let least = schema["minimum"].as_f64().filter(|least| number < *least);
    let most = schema["maximum"].as_f64().filter(|most| number > *most);
    let least = least.map(|least| format!("is {value}; it must be {least} or more"));
    least.or_else(|| most.map(|most| format!("is {value}; it must be {most} or less")))
}

fn wrong_length(value: &Value, schema: &Value) -> Option<String> {
    let (length, what) = match value {
        Value::String(text) => (text.chars().count() as u64, "Length"),
        Value::Array(items) => (items.len() as u64, "Items"),
        Value::Object(fields) => (fields.len() as u64, "Properties"),
        Value::Null | Value::Bool(_) | Value::Number(_) => return None,
    };
    if let Some(most) = schema[format!("max{what}")].as_u64().filter(|most| length > *most) {
        return Some(format!("is too long ({length}); at most {most} fit"));
    }
    match schema[format!("min{what}")].as_u64().filter(|least| length < *least)? {
        1 => Some("is empty; it must not be".to_owned()),
        least => Some(format!("is too short ({length}); at least {least} are needed")),
    }
}

fn wrong_form(text: &str, schema: &Value) -> Option<String> {
    if schema["format"] == "date-time" && !is_time(text) {
        return Some(format!("is {text:?}; write a time with its zone, e.g. 2026-11-01T00:00:00Z"));
    }
    let pattern = schema["pattern"].as_str()?;
    // One that this parser does not know is the API server's to judge.
    let form = Regex::new(pattern).ok()?;
    (!form.is_match(text)).then(|| format!("is {text:?}; it must be {}", form_in_words(pattern)))
}

/// As the controller reads it.
fn is_time(text: &str) -> bool {
    let has_separator = text.as_bytes().get(10).is_some_and(|separator| matches!(separator, b'T' | b't'));
    has_separator && serde_json::from_value::<Blackout>(json!({"start": text, "end": text})).is_ok()
}

/// The forms that people get wrong; of others their pattern tells.
fn form_in_words(pattern: &str) -> String {
    match pattern {
        "^(100|[1-9]?[0-9])%$" => "a count, or a percentage from 0% to 100% without zeros before it".to_owned(),
        "^([01][0-9]|2[0-3]):[0-5][0-9]$" => {
            "a time of day with two digits each, HH:MM, from 00:00 to 23:59".to_owned()
        }
        other => format!("of the form {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(value: &Value, schema: &Value) -> String {
        wrong_value(value, schema).unwrap_or_default()
    }

    #[test]
    fn forms_in_words_are_those_of_the_definitions() {
        let definitions = hitless_api::crds::definitions();
        let all = serde_json::to_string(&definitions.iter().map(|(_, crd)| crd).collect::<Vec<_>>()).unwrap();
        for pattern in ["^(100|[1-9]?[0-9])%$", "^([01][0-9]|2[0-3]):[0-5][0-9]$"] {
            assert!(all.contains(&format!(r#""pattern":"{pattern}""#)), "{pattern}");
            assert!(!form_in_words(pattern).contains('^'));
        }
    }

    #[test]
    fn every_pattern_of_the_definitions_is_understood() {
        fn patterns(schema: &Value, all: &mut Vec<String>) {
            match schema {
                Value::Object(fields) => {
                    all.extend(fields.get("pattern").and_then(Value::as_str).map(str::to_owned));
                    fields.values().for_each(|field| patterns(field, all));
                }
                Value::Array(items) => items.iter().for_each(|item| patterns(item, all)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let mut all = Vec::new();
        for (_, crd) in hitless_api::crds::definitions() {
            patterns(&serde_json::to_value(crd).unwrap(), &mut all);
        }
        assert!(all.len() > 8, "{all:?}");
        for pattern in all {
            assert!(Regex::new(&pattern).is_ok(), "{pattern}");
        }
    }

    #[test]
    fn a_time_needs_its_zone_and_may_be_the_end_of_time() {
        let schema = json!({"type": "string", "format": "date-time"});
        for bad in ["2026-11-01", "2026-11-01T00:00:00", "2026-11-01 00:00:00Z", "tomorrow"] {
            assert!(wrong(&json!(bad), &schema).contains("write a time with its zone"), "{bad}");
        }
        for good in ["2026-11-01T00:00:00Z", "2026-11-01T00:00:00.123456+02:00", "9999-12-31T00:00:00Z"] {
            assert_eq!(wrong(&json!(good), &schema), "", "{good}");
        }
    }

    #[test]
    fn a_pattern_is_for_text_and_a_range_for_numbers() {
        let schema =
            json!({"x-kubernetes-int-or-string": true, "pattern": "^(100|[1-9]?[0-9])%$", "minimum": 0, "maximum": 9});
        assert_eq!(wrong(&json!(9), &schema), "");
        assert_eq!(wrong(&json!("5%"), &schema), "");
        assert_eq!(wrong(&json!(10), &schema), "is 10; it must be 9 or less");
        assert_eq!(
            wrong(&json!("05%"), &schema),
            r#"is "05%"; it must be a count, or a percentage from 0% to 100% without zeros before it"#
        );
    }

    #[test]
    fn what_yaml_reads_as_something_else_is_to_be_quoted() {
        let text = json!({"type": "string"});
        assert!(wrong(&json!(true), &text).contains("it must be text; quote it (YAML reads y,"));
        assert_eq!(wrong(&json!(8), &text), "is 8; it must be text; quote it");
        assert_eq!(wrong(&json!([]), &text), "is []; it must be text");
    }
}

//! Compares a value with the schema of its CRD.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Found;
use super::value::wrong_value;
use crate::files::Node;
use crate::lint::nearest::nearest;

pub(super) fn walk(path: &str, node: Option<&Node>, schema: &Value, found: &mut Found) {
    let Some(node) = node else { return };
    let value = node.to_json();
    if value.is_null() {
        return;
    }
    if let Some(text) = wrong_value(&value, schema) {
        found.push((node.line, format!("{path} {text}")));
        return;
    }
    fields(path, node, schema, found);
    for (index, item) in node.items().iter().enumerate() {
        walk(&format!("{path}[{index}]"), Some(item), &schema["items"], found);
    }
    found.extend(twice(path, node, schema));
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    found.extend(rules.filter(|rule| breaks(rule, &value)).map(|rule| {
        let message = rule["message"].as_str().unwrap_or("is not allowed");
        (node.line, format!("{path}: {message}"))
    }));
}

fn fields(path: &str, node: &Node, schema: &Value, found: &mut Found) {
    let (properties, others) = (&schema["properties"], &schema["additionalProperties"]);
    let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true || others.is_object();
    if let Some(properties) = properties.as_object() {
        let known: Vec<&str> = properties.keys().map(String::as_str).collect();
        for (key, child) in node.entries() {
            let path = format!("{path}.{key}");
            match properties.get(key) {
                Some(schema) => walk(&path, Some(child), schema, found),
                None if is_open => {}
                None => found.push((child.line, unknown(&path, &known))),
            }
        }
    }
    if others.is_object() {
        let named = |key: &String| properties.get(key).is_some();
        for (key, child) in node.entries().iter().filter(|(key, _)| !named(key)) {
            walk(&format!("{path}.{key}"), Some(child), others, found);
        }
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if node.get(required).is_none() {
            found.push((node.line, format!("{path}.{required} is missing; it is required")));
        }
    }
}

pub(super) fn unknown(path: &str, known: &[&str]) -> String {
    let name = path.rsplit('.').next().unwrap_or(path);
    let hint = match nearest(name, known) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("known are: {}", known.join(", ")),
    };
    format!("field {path} is not known and would be dropped; {hint}")
}

/// Items of a list that must differ in these fields and don't.
fn twice(path: &str, node: &Node, schema: &Value) -> Found {
    if schema["x-kubernetes-list-type"] != "map" {
        return Vec::new();
    }
    let keys: Vec<&str> =
        schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    for (index, item) in node.items().iter().enumerate() {
        let values: Vec<String> = keys.iter().filter_map(|key| Some(item.get(key)?.to_json().to_string())).collect();
        // What is missing has been named.
        if values.len() == keys.len() && !seen.insert(values.join(" ")) {
            let (keys, values) = (keys.join(" and "), values.join(" and "));
            found.push((item.line, format!("{path}[{index}] has the {keys} of an earlier one ({values}); change it")));
        }
    }
    found
}

/// Whether the value breaks a rule of the form `has(self.a) != has(self.b)`; of other rules the API server tells.
fn breaks(rule: &Value, value: &Value) -> bool {
    let sides = rule["rule"].as_str().and_then(|rule| rule.split_once(" != "));
    let field = |side: &str| Some(side.strip_prefix("has(self.")?.strip_suffix(')')?.to_owned());
    let Some((one, other)) = sides.and_then(|(one, other)| Some((field(one)?, field(other)?))) else { return false };
    let has = |field: &str| value.get(field).is_some_and(|value| !value.is_null());
    has(&one) == has(&other)
}

//! Objects as text of a template.

use serde_json::Value;

use super::NAMESPACE;

/// What a string begins with that is an expression of the template.
const INLINE: char = '\u{1}';
/// What a string begins with that is lines of the template, in place of an item or a field.
const LINES: char = '\u{2}';

/// Words that YAML takes for something else than a string.
const RESERVED: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];

/// A value that an expression makes.
pub(super) fn expression(text: &str) -> Value {
    Value::String(format!("{INLINE}{{{{ {text} }}}}"))
}

/// Lines of the template in place of an item of a list.
pub(super) fn lines(text: &str) -> Value {
    Value::String(format!("{LINES}{text}"))
}

/// An item of a list that is there under a condition.
pub(super) fn item_if(condition: &str, value: &Value) -> Value {
    lines(&format!("{{{{- if {condition} }}}}\n- {value}\n{{{{- end }}}}"))
}

/// A field that is there under a condition.
pub(super) fn field_if(condition: &str, name: &str, value: &Value) -> (String, Value) {
    field_lines(&format!("{{{{- if {condition} }}}}\n{name}: {value}\n{{{{- end }}}}"))
}

/// Lines of the template in place of a field.
pub(super) fn field_lines(text: &str) -> (String, Value) {
    (format!("{LINES}{text}"), Value::Null)
}

/// One value or the other.
pub(super) fn either(condition: &str, value: &Value, otherwise: &Value) -> Value {
    Value::String(format!("{INLINE}{{{{ if {condition} }}}}{value}{{{{ else }}}}{otherwise}{{{{ end }}}}"))
}

/// The object between its conditions.
pub(super) fn document(conditions: &[String], value: &Value) -> String {
    let text = format!("---\n{}", yaml(value)).replace(NAMESPACE, "{{ .Release.Namespace }}");
    let condition = match conditions {
        [] => return text,
        [condition] => condition.clone(),
        all => format!("and ({})", all.join(") (")),
    };
    format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n")
}

/// An object as YAML.
pub(super) fn yaml(value: &Value) -> String {
    fields(value).into_iter().map(|line| line + "\n").collect()
}

fn fields(value: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let key = text(name);
        match value {
            _ if name.starts_with(LINES) => all.extend(name[LINES.len_utf8()..].lines().map(str::to_owned)),
            Value::Object(parts) if !parts.is_empty() => {
                all.push(format!("{key}:"));
                all.extend(fields(value).into_iter().map(indented));
            }
            Value::Array(parts) if !parts.is_empty() => {
                all.push(format!("{key}:"));
                all.extend(items(parts));
            }
            other => all.extend(behind(&format!("{key}: "), scalar(other))),
        }
    }
    all
}

fn items(parts: &[Value]) -> Vec<String> {
    let item = |part: &Value| match part {
        Value::String(text) if text.starts_with(LINES) => text[LINES.len_utf8()..].lines().map(str::to_owned).collect(),
        Value::Object(parts) if !parts.is_empty() => behind("- ", fields(part)),
        other => behind("- ", scalar(other)),
    };
    parts.iter().flat_map(item).collect()
}

/// The first line behind what begins there, the others below.
fn behind(begin: &str, lines: Vec<String>) -> Vec<String> {
    let mut lines = lines.into_iter();
    let first = lines.next().map(|line| format!("{begin}{line}"));
    first.into_iter().chain(lines.map(indented)).collect()
}

/// Deeper than the line above.
pub(super) fn indented(line: String) -> String {
    if line.is_empty() { line } else { format!("  {line}") }
}

/// The lines of a value without fields: a text of several lines as it is, parts of a list as JSON, which is YAML.
fn scalar(value: &Value) -> Vec<String> {
    let Value::String(content) = value else { return vec![value.to_string()] };
    if let Some(expression) = content.strip_prefix(INLINE) {
        return vec![expression.to_owned()];
    }
    let body = content.strip_suffix('\n').unwrap_or(content);
    if !body.contains('\n') || body.starts_with([' ', '\n']) || body.ends_with('\n') {
        return vec![text(content)];
    }
    let begin = if content.ends_with('\n') { "|" } else { "|-" };
    std::iter::once(begin).chain(body.lines()).map(str::to_owned).collect()
}

/// In quotes unless it is a plain word.
fn text(content: &str) -> String {
    let is_plain = content.starts_with(|first: char| first.is_ascii_alphabetic())
        && content.chars().all(|each| each.is_ascii_alphanumeric() || "-_./".contains(each))
        && !RESERVED.contains(&content.to_ascii_lowercase().as_str());
    if is_plain { content.to_owned() } else { Value::from(content).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let value = json!({"plain": "apps/v1", "word": "yes", "number": "1.0", "empty": "", "none": null, "float": 4000.0,
            "block": "a: {b}\n\n  c\nd", "ends": "a\nb\n", "begins": " a\nb", "list": [], "map": {}, "a: b": "#",
            "deep": [{"a": [{"b": 1}, "x"], "c": {"d": ["- e"]}}, {"f": "g\nh"}, "i\nj", ["k", ["l"]], true]});
        let read: Value = serde_saphyr::from_str(&yaml(&value)).unwrap();
        assert_eq!(read, value, "{}", yaml(&value));
    }

    #[test]
    fn conditions_are_lines_of_their_own_and_the_namespace_is_the_releases() {
        let mut value = json!({"kind": "Namespace", "list": ["a"], "map": {"x": 1}, "text": "in hitless-system\nonly"});
        value["list"].as_array_mut().unwrap().push(item_if("b", &json!({"c": "d"})));
        let (key, field) = field_if("e", "f", &json!(["g"]));
        value["map"].as_object_mut().unwrap().insert(key, field);
        value["kind"] = either("h", &json!("i"), &json!("j"));
        let wanted = "{{- if and (k) (not (l)) }}\n---\nkind: {{ if h }}\"i\"{{ else }}\"j\"{{ end }}\nlist:\n- a\n{{- if b }}\n- \
                      {\"c\":\"d\"}\n{{- end }}\nmap:\n  {{- if e }}\n  f: [\"g\"]\n  {{- end }}\n  x: 1\ntext: |-\n  in \
                      {{ .Release.Namespace }}\n  only\n{{- end }}\n";
        assert_eq!(document(&["k".into(), "not (l)".into()], &value), wanted);
    }
}

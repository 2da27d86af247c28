//! JSON as text: parts of it are found, counted and replaced without a tree of all of it. A tree takes up to fifty times as much memory
//! as its text (`{"name":"a"}` is 12 bytes, and about 650 as a map), and how large an object is its author chooses.

use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Result, Value};
use sha2::{Digest, Sha256};

/// How many values the text has: objects, lists, and what is in them. Takes no memory.
///
/// # Errors
/// If it is no JSON.
pub fn count(json: &str) -> Result<usize> {
    let mut count = 0;
    let mut deserializer = Deserializer::from_str(json);
    Count(&mut count).deserialize(&mut deserializer)?;
    deserializer.end().map(|()| count)
}

/// The same of a tree.
#[must_use]
pub fn count_tree(value: &Value) -> usize {
    let inner = match value {
        Value::Object(fields) => fields.values().map(count_tree).sum(),
        Value::Array(items) => items.iter().map(count_tree).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    inner + 1
}

/// About how many bytes of memory a tree takes. A map with one key takes as much as one with eleven: its keys are in nodes of a B-tree.
#[must_use]
pub fn memory(value: &Value) -> usize {
    const NODE: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 16;
    match value {
        Value::Object(fields) => {
            let keys = fields.iter().map(|(key, value)| key.len() + memory(value)).sum::<usize>();
            fields.len().div_ceil(11) * NODE + keys
        }
        Value::Array(items) => items.iter().map(|item| size_of::<Value>() + memory(item)).sum(),
        Value::String(text) => text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Fields of an object, in their order: names as they are written, and the text of each value.
///
/// # Errors
/// If it is no object.
pub fn fields(json: &str) -> Result<Vec<(&str, &str)>> {
    object(json).ok_or_else(|| serde_json::Error::custom("no JSON object"))
}

/// The text of one field, if it is there.
///
/// # Errors
/// If it is no object.
pub fn field<'j>(json: &'j str, path: &[&str]) -> Result<Option<&'j str>> {
    let [first, rest @ ..] = path else { return Ok(Some(json)) };
    let found = fields(json)?.into_iter().find(|(name, _)| name == first);
    match found {
        Some((_, value)) if rest.is_empty() || value.starts_with('{') => field(value, rest),
        _ => Ok(None),
    }
}

/// Makes an object of the fields of one; each is a name as it is written and the text of its value.
pub type Change<'c> = &'c mut dyn FnMut(Vec<(&str, &str)>) -> Result<String>;

/// The object with other fields at the end of that path, if all of the path is there.
///
/// # Errors
/// If it is no object.
pub fn with_fields(json: &str, path: &[&str], change: Change<'_>) -> Result<String> {
    let [first, rest @ ..] = path else { return change(fields(json)?) };
    let mut parts = Vec::new();
    for (name, value) in fields(json)? {
        let is_meant = name == *first && value.starts_with('{');
        let value = if is_meant { with_fields(value, rest, change)? } else { value.to_owned() };
        parts.push(format!("\"{name}\":{value}"));
    }
    Ok(format!("{{{}}}", parts.join(",")))
}

/// The object without that field, or with this text in its place.
///
/// # Errors
/// If it is no object.
pub fn replaced(json: &str, path: &[&str], by: Option<&str>) -> Result<String> {
    let Some((last, path)) = path.split_last() else { return Ok(json.to_owned()) };
    with_fields(json, path, &mut |fields| {
        let replace = |(name, value)| if name == *last { by.map(|by| (name, by)) } else { Some((name, value)) };
        Ok(printed(fields.into_iter().filter_map(replace)))
    })
}

/// An object of these fields, each a name as it is written and the text of its value.
pub fn printed<'j>(fields: impl Iterator<Item = (&'j str, &'j str)>) -> String {
    let fields: Vec<String> = fields.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// A hash of the content of some text that does not depend on the order of fields; `is_left_out` is asked of each field, with the names
/// of those around it.
///
/// # Errors
/// If it is no JSON.
pub fn digest(json: &str, is_left_out: &dyn Fn(&[&str], &str) -> bool) -> Result<String> {
    let sum = hash(json, &mut Vec::new(), is_left_out)?;
    Ok(format!("{:016x}", sum >> 64))
}

/// Objects are hashed as the sum of their fields' hashes, lists in their order.
fn hash<'j>(json: &'j str, path: &mut Vec<&'j str>, is_left_out: &dyn Fn(&[&str], &str) -> bool) -> Result<u128> {
    if json.starts_with('{') {
        let mut sum = 1_u128;
        for (name, value) in fields(json)? {
            if is_left_out(path, name) {
                continue;
            }
            let of_field = if value.starts_with(['{', '[']) {
                path.push(name);
                let inner = hash(value, path, is_left_out)?;
                path.pop();
                of_bytes(&[name.as_bytes(), b"\0\0", &inner.to_be_bytes()])
            } else {
                of_bytes(&[name.as_bytes(), b"\0", value.as_bytes()])
            };
            sum = sum.wrapping_add(of_field);
        }
        return Ok(sum);
    }
    let Some(items) = items(json) else { return Ok(of_bytes(&[json.as_bytes()])) };
    path.push("[]");
    let mut state = 2_u128;
    for item in items {
        let inner = hash(item, path, is_left_out)?;
        state = of_bytes(&[&state.to_be_bytes(), &inner.to_be_bytes()]);
    }
    path.pop();
    Ok(state)
}

fn of_bytes(parts: &[&[u8]]) -> u128 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().iter().take(16).fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}

fn object(json: &str) -> Option<Vec<(&str, &str)>> {
    let mut rest = after(json, '{')?;
    let mut fields = Vec::new();
    if after(rest, '}').is_some() {
        return Some(fields);
    }
    loop {
        let (name, then) = value(rest.trim_start())?;
        let name = name.strip_prefix('"')?.strip_suffix('"')?;
        let (value, then) = value(after(then, ':')?.trim_start())?;
        fields.push((name, value));
        match after(then, ',') {
            Some(next) => rest = next,
            None => return after(then, '}').map(|_| fields),
        }
    }
}

fn items(json: &str) -> Option<Vec<&str>> {
    let mut rest = after(json, '[')?;
    let mut items = Vec::new();
    if after(rest, ']').is_some() {
        return Some(items);
    }
    loop {
        let (item, then) = value(rest.trim_start())?;
        items.push(item);
        match after(then, ',') {
            Some(next) => rest = next,
            None => return after(then, ']').map(|_| items),
        }
    }
}

fn after(json: &str, sign: char) -> Option<&str> {
    json.trim_start().strip_prefix(sign)
}

/// Splits the first value off.
fn value(json: &str) -> Option<(&str, &str)> {
    let mut scan = Scan::default();
    let end = json.bytes().position(|byte| scan.ends_with(byte));
    let end = match end {
        // What follows a number or a word ends it.
        Some(end) if scan.is_word => end,
        Some(end) => end + 1,
        None if scan.is_word => json.len(),
        None => return None,
    };
    json.split_at_checked(end).filter(|(value, _)| !value.is_empty())
}

/// Where in JSON text one is: in how many objects and lists, and whether in a string. It does not see whether the text is valid.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    is_word: bool,
}

impl Scan {
    /// Takes the next byte; says whether the value that began with the first one ends here.
    pub fn ends_with(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => {
                    self.in_string = false;
                    return self.depth == 0;
                }
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' if self.depth > 0 => {
                self.depth -= 1;
                return self.depth == 0;
            }
            b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' if self.depth == 0 => return true,
            _ if self.depth == 0 => self.is_word = true,
            _ => {}
        }
        false
    }
}

struct Count<'c>(&'c mut usize);

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        *self.0 += 1;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<(), A::Error> {
        while items.next_element_seed(Count(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> std::result::Result<(), A::Error> {
        while fields.next_key::<IgnoredAny>()?.is_some() {
            fields.next_value_seed(Count(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a{}\\[\\]\",:\\\\ é]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[ab{,\"]{1,3}", inner, 0..5)
                    .prop_map(|fields| fields.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    fn object_tree() -> impl Strategy<Value = Value> {
        tree().prop_map(|inner| json!({"a": inner.clone(), "b": {"c": inner, "d": [1]}}))
    }

    proptest! {
        #[test]
        fn text_is_taken_apart_as_the_tree_is(tree in object_tree(), is_pretty in any::<bool>()) {
            let text = if is_pretty { serde_json::to_string_pretty(&tree).unwrap() } else { tree.to_string() };
            prop_assert_eq!(count(&text).unwrap(), count_tree(&tree));
            let read: Vec<(String, Value)> = fields(&text).unwrap().into_iter()
                .map(|(name, value)| (name.to_owned(), serde_json::from_str(value).unwrap())).collect();
            prop_assert_eq!(read, [("a".to_owned(), tree["a"].clone()), ("b".to_owned(), tree["b"].clone())]);
            let inner = field(&text, &["b", "c"]).unwrap().unwrap();
            prop_assert_eq!(&serde_json::from_str::<Value>(inner).unwrap(), &tree["b"]["c"]);
            let mut cut = tree.clone();
            cut["b"]["c"] = json!("x");
            let replaced_text = replaced(&text, &["b", "c"], Some("\"x\"")).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Value>(&replaced_text).unwrap(), &cut);
            let all = |_: &[&str], _: &str| false;
            prop_assert_eq!(digest(&text.replace('\n', ""), &all).unwrap().len(), 16);
            prop_assert_eq!(digest(&cut.to_string(), &all).unwrap() == digest(&tree.to_string(), &all).unwrap(), cut == tree);
        }
    }

    #[test]
    fn the_order_of_fields_is_no_content_and_what_is_left_out_neither() {
        let none = |_: &[&str], _: &str| false;
        let one = r#"{"a":{"b":1,"c":[1,2]},"d":"x"}"#;
        assert_eq!(digest(one, &none).unwrap(), digest(r#"{"d":"x","a":{"c":[1,2],"b":1}}"#, &none).unwrap());
        assert_ne!(digest(one, &none).unwrap(), digest(r#"{"d":"x","a":{"c":[2,1],"b":1}}"#, &none).unwrap());
        let hash = |path: &[&str], name: &str| path == ["a"] && name == "b";
        assert_eq!(digest(one, &hash).unwrap(), digest(r#"{"a":{"c":[1,2]},"d":"x"}"#, &none).unwrap());
    }

    #[test]
    fn what_is_not_there_or_no_object_is_said() {
        assert_eq!(field(r#"{"a":1}"#, &["a", "b"]).unwrap(), None);
        assert_eq!(replaced(r#"{"a":1}"#, &["b", "c"], None).unwrap(), r#"{"a":1}"#);
        for bad in ["", "[1]", "{\"a\"}", "{\"a\":1", "7"] {
            assert!(fields(bad).is_err(), "{bad}");
        }
        assert!(count("{\"a\":1} x").is_err());
    }
}

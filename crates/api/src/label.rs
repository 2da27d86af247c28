//! Which texts can be labels, as the API server checks them (apimachinery, `IsQualifiedName` and `IsValidLabelValue`).

/// Most letters of a value, and of a key without its prefix.
const LONGEST: usize = 63;
/// Most letters of a key's prefix.
const LONGEST_PREFIX: usize = 253;

/// Whether a label can have this name: `name` or `prefix/name`.
#[must_use]
pub fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_prefix(prefix) && is_name(name),
        None => is_name(key),
    }
}

/// Whether a label can have this value. An empty one is.
#[must_use]
pub fn is_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= LONGEST && has_ends(text, |byte| byte.is_ascii_alphanumeric()) && text.bytes().all(is_inner)
}

fn is_prefix(text: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| has_ends(part, is_end) && part.bytes().all(|byte| is_end(byte) || byte == b'-');
    text.len() <= LONGEST_PREFIX && text.split('.').all(is_part)
}

/// Whether it has a first and a last letter of this kind.
fn has_ends(text: &str, is_end: impl Fn(u8) -> bool) -> bool {
    text.bytes().next().is_some_and(&is_end) && text.bytes().next_back().is_some_and(is_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_those_that_the_api_server_takes() {
        for key in ["app", "a", "A.b_c-9", "example.com/app", "x-1.y/App"] {
            assert!(is_key(key), "{key}");
        }
        for key in ["", "app/", "/app", "-a", "a-", "a b", "Example.com/app", "a/b/c", "a..b/c", &"k".repeat(64)] {
            assert!(!is_key(key), "{key}");
        }
        for (value, expected) in [("", true), ("web_1.2-3", true), ("web ", false), ("web:1", false), ("-web", false)] {
            assert_eq!(is_value(value), expected, "{value}");
        }
        assert!(is_value(&"v".repeat(63)) && !is_value(&"v".repeat(64)));
    }
}

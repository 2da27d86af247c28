//! Short, stable hashes for identities on the wire.

use sha2::{Digest, Sha256};

/// 64 bits of SHA-256 over the canonical JSON of `value` (object keys sorted), as 16 hexadecimal digits.
///
/// Two processes of different versions must agree on it, which the standard library's hasher does not promise.
#[must_use]
pub fn short(value: &serde_json::Value) -> String {
    // serde_json's map is a BTreeMap (feature preserve_order is off), so printing is canonical.
    let digest = Sha256::digest(value.to_string().as_bytes());
    digest.iter().take(8).fold(String::with_capacity(16), |mut text, byte| {
        text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::short;
    use serde_json::json;

    #[test]
    fn the_order_of_keys_does_not_matter_but_every_value_does() {
        assert_eq!(short(&json!({"a": 1, "b": [2]})), short(&json!({"b": [2], "a": 1})));
        assert_ne!(short(&json!({"a": 1})), short(&json!({"a": 2})));
        assert_eq!(short(&json!(null)).len(), 16);
    }
}

//! Short, stable hashes for identities on the wire.

use sha2::{Digest, Sha256};

/// 64 bits of SHA-256 over the canonical JSON of `value` (object keys sorted), as 16 hexadecimal digits.
///
/// Two processes of different versions must agree on it, which the standard library's hasher does not promise.
#[must_use]
pub fn short(value: &serde_json::Value) -> String {
    // serde_json's map is a BTreeMap (feature preserve_order is off), so printing is canonical.
    hexadecimal(&Sha256::digest(value.to_string().as_bytes())[..8])
}

/// SHA-256 of these bytes, as 64 hexadecimal digits.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{of_bytes, short};
    use serde_json::json;

    #[test]
    fn the_order_of_keys_does_not_matter_but_every_value_does() {
        assert_eq!(short(&json!({"a": 1, "b": [2]})), short(&json!({"b": [2], "a": 1})));
        assert_ne!(short(&json!({"a": 1})), short(&json!({"a": 2})));
        assert_eq!(short(&json!(null)).len(), 16);
    }

    #[test]
    fn bytes_have_the_hash_that_every_tool_prints() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(of_bytes(b""), empty);
        assert_ne!(of_bytes(b"\xff"), empty);
    }
}

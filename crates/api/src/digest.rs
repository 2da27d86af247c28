//! Short, stable hashes for identities on the wire.

use std::fmt;

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

/// A key for hashes that people may read of what they may not: who does not have it can't try out short values.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// Of a text that nobody can guess.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// The same as [`short`], by HMAC with SHA-256.
    #[must_use]
    pub fn short(&self, value: &serde_json::Value) -> String {
        let padded = |by: u8| {
            let mut block = [by; 64];
            block.iter_mut().zip(self.0).for_each(|(byte, key)| *byte ^= key);
            block
        };
        let inner = Sha256::new().chain_update(padded(0x36)).chain_update(value.to_string()).finalize();
        hexadecimal(&Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize()[..8])
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key(…)")
    }
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
    use super::{Key, of_bytes, short};
    use serde_json::json;

    #[test]
    fn the_order_of_keys_does_not_matter_but_every_value_does() {
        assert_eq!(short(&json!({"a": 1, "b": [2]})), short(&json!({"b": [2], "a": 1})));
        assert_ne!(short(&json!({"a": 1})), short(&json!({"a": 2})));
        assert_eq!(short(&json!(null)).len(), 16);
    }

    #[test]
    fn with_a_key_it_is_an_hmac_and_nothing_shows_the_key() {
        let key = Key::of("k");
        // As Python's module hmac has it, with the SHA-256 of the text as the key.
        assert_eq!(key.short(&json!({"a": 1})), "ea2d81067a2e820a");
        assert_ne!(key.short(&json!(1)), Key::of("l").short(&json!(1)));
        assert_eq!(format!("{key:?}"), "Key(…)");
    }

    #[test]
    fn bytes_have_the_hash_that_every_tool_prints() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(of_bytes(b""), empty);
        assert_ne!(of_bytes(b"\xff"), empty);
    }
}

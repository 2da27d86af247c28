//! What was written parses back the same.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The value as JSON, which has to be read as the same value.
pub(crate) fn written<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    let text = serde_json::to_string(value).expect("a value is written");
    let read: T = serde_json::from_str(&text).expect("what was written is read");
    assert_eq!(read, *value, "{text}");
    text
}

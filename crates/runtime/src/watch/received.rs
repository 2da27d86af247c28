//! Objects out of their text.

use std::borrow::Cow;

use hitless_api::json_text::{count, fields};
use hitless_api::large::{MOST_VALUES, without_managed_fields};
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Result;

use super::Key;

/// What is left of the text of an object that has too many values: that many.
pub type Outline = fn(&str, usize) -> Result<String>;

/// No more values of an object are read, whatever kind it is of: lists of ours and of others that grow with the number of pods have
/// fewer.
const MOST_READ: usize = 10 * MOST_VALUES;

/// Reads an object, or its outline where it is too large. What is never read of it (`managedFields`) is left out of a long one.
pub(super) fn read<K: DeserializeOwned>(json: &str, outline: Option<Outline>) -> Result<K> {
    let text = match without_managed_fields(json)? {
        None => Cow::Borrowed(json),
        Some((json, values)) => {
            let json = match outline.filter(|_| values > MOST_VALUES) {
                Some(outline) => outline(&json, values)?,
                None => json,
            };
            let values = count(&json)?;
            if values > MOST_READ {
                return Err(serde_json::Error::custom(format!(
                    "{values} values, and no more than {MOST_READ} are read"
                )));
            }
            Cow::Owned(json)
        }
    };
    serde_json::from_str(&text)
}

/// Which object it is, and its version.
pub(super) fn identity(json: &str) -> Result<(Key, Option<String>)> {
    let metadata = hitless_api::json_text::field(json, &["metadata"])?.unwrap_or_default();
    let fields = fields(metadata)?;
    let text = |name: &str| {
        let value = fields.iter().find(|(field, _)| *field == name)?.1;
        serde_json::from_str::<String>(value).ok()
    };
    let name = text("name").ok_or_else(|| serde_json::Error::custom("no name"))?;
    Ok((Key { namespace: text("namespace").unwrap_or_default(), name }, text("resourceVersion")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    fn data(values: usize) -> String {
        let data: serde_json::Map<String, Value> = (0..values).map(|key| (key.to_string(), json!("x"))).collect();
        json!({"metadata": {"namespace": "shop", "name": "large", "resourceVersion": "7"}, "data": data}).to_string()
    }

    #[test]
    fn of_what_is_too_large_the_outline_is_read_and_without_one_up_to_a_bound() {
        let outline: Outline = |json, _| hitless_api::json_text::replaced(json, &["data"], None);
        let len = |map: ConfigMap| map.data.map(|data| data.len());
        assert_eq!(len(read(&data(9_000), Some(outline)).unwrap()), Some(9_000));
        assert_eq!(len(read(&data(11_000), Some(outline)).unwrap()), None);
        assert_eq!(len(read(&data(11_000), None).unwrap()), Some(11_000));
        assert!(read::<ConfigMap>(&data(MOST_READ), None).is_err());
        let (key, version) = identity(&data(MOST_READ)).unwrap();
        assert_eq!((key.to_string().as_str(), version.as_deref()), ("shop/large", Some("7")));
    }
}

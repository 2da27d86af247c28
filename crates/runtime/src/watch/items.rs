//! The objects of a list, one after the other out of the bytes of the answer: no more than one of them is in memory at a time,
//! however long the answer is.

use hitless_api::json_text::Scan;
use serde::Deserialize;

/// What a list has beside its objects.
const LONGEST_HEAD: usize = 64 * 1024;
/// What follows this is the list of objects.
const ITEMS: &[u8] = b"\"items\":";

/// The answer to a list is no list.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoList {
    /// It is no JSON, or another object.
    #[error("the answer is no list: {0}")]
    Malformed(#[from] serde_json::Error),
    /// There is too much beside the objects.
    #[error("the answer is no list: no objects within {LONGEST_HEAD} bytes")]
    NoItems,
}

/// Takes an answer apart.
#[derive(Debug, Default)]
pub(super) struct Items {
    place: Place,
    /// The answer without its objects.
    head: Vec<u8>,
    item: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// Before the objects.
    #[default]
    Before,
    /// Before one of them, or before their end.
    Between,
    /// In one of them.
    In(Scan),
    /// After the last one.
    After,
}

/// What a list says of itself.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    /// Of the state that is listed.
    pub(super) resource_version: String,
    /// Where the next page begins; empty: this is the last one.
    pub(super) r#continue: String,
}

#[derive(Deserialize)]
struct Head {
    metadata: ListMeta,
}

impl Items {
    /// Takes the next bytes; `each` gets every object that ends in them.
    pub(super) fn take(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), NoList> {
        for &byte in bytes {
            match &mut self.place {
                Place::Before => {
                    self.head.push(byte);
                    if byte == b'[' && self.begins_items() {
                        self.place = Place::Between;
                    }
                    if self.head.len() > LONGEST_HEAD {
                        return Err(NoList::NoItems);
                    }
                }
                Place::Between if byte == b'{' => {
                    let mut scan = Scan::default();
                    scan.ends_with(byte);
                    self.item.push(byte);
                    self.place = Place::In(scan);
                }
                Place::Between if byte == b']' => {
                    self.head.push(byte);
                    self.place = Place::After;
                }
                Place::Between => {}
                Place::In(scan) => {
                    self.item.push(byte);
                    if scan.ends_with(byte) {
                        each(&self.item);
                        // The memory of a large one is given back.
                        if self.item.len() > LONGEST_HEAD {
                            self.item = Vec::new();
                        } else {
                            self.item.clear();
                        }
                        self.place = Place::Between;
                    }
                }
                Place::After if self.head.len() > LONGEST_HEAD => return Err(NoList::NoItems),
                Place::After => self.head.push(byte),
            }
        }
        Ok(())
    }

    /// What the list says of itself, when all bytes have been taken.
    pub(super) fn end(self) -> Result<ListMeta, NoList> {
        let head: Head = serde_json::from_slice(&self.head)?;
        Ok(head.metadata)
    }

    /// Whether the bracket that was just taken is that of the objects.
    fn begins_items(&self) -> bool {
        let before = self.head.strip_suffix(b"[").unwrap_or_default();
        before.trim_ascii_end().ends_with(ITEMS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn taken(text: &str, chunk: usize) -> Result<(Vec<Value>, ListMeta), NoList> {
        let (mut items, mut all) = (Items::default(), Vec::new());
        for bytes in text.as_bytes().chunks(chunk) {
            items.take(bytes, |item| all.push(serde_json::from_slice(item).unwrap()))?;
        }
        Ok((all, items.end()?))
    }

    proptest! {
        #[test]
        fn objects_come_out_as_they_are_wherever_the_answer_is_cut(
            names in prop::collection::vec("[a\\]\\[{}\",\\\\]{0,8}", 0..6), chunk in 1_usize..40, is_pretty in any::<bool>(),
        ) {
            let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}, "items": [name, {}]})).collect();
            let list = json!({"kind": "PodList", "apiVersion": "v1", "items": items,
                "metadata": {"resourceVersion": "7", "continue": "next", "remainingItemCount": 3}});
            // The API server puts the metadata first.
            let text = if is_pretty { serde_json::to_string_pretty(&list).unwrap() } else { list.to_string() };
            let text = text.replace("\"items\": [", "\"items\":[");
            let (all, meta) = taken(&text, chunk).unwrap();
            prop_assert_eq!(all, items);
            prop_assert_eq!(meta, ListMeta { resource_version: "7".to_owned(), r#continue: "next".to_owned() });
        }
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        assert!(taken("{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":null}", 3).is_ok(), "an empty one");
        assert!(matches!(taken("<html>", 3), Err(NoList::Malformed(_))));
        assert!(
            matches!(taken("{\"metadata\":{},\"items\":[{\"a\":1}", 3), Err(NoList::Malformed(_))),
            "it was cut off"
        );
        assert!(matches!(taken(&"a".repeat(LONGEST_HEAD + 1), 1000), Err(NoList::NoItems)));
    }
}

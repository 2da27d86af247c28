//! Annotations of a template that running pods follow, in kinds whose owners expect it (OpenKruise's in-place update of metadata).

use std::collections::BTreeMap;

use hitless_api::Change;

use super::keys::is_read_here;
use crate::annotations::Annotations;
use crate::because::Because;
use crate::downward::{self, Reader};
use crate::labels;
use crate::template::Template;

/// Most of them in one change, and most bytes of their values before and after: each stands in the grant and in the ledger of its pod.
const MOST: usize = 16;
const LONGEST: usize = 4 << 10;

/// What pods of a template can't follow.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    /// Readers of annotations that are never started again, with the init containers that they are a part of.
    once: Vec<(Reader, String)>,
}

impl Followed {
    pub(super) fn of(template: &Template, readers: &[Reader]) -> Self {
        let once = readers.iter().filter_map(|reader| {
            let init = downward::once(reader, template.content())?;
            Some((reader.clone(), init.to_owned()))
        });
        Self { once: once.collect() }
    }

    /// Why running pods can't get another value of it: the end of a clause.
    pub(super) fn never(&self, key: &str) -> Option<String> {
        if let Some(why) = labels::never(key) {
            return Some(format!(", {why}"));
        }
        if is_read_here(key) {
            return Some(", because hitless reads it from the pods".to_owned());
        }
        let (_, init) = self.once.iter().find(|(reader, _)| reader.reads(key))?;
        Some(format!(", because init container {init} reads it, and runs only when a pod is started"))
    }

    /// Why these changes can't be made together.
    pub(super) fn too_much(changes: &BTreeMap<String, Change>) -> Option<Because> {
        let values = changes.values().flat_map(|change| [&change.from, &change.to]).flatten();
        let bytes: usize = values.map(String::len).sum();
        let text = format!("spec.template.metadata.annotations (more than {MOST}, or longer than {LONGEST} bytes)");
        (changes.len() > MOST || bytes > LONGEST).then(|| Because::field(&text))
    }
}

/// What differs in these keys.
pub(super) fn changes<'k>(
    from: &Annotations,
    to: &Annotations,
    keys: impl Iterator<Item = &'k str>,
) -> BTreeMap<String, Change> {
    let value = |of: &Annotations, key: &str| of.value(key).map(ToOwned::to_owned);
    keys.map(|key| (key.to_owned(), Change { from: value(from, key), to: value(to, key) })).collect()
}

//! The label `controller-revision-hash` of pods.

use std::collections::BTreeMap;

use hitless_api::names::labels;

/// The label of a pod that is of this revision.
pub(crate) fn label(revision: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(labels::CONTROLLER_REVISION_HASH.to_owned(), revision.to_owned())])
}

//! Where the ids of a set are kept.

use std::collections::{BTreeMap, BTreeSet};

use super::record::Record;
use crate::write::Write;

/// An object of the API that says which instance ids are taken. It has one writer, and each write tests the version that was seen:
/// what is done to pods rests on that.
pub(crate) trait Journal {
    /// The ids of the set.
    fn read(&self) -> BTreeMap<i32, Record>;

    /// Ids that other sets have in the same object. They are left as they are.
    fn others(&self) -> BTreeSet<i32>;

    /// How many ids there is room for, those of other sets included.
    fn room(&self) -> usize;

    /// The lowest id that a new pod may get: ids below have been used, or are.
    fn next(&self) -> i32 {
        0
    }

    /// The write that makes it say this of the set's ids, and which one is next, if it does not.
    fn write(&self, records: &BTreeMap<i32, &Record>, next: i32) -> Option<Write>;

    /// A write that changes nothing, and fails if it is not as it was seen: what comes after it rests on it. `None`: there is none yet.
    fn confirm(&self) -> Option<Write>;
}

//! What is remembered of one instance id.

use std::collections::BTreeMap;

/// What the journal says of one instance id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Name of the pod that stands for the id. No pod is made that is not named here, and a name is used once at a time: so there is
    /// never a pod too many. Empty: an entry of a controller that keeps no names.
    pub(crate) pod_name: String,
    /// Name of the revision that its pod is made from.
    pub(crate) revision: String,
    /// What is under way.
    pub(crate) marks: Marks,
    /// The other id of its pair.
    pub(crate) pair: Pair,
    /// What else the journal has about the id. It is given back as it is.
    pub(crate) rest: BTreeMap<String, String>,
}

/// What is under way with an id. Several may hold at once: an id is given up before its pod was made, for example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Its pod was never made.
    pub(crate) to_make: bool,
    /// Its pod is removed and made anew at another revision.
    pub(crate) recreate: bool,
    /// Its pod is removed, and the id becomes free.
    pub(crate) scale_in: bool,
}

/// Two ids, of which one pod replaces the other. It holds if both say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Id of the pod that replaces this one.
    pub(crate) new: Option<i32>,
    /// Id of the pod that this one replaces.
    pub(crate) origin: Option<i32>,
}

impl Record {
    /// Of a pod of this name and revision.
    pub(crate) fn of(pod_name: String, revision: &str) -> Self {
        Self { pod_name, revision: revision.to_owned(), ..Self::default() }
    }
}

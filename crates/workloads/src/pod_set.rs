//! Sets whose pods we make: what their kinds share (docs/seams/pod-set.md).
//!
//! A kind gives a [`Spec`] (numbers, templates, names), a [`Journal`] (where the ids of its pods are kept) and [`Rules`] (who is removed
//! first, who is updated first, who is available). It gets a [`Plan`]: what becomes of each id, and the writes for it.
//!
//! The journal names the pod of each id before that pod is made, and marks an id before its pod is removed. A pod is made under the
//! name that stands there and no other, so whoever is killed between two writes, or sees old objects, makes no pod too many: the write
//! to the journal fails, or the name is taken. An id gets another name only while the pod of the one before is known to be there and
//! to be leaving: once it is gone, somebody may have made it anew. An id that is given up goes once the API server says that its pod
//! is not there.
//!
//! Files import downwards only: first what is data (`spec`, `record`, `journal`, `instances`), then [`Facts`], then the phases in their
//! order (`surge`, `scale`, `update`), then the writes, and [`plan`](mod@plan) on top. Nothing here knows a kind.

pub(crate) mod claim;
mod claims;
mod creations;
mod departures;
pub(crate) mod dress;
mod facts;
mod follow;
mod instances;
mod journal;
pub(crate) mod naming;
mod plan;
mod pod;
pub(crate) mod pods;
pub(crate) mod policy;
mod record;
mod revisions;
mod rules;
mod scale;
mod spec;
mod surge;
mod tell;
mod update;
mod way;
mod writes;

pub(crate) use claims::{CLAIM, Claims};
pub(crate) use dress::{Change, Dress};
pub(crate) use facts::Facts;
pub(crate) use instances::{Instance, Instances};
pub(crate) use journal::Journal;
pub(crate) use plan::{Plan, advance, dissolve, still};
pub(crate) use record::{Marks, Pair, Record};
pub(crate) use revisions::Revisions;
pub(crate) use rules::{Member, Rules};
pub(crate) use spec::{Delays, Ids, Limits, Names, PodNames, Reasons, Spec};
pub(crate) use tell::warning;
pub(crate) use update::Progress;
pub(crate) use writes::Own;

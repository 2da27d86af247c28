//! The table.

mod adopt;
mod agent;
mod clone_set;
mod colla_set;
mod companion;
mod controller;
mod deletion;
mod exec_hooks;
mod gate;
mod lifecycle;
mod node_access;
mod objects;
mod operation_job;
mod prefetch;
mod rules;
mod sets;
mod sidecar_sets;
mod skips;
mod template_annotations;
mod workloads;

use serde_json::Value;

use crate::request::{Call, Who};
use crate::{Expect, Row};

/// All rows.
pub(crate) fn all() -> Vec<Row> {
    [
        adopt::rows(),
        agent::rows(),
        clone_set::rows(),
        colla_set::rows(),
        companion::rows(),
        controller::rows(),
        deletion::rows(),
        exec_hooks::rows(),
        gate::rows(),
        lifecycle::rows(),
        node_access::rows(),
        objects::rows(),
        operation_job::rows(),
        prefetch::rows(),
        rules::rows(),
        sets::rows(),
        sidecar_sets::rows(),
        skips::rows(),
        template_annotations::rows(),
        workloads::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn denied(who: Who, says: &'static str, words: &'static str, call: Call) -> Row {
    Row { says, who, call, expect: Expect::Denied(words) }
}

fn warned(says: &'static str, words: &'static str, call: Call) -> Row {
    Row { says, who: Who::User, call, expect: Expect::Warned(words) }
}

fn allowed(who: Who, says: &'static str, call: Call) -> Row {
    allowed_as(who, says, call, [])
}

fn allowed_as<const N: usize>(who: Who, says: &'static str, call: Call, values: [(&'static str, Value); N]) -> Row {
    Row { says, who, call, expect: Expect::Allowed(values.into()) }
}

//! In which namespace of the files the target is.

use std::collections::BTreeSet;

use hitless_api::GroupKind;
use hitless_workloads::registry;

use super::DEFAULT_NAMESPACE;
use crate::args::{Target, TargetKind};
use crate::failure::Failure;
use crate::files::Object;
use crate::output;

/// Most workloads of the files that are named.
const NAMED: usize = 8;

/// The one that was given, else the one in which the files have the target: the default one first.
pub(super) fn namespace(objects: &[Object], given: Option<&str>, target: &Target) -> Result<String, Failure> {
    let TargetKind::Workload(wanted) = &target.kind else { return Ok(given.unwrap_or(DEFAULT_NAMESPACE).to_owned()) };
    let is_meant = |object: &&Object| wanted.is(object.group(), object.kind()) && object.name() == target.name;
    let places: BTreeSet<&str> = objects.iter().filter(is_meant).map(Object::namespace).collect();
    let wanted = given.unwrap_or(DEFAULT_NAMESPACE);
    if places.contains(wanted) {
        return Ok(wanted.to_owned());
    }
    match (given, places.iter().collect::<Vec<_>>().as_slice()) {
        (None, [only]) => Ok((**only).to_owned()),
        (None, [_, _, ..]) => {
            let places: Vec<&str> = places.into_iter().collect();
            Err(Failure::Usage(format!(
                "the files have {target} in namespaces {}; say which with -n",
                places.join(", ")
            )))
        }
        (Some(_), _) | (None, []) => Err(Failure::NotFound(format!(
            "the files have no {target} in namespace {wanted}; {}",
            there(objects, wanted)
        ))),
    }
}

/// The workloads that are in the files.
fn there(objects: &[Object], wanted: &str) -> String {
    let workloads = objects.iter().filter_map(|object| {
        let group_kind = GroupKind::of(object.value["apiVersion"].as_str().unwrap_or_default(), object.kind());
        registry::is_workload(&group_kind).then(|| {
            let name = format!("{}/{}", TargetKind::Workload(group_kind).name(), object.name());
            let namespace = object.namespace();
            if namespace == wanted { name } else { format!("{name} in namespace {namespace}") }
        })
    });
    let workloads: Vec<String> = workloads.collect::<BTreeSet<_>>().into_iter().collect();
    if workloads.is_empty() {
        return "they have no workload".to_owned();
    }
    format!("they have: {}", output::names(&workloads, NAMED))
}

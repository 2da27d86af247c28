//! What a workload says wrong to hitless.

use hitless_api::GroupKind;
use hitless_api::names::annotations::{RESTART_ANNOTATIONS, RESTARTS, UPDATE};
use hitless_api::names::{UPDATE_IN_PLACE, UPDATE_IN_PLACE_ONLY, UPDATE_NATIVE};
use hitless_workloads::restart_annotations::OwnList;
use hitless_workloads::{OptIn, RestartsPolicy, registry};

use super::finding::Finding;
use crate::files::Object;

/// All findings about one workload. `fits`: its schema has nothing to say.
pub(super) fn check(object: &Object, fits: bool) -> Vec<Finding> {
    let mut findings = restart_annotations(object);
    findings.extend(restarts(object));
    findings.extend(opt_in(object));
    findings.extend(too_large(object));
    findings.extend(fault(object).filter(|_| fits));
    findings
}

/// What makes no sense in an object of a kind whose controller we are: nothing would be done for it.
fn fault(object: &Object) -> Option<Finding> {
    let line = object.node.line_of(&["spec"]);
    match registry::read(object.value.clone())? {
        Ok(read) => Some(Finding::error(object, line, read.fault()?)),
        Err(error) if matches!(object.kind(), "CollaSet" | "PodDecoration" | "CloneSet" | "SidecarSet") => {
            Some(Finding::error(object, line, error.to_string()))
        }
        Err(_) => None,
    }
}

/// An opt-in that means nothing.
fn opt_in(object: &Object) -> Option<Finding> {
    let read = registry::read(object.value.clone())?.ok().filter(|read| registry::is_workload(&read.id.group_kind))?;
    let word = read.unknown_opt_in()?;
    let text = format!(
        "{UPDATE} is {word:?}, which means nothing, so its changes roll natively; write {UPDATE_IN_PLACE}, {UPDATE_IN_PLACE_ONLY} or {UPDATE_NATIVE}"
    );
    Some(Finding::error(object, object.node.line_of(&["metadata", "annotations", UPDATE]), text))
}

/// Too large to look after.
fn too_large(object: &Object) -> Option<Finding> {
    let read = registry::read(object.value.clone())?.ok()?;
    let large = read.template().filter(|_| read.opt_in() != OptIn::No)?.too_large()?;
    Some(Finding::error(object, object.node.line_of(&["spec", "template"]), large.to_string()))
}

/// A value for its restarts that means nothing.
fn restarts(object: &Object) -> Option<Finding> {
    let read = registry::read(object.value.clone())?.ok().filter(|read| registry::is_workload(&read.id.group_kind))?;
    let text = RestartsPolicy::parse(read.annotations.get(RESTARTS)?).err()?;
    Some(Finding::error(object, object.node.line_of(&["metadata", "annotations", RESTARTS]), text))
}

/// One finding for each entry of its restart annotations that means nothing.
fn restart_annotations(object: &Object) -> Vec<Finding> {
    let group_kind = GroupKind::of(object.value["apiVersion"].as_str().unwrap_or_default(), object.kind());
    let list = object.value["metadata"]["annotations"][RESTART_ANNOTATIONS].as_str();
    let Some(list) = list.filter(|_| registry::is_workload(&group_kind)) else { return Vec::new() };
    let line = object.node.line_of(&["metadata", "annotations", RESTART_ANNOTATIONS]);
    let broken = OwnList::parse(list).broken.into_iter();
    broken.map(|broken| Finding::error(object, line, broken.to_string())).collect()
}

//! Opens Services for Holds, and closes them after (docs/contract.md#services-of-a-held-pod).

use hitless_api::names::annotations;
use hitless_api::{GroupKind, ObjectRef};
use hitless_workloads::{Request, Write};

use crate::mode::ServiceView;

/// The Service is opened for the operation with this id. Only closed ones are opened, and those that we have opened for another.
pub(crate) fn open(service: &ServiceView, id: &str) -> Write {
    let before = service.open && service.held_by.is_none();
    write(service, true, Some(format!("{id},{before}")))
}

/// The Service is as it was before, unless its owner has said something else meanwhile.
#[must_use]
pub fn close(service: &ServiceView) -> Write {
    write(service, service.open && service.declared_open, None)
}

/// `mark`: the next value of the annotation `hitless.dev/held-by`; `None`: it is there and goes.
fn write(service: &ServiceView, open: bool, mark: Option<String>) -> Write {
    let (all, own) = (["metadata", "annotations"], ["metadata", "annotations", annotations::HELD_BY]);
    let patch = super::tested(&service.version).add(&["spec", "publishNotReadyAddresses"], open);
    let patch = if service.has_annotations { patch } else { patch.new_map(&all) };
    let patch = match mark {
        Some(text) => patch.add(&own, text),
        None => patch.remove(&own),
    };
    let on = ObjectRef {
        group_kind: GroupKind::new("", "Service"),
        namespace: service.namespace.clone(),
        name: service.name.clone(),
        uid: service.version.uid.clone(),
    };
    let subject = format!("{}/{}", service.namespace, service.name);
    Write::new("service", on, Request::Patch(patch)).about(subject)
}

/// Whether the Service that it writes is open then, and its mark.
#[must_use]
pub fn content(write: &Write) -> Option<(bool, Option<String>)> {
    if !write.on.group_kind.is("", "Service") {
        return None;
    }
    let mark = format!("/metadata/annotations/{}", annotations::HELD_BY.replace('/', "~1"));
    Some((write.content("/spec/publishNotReadyAddresses")?, write.content(&mark)))
}

//! The annotation `hitless.dev/endpoint`, where the agent would not listen in the pod (docs/endpoint.md).

use hitless_api::names::annotations::ENDPOINT;
use hitless_api::pod::EndpointFault;

use super::drain::{template_of, view};
use super::finding::Finding;
use crate::files::Object;

/// What is wrong with that of an object that is a pod, or makes pods.
pub(super) fn check(object: &Object) -> Option<Finding> {
    let at = template_of(object)?;
    let template = at.iter().fold(&object.value, |value, key| &value[*key]);
    if template["metadata"]["annotations"][ENDPOINT].is_null() {
        return misplaced(object, at, ENDPOINT);
    }
    let fault = view(object, template)?.endpoint_fault()?;
    let line = object.node.line_of(&[at, &["metadata", "annotations", ENDPOINT]].concat());
    let text = fault.to_string();
    Some(match fault {
        EndpointFault::NoPort(_) | EndpointFault::Taken { .. } => Finding::error(object, line, text),
        EndpointFault::HostNetwork => Finding::warning(object, line, text),
    })
}

/// An annotation that is read from pods, on a workload and not on what its pods are made from.
pub(super) fn misplaced(object: &Object, at: &[&str], annotation: &str) -> Option<Finding> {
    if object.value["metadata"]["annotations"][annotation].is_null() {
        return None;
    }
    let line = object.node.line_of(&["metadata", "annotations", annotation]);
    let at = at.join(".");
    let text = format!(
        "{annotation} does nothing on the workload itself: pods are asked for it; move it to {at}.metadata.annotations"
    );
    Some(Finding::error(object, line, text))
}

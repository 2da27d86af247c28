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
    let line = |at: &[&str]| object.node.line_of(&[at, &["metadata", "annotations", ENDPOINT]].concat());
    if template["metadata"]["annotations"][ENDPOINT].is_null() {
        let is_misplaced = !object.value["metadata"]["annotations"][ENDPOINT].is_null();
        let text = || {
            let at = at.join(".");
            format!(
                "{ENDPOINT} does nothing on the workload itself: pods are asked for it; move it to {at}.metadata.annotations"
            )
        };
        return is_misplaced.then(|| Finding::error(object, line(&[]), text()));
    }
    let fault = view(object, template)?.endpoint_fault()?;
    let text = fault.to_string();
    Some(match fault {
        EndpointFault::NoPort(_) | EndpointFault::Taken { .. } => Finding::error(object, line(at), text),
        EndpointFault::HostNetwork => Finding::warning(object, line(at), text),
    })
}

//! The annotation `hitless.dev/task`, where it allows nothing (docs/hooks.md).

use hitless_api::names::TASK_ALLOWED;
use hitless_api::names::annotations::TASK;

use super::drain::template_of;
use super::endpoint::misplaced;
use super::finding::Finding;
use crate::files::Object;

/// What is wrong with that of an object that is a pod, or makes pods.
pub(super) fn check(object: &Object) -> Option<Finding> {
    let at = template_of(object)?;
    let template = at.iter().fold(&object.value, |value, key| &value[*key]);
    let value = &template["metadata"]["annotations"][TASK];
    if value.is_null() {
        return misplaced(object, at, TASK);
    }
    // The schema says what is wrong with one that is no text.
    let value = value.as_str().filter(|value| *value != TASK_ALLOWED)?;
    let line = object.node.line_of(&[at, &["metadata", "annotations", TASK]].concat());
    let text = format!(
        "annotation {TASK} is {value:?}, which allows nothing: what the application says of itself is refused; write \
         {TASK_ALLOWED}, or remove it"
    );
    Some(Finding::error(object, line, text))
}

//! Events about a set.

use hitless_api::event::{EventNote, Severity};

use super::spec::Spec;
use crate::plan::note;

/// What people should do something about.
pub(crate) fn warning(spec: &Spec<'_>, reason: &'static str, text: String) -> EventNote {
    note(&spec.object.id, spec.names.resource.version, Severity::Warning, reason, text)
}

/// What is done about its pods.
pub(crate) fn normal(spec: &Spec<'_>, reason: &'static str, text: String) -> EventNote {
    let note = note(&spec.object.id, spec.names.resource.version, Severity::Normal, reason, text);
    EventNote { action: "Scale", ..note }
}

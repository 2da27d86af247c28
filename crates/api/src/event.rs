//! An Event for people, as data.

use k8s_openapi::api::core::v1::ObjectReference;

/// How serious an Event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For information.
    Normal,
    /// Somebody may have to act.
    Warning,
}

/// One Event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventNote {
    /// The object that it is about, with uid.
    pub regarding: ObjectReference,
    /// How serious it is.
    pub severity: Severity,
    /// Why, in CamelCase, e.g. `RolloutBlocked`.
    pub reason: &'static str,
    /// What was done or not done, in CamelCase, e.g. `Update`.
    pub action: &'static str,
    /// For people; cut at 1024 bytes.
    pub text: String,
}

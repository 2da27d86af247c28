//! A right in RBAC.

use std::borrow::Cow;

/// One rule of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// API group.
    pub group: Cow<'static, str>,
    /// Resource, or `<resource>/<subresource>`.
    pub resource: &'static str,
    /// Only objects with these names; none: all.
    pub names: Vec<String>,
    /// What may be done.
    pub verbs: Vec<&'static str>,
    /// What for.
    pub why: &'static str,
}

impl Right {
    /// To this resource, without reading it.
    pub(crate) fn of(group: &'static str, resource: &'static str, verbs: &[&'static str], why: &'static str) -> Self {
        Self { group: group.into(), resource, names: Vec::new(), verbs: verbs.to_vec(), why }
    }
}

//! Identity of an object of the API, with its API group: `apps` and `apps.kruise.io` both have a StatefulSet.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind and the API group that defines it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct GroupKind {
    /// API group without version; empty for the core group.
    #[serde(default)]
    pub group: Cow<'static, str>,
    /// Kind.
    pub kind: Cow<'static, str>,
}

/// Owners that pods have most often: a cache of many pods need not keep a copy of these words for each.
static FREQUENT: [GroupKind; 4] = [
    GroupKind::new("apps", "ReplicaSet"),
    GroupKind::new("apps", "StatefulSet"),
    GroupKind::new("apps", "DaemonSet"),
    GroupKind::new("batch", "Job"),
];

impl GroupKind {
    /// Pods.
    pub const POD: Self = Self::new("", "Pod");

    /// Of these words.
    #[must_use]
    pub const fn new(group: &'static str, kind: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), kind: Cow::Borrowed(kind) }
    }

    /// Of `apiVersion` and `kind` as objects and owner references have them.
    #[must_use]
    pub fn of(api_version: &str, kind: &str) -> Self {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let known = FREQUENT.iter().find(|known| known.group == group && known.kind == kind);
        known.cloned().unwrap_or_else(|| Self { group: group.to_owned().into(), kind: kind.to_owned().into() })
    }

    /// Whether it is this kind of this group.
    #[must_use]
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

/// For people: Kubernetes' own kinds without their group, others as `<kind>.<group>`.
impl fmt::Display for GroupKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.kind)?;
        if self.group.contains('.') { write!(formatter, ".{}", self.group) } else { Ok(()) }
    }
}

/// Identity of a namespaced object. A name alone never identifies one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ObjectRef {
    /// Kind and group.
    #[serde(flatten)]
    pub group_kind: GroupKind,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl ObjectRef {
    /// The owner that an owner reference of an object in `namespace` names.
    #[must_use]
    pub fn owner(reference: &OwnerReference, namespace: &str) -> Self {
        Self {
            group_kind: GroupKind::of(&reference.api_version, &reference.kind),
            namespace: namespace.to_owned(),
            name: reference.name.clone(),
            uid: reference.uid.clone(),
        }
    }

    /// The controller of the object with this metadata.
    #[must_use]
    pub fn controller_of(meta: &ObjectMeta) -> Option<Self> {
        let owners = meta.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true))?;
        Some(Self::owner(controller, meta.namespace.as_deref().unwrap_or_default()))
    }

    /// `<kind>/<name>`, for people.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}/{}", self.group_kind, self.name)
    }

    /// The same as users write it in a command: the kind in lower case.
    #[must_use]
    pub fn target(&self) -> String {
        format!("{}/{}", self.group_kind.to_string().to_lowercase(), self.name)
    }

    /// The same with its namespace, as it is pasted behind a command: `-n team deployment/web`.
    #[must_use]
    pub fn arguments(&self) -> String {
        format!("-n {} {}", self.namespace, self.target())
    }

    /// As Events refer to it; `version` is that of its API.
    #[must_use]
    pub fn reference(&self, version: &str) -> ObjectReference {
        let GroupKind { group, kind } = &self.group_kind;
        ObjectReference {
            api_version: Some(if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }),
            kind: Some(kind.clone().into_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..ObjectReference::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn kinds_of_the_same_name_are_told_apart_by_their_group() {
        let (own, kruise) =
            (GroupKind::of("apps/v1", "StatefulSet"), GroupKind::of("apps.kruise.io/v1beta1", "StatefulSet"));
        assert_ne!(own, kruise);
        assert_eq!((own.to_string(), kruise.to_string()), ("StatefulSet".into(), "StatefulSet.apps.kruise.io".into()));
        assert!(GroupKind::of("v1", "Pod").is("", "Pod"));
    }

    #[test]
    fn on_the_wire_group_and_kind_stand_beside_the_name() {
        let object = ObjectRef {
            group_kind: GroupKind::new("apps", "DaemonSet"),
            namespace: "shop".into(),
            name: "proxy".into(),
            uid: "u".into(),
        };
        let wire = json!({"group": "apps", "kind": "DaemonSet", "namespace": "shop", "name": "proxy", "uid": "u"});
        assert_eq!(serde_json::to_value(&object).unwrap(), wire);
        assert_eq!(serde_json::from_value::<ObjectRef>(wire).unwrap(), object);
        assert_eq!(object.reference("v1").api_version.as_deref(), Some("apps/v1"));
    }
}

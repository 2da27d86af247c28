//! ControllerRevisions: the templates that StatefulSets and DaemonSets have had.

pub(crate) mod history;

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::GroupKind;
use hitless_api::names::labels;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::kind::Resource;
use crate::manifest;
use crate::object::{Body, Object, Typed};
use crate::template::{Shape, Template, items};

pub(crate) const CONTROLLER_REVISION: Resource = Resource {
    group_kind: GroupKind::new("apps", "ControllerRevision"),
    version: "v1",
    plural: "controllerrevisions",
    optional: false,
    verbs: &[],
    why: "which revision is the newest, and what the one before it looked like",
    uninstall_verbs: &[],
    uninstall_why: "",
};

/// A ControllerRevision.
pub type Revision<'a> = Typed<'a, RevisionBody>;

/// What only a ControllerRevision has. The template itself is kept only where pods are made from it: a cluster has many of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
pub struct RevisionBody {
    /// `revision`: the newest has the highest.
    pub number: i64,
    /// Of the template.
    pub shape: Shape,
    /// The template, if a CollaSet or PodDecoration has the revision.
    pub template: Option<Arc<Value>>,
    /// The claim templates, if a CollaSet has the revision.
    pub claims: Vec<Value>,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    revision: i64,
    #[serde(default)]
    data: Value,
}

impl From<Raw> for RevisionBody {
    fn from(mut raw: Raw) -> Self {
        let mut template = raw.data["spec"]["template"].take();
        let claims = raw.data["spec"]["volumeClaimTemplates"].take();
        if let Some(template) = template.as_object_mut() {
            // The native controllers keep a patch that replaces the whole template.
            template.remove("$patch");
        }
        let owners = items(&raw.metadata["ownerReferences"]);
        let is_kept = owners.into_iter().any(|owner| owner["kind"] == "CollaSet" || owner["kind"] == "PodDecoration");
        let kept = (is_kept && template.is_object()).then(|| Arc::new(template.clone()));
        let claims = match claims {
            Value::Array(claims) if is_kept => claims,
            _ => Vec::new(),
        };
        Self { number: raw.revision, shape: Template::new(template).shape().clone(), template: kept, claims }
    }
}

impl Object {
    /// As a ControllerRevision, if it is one.
    #[must_use]
    pub fn controller_revision(&self) -> Option<Revision<'_>> {
        match &self.body {
            Body::ControllerRevision(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }
}

/// Shapes of a workload's revisions, with their number, by the value of the pods' label `controller-revision-hash`.
pub(crate) type Revisions<'a> = BTreeMap<&'a str, (i64, &'a Shape)>;

/// The ControllerRevision that a native controller would make of this workload's template when it is changed.
pub(crate) fn planned(workload: &Value) -> Value {
    made_of(workload, "planned", i64::MAX)
}

/// The newest of these, or else the one that a native controller would make of the workload's manifest.
pub(crate) fn newest(workload: &Value, revisions: &[Value]) -> Value {
    let newest = revisions.iter().max_by_key(|revision| revision["revision"].as_i64());
    newest.cloned().unwrap_or_else(|| made_of(workload, "manifest", 1))
}

fn made_of(workload: &Value, hash: &str, number: i64) -> Value {
    let meta = &workload["metadata"];
    let name = format!("{}-{hash}", meta["name"].as_str().unwrap_or_default());
    let uid = format!("{name} of {}", meta["uid"].as_str().unwrap_or_default());
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": name, "namespace": meta["namespace"], "uid": uid, "ownerReferences": [manifest::owner(workload)],
            "labels": {labels::CONTROLLER_REVISION_HASH: hash}},
        "revision": number,
        "data": {"spec": {"template": workload["spec"]["template"]}},
    })
}

/// The label of a pod that is of this revision.
pub(crate) fn label(revision: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(labels::CONTROLLER_REVISION_HASH.to_owned(), revision.to_owned())])
}

/// By their names: that is the label of a StatefulSet's pods.
pub(crate) fn by_name<'a>(children: &[&'a Object]) -> Revisions<'a> {
    let revisions = children.iter().filter_map(|object| object.controller_revision());
    revisions.map(|each| (each.object.id.name.as_str(), (each.body.number, &each.body.shape))).collect()
}

/// By their own label `controller-revision-hash`: that is the label of a DaemonSet's pods.
pub(crate) fn by_hash<'a>(children: &[&'a Object]) -> Revisions<'a> {
    let revisions = children.iter().filter_map(|object| object.controller_revision());
    let hash = |each: Revision<'a>| {
        let hash = each.object.labels.get(labels::CONTROLLER_REVISION_HASH)?;
        Some((hash.as_str(), (each.body.number, &each.body.shape)))
    };
    revisions.filter_map(hash).collect()
}

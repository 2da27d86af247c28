//! Writes to a Deployment and its ReplicaSets, each with the uid and resourceVersion that it was decided on.

use hitless_api::names::{annotations, labels};
use serde_json::{Value, json};

use super::view::{DeploymentView, ReplicaSetView};

/// An object as it was when the write was decided: the write applies to exactly that version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectVersion {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

impl From<&DeploymentView> for ObjectVersion {
    fn from(view: &DeploymentView) -> Self {
        Self {
            namespace: view.namespace.clone(),
            name: view.name.clone(),
            uid: view.uid.clone(),
            resource_version: view.resource_version.clone(),
        }
    }
}

impl From<&ReplicaSetView> for ObjectVersion {
    fn from(view: &ReplicaSetView) -> Self {
        Self {
            namespace: view.namespace.clone(),
            name: view.name.clone(),
            uid: view.uid.clone(),
            resource_version: view.resource_version.clone(),
        }
    }
}

/// Which kind a [`Request`] goes to; both are of `apps/v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Deployment.
    Deployment,
    /// ReplicaSet.
    ReplicaSet,
}

/// The next write of a rollout.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadWrite {
    /// Keep the template that is being left, as an empty ReplicaSet.
    CreateHistory {
        /// The whole object.
        replica_set: Value,
    },
    /// Give the live ReplicaSet the target template, marked as mixed: new pods come up new, and the rollout is not done.
    SetMixed {
        /// The live ReplicaSet.
        live: ObjectVersion,
        /// Its next template.
        template: Value,
    },
    /// Give the live ReplicaSet exactly the target template.
    SetExact {
        /// The live ReplicaSet.
        live: ObjectVersion,
        /// Its next template.
        template: Value,
        /// Whether the label `hitless.dev/live` is on it and goes with the same write.
        marked: bool,
        /// Value of the label `hitless.dev/settled`, if the rollout ends with it.
        settled: Option<String>,
    },
    /// Label the live ReplicaSet, which has exactly the target template already, as settled: what somebody with an older view
    /// of the Deployment has prepared for it fails then.
    Settle {
        /// The live ReplicaSet.
        live: ObjectVersion,
        /// Value of the label `hitless.dev/settled`.
        settled: String,
    },
    /// Make an empty ReplicaSet of the Deployment controller's, with the target template, a history entry: only such ones
    /// are deleted, so that nobody else's can be by mistake.
    LabelTwin {
        /// The empty ReplicaSet.
        replica_set: ObjectVersion,
        /// Revision of its template.
        revision: String,
    },
    /// Remove a history entry that has the target template: the Deployment controller would take it for the live one.
    DeleteTwin {
        /// The empty ReplicaSet.
        replica_set: ObjectVersion,
    },
    /// Take our labels off a ReplicaSet, so that the Deployment controller may do as it likes.
    StripLabels {
        /// The ReplicaSet.
        replica_set: ObjectVersion,
        /// Those of our labels that are on it.
        labels: Vec<&'static str>,
    },
    /// Remember how long the Deployment's containers are away when they are operated.
    RecordGap {
        /// The Deployment, which has annotations.
        deployment: ObjectVersion,
        /// Next value of the annotation `hitless.dev/gap`.
        gaps: String,
    },
    /// Lift the guard's mark and its pause together.
    Unpause {
        /// The Deployment.
        deployment: ObjectVersion,
    },
}

/// A [`WorkloadWrite`] as a request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// POST.
    Create {
        /// Namespace.
        namespace: String,
        /// The object.
        object: Value,
    },
    /// A JSON patch that tests uid and resourceVersion first.
    Patch {
        /// Which kind.
        kind: Kind,
        /// Which object.
        target: ObjectVersion,
        /// The operations.
        patch: Value,
    },
    /// DELETE with preconditions on uid and resourceVersion.
    Delete {
        /// Which ReplicaSet.
        target: ObjectVersion,
    },
}

impl WorkloadWrite {
    /// Short name, for logs and metrics.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::CreateHistory { .. } => "create-history",
            Self::SetMixed { .. } => "set-mixed",
            Self::SetExact { .. } => "set-exact",
            Self::Settle { .. } => "settle",
            Self::LabelTwin { .. } => "label-twin",
            Self::DeleteTwin { .. } => "delete-twin",
            Self::StripLabels { .. } => "strip-labels",
            Self::RecordGap { .. } => "record-gap",
            Self::Unpause { .. } => "unpause",
        }
    }

    /// The request that carries it out. Every one fails if the object is not as it was when this was decided, except a
    /// creation, whose name makes it happen once.
    #[must_use]
    pub fn request(&self) -> Request {
        match self {
            Self::CreateHistory { replica_set } => Request::Create {
                namespace: replica_set["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
                object: replica_set.clone(),
            },
            Self::SetMixed { live, template } => patch(
                Kind::ReplicaSet,
                live,
                vec![
                    json!({"op": "replace", "path": "/spec/template", "value": template}),
                    json!({"op": "add", "path": label(labels::LIVE), "value": "true"}),
                ],
            ),
            Self::SetExact { live, template, marked, settled } => {
                let mut operations = vec![json!({"op": "replace", "path": "/spec/template", "value": template})];
                if *marked {
                    operations.push(json!({"op": "remove", "path": label(labels::LIVE)}));
                }
                operations.extend(settled.as_deref().map(settle));
                patch(Kind::ReplicaSet, live, operations)
            }
            Self::Settle { live, settled } => patch(Kind::ReplicaSet, live, vec![settle(settled)]),
            Self::LabelTwin { replica_set, revision } => patch(
                Kind::ReplicaSet,
                replica_set,
                vec![json!({"op": "add", "path": label(labels::HISTORY), "value": revision})],
            ),
            Self::DeleteTwin { replica_set } => Request::Delete { target: replica_set.clone() },
            Self::StripLabels { replica_set, labels } => patch(
                Kind::ReplicaSet,
                replica_set,
                labels.iter().map(|name| json!({"op": "remove", "path": label(name)})).collect(),
            ),
            Self::RecordGap { deployment, gaps } => patch(
                Kind::Deployment,
                deployment,
                vec![
                    json!({"op": "add", "path": format!("/metadata/annotations/{}", escaped(annotations::GAP)), "value": gaps}),
                ],
            ),
            Self::Unpause { deployment } => patch(
                Kind::Deployment,
                deployment,
                vec![
                    json!({"op": "remove", "path": format!("/metadata/annotations/{}", escaped(annotations::ROLLOUT))}),
                    json!({"op": "add", "path": "/spec/paused", "value": false}),
                ],
            ),
        }
    }
}

fn patch(kind: Kind, target: &ObjectVersion, operations: Vec<Value>) -> Request {
    let mut all = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": target.uid}),
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": target.resource_version}),
    ];
    all.extend(operations);
    Request::Patch { kind, target: target.clone(), patch: Value::Array(all) }
}

fn settle(mark: &str) -> Value {
    json!({"op": "add", "path": label(labels::SETTLED), "value": mark})
}

fn label(name: &str) -> String {
    format!("/metadata/labels/{}", escaped(name))
}

/// A key as a segment of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

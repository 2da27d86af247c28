//! Kubernetes' own controllers of workloads, one file a kind: what one sync does, as data.

mod daemon_set;
pub mod deployment;
mod replica_set;
pub mod revisions;
pub mod rolling;
pub mod stateful_set;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::ObjectRef;
use hitless_api::pod::PodView;
use hitless_workloads::{Body, Template};
use serde_json::{Value, json};

use crate::WorkloadObject;

/// What a controller sees when it looks at an object.
pub struct Seen<'a> {
    /// The object.
    pub object: &'a WorkloadObject,
    /// Objects whose controller it is.
    children: Vec<&'a WorkloadObject>,
    /// Pods whose controller it is.
    pods: Vec<&'a PodView>,
    /// Names of the nodes that may get pods.
    nodes: Vec<String>,
}

/// What it does then. The order is that of its requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A child gets another number of replicas.
    Scale {
        /// The child.
        child: ObjectRef,
        /// How many.
        replicas: i32,
    },
    /// A child is made. What the API server adds is not there yet.
    Make(Value),
    /// A ControllerRevision becomes the newest.
    Renumber {
        /// The revision.
        child: ObjectRef,
        /// Its number from now on.
        number: i64,
    },
    /// A pod is made.
    MakePod(NewPod),
    /// The pod with this uid is deleted.
    RemovePod(String),
    /// The object's status changes, see [`report`].
    Status(Value),
    /// With what follows, pods are replaced natively. Where nobody wants that, this text says what is wrong.
    Rolls(String),
}

/// A pod that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPod {
    /// `None`: any name that begins with the owner's.
    pub name: Option<String>,
    /// `None`: the scheduler chooses.
    pub node: Option<String>,
    /// What it is made from.
    pub template: Template,
    /// Labels beside the template's.
    pub labels: BTreeMap<String, String>,
}

impl<'a> Seen<'a> {
    /// The object, and its own among these objects and pods.
    pub fn new(
        object: &'a WorkloadObject,
        objects: impl IntoIterator<Item = &'a WorkloadObject>,
        pods: impl IntoIterator<Item = &'a Arc<PodView>>,
    ) -> Self {
        let is_own = |owner: Option<&ObjectRef>| owner.is_some_and(|owner| owner.uid == object.view.id.uid);
        let children = objects.into_iter().filter(|each| is_own(each.view.owner.as_ref())).collect();
        let pods = pods.into_iter().filter(|pod| is_own(pod.owner.as_deref())).map(|pod| &**pod).collect();
        Self { object, children, pods, nodes: Vec::new() }
    }

    /// With these nodes, by name, in the order in which they get pods.
    #[must_use]
    pub fn on_nodes(self, nodes: Vec<String>) -> Self {
        Self { nodes, ..self }
    }

    /// Those that are not being deleted and have not ended.
    fn live_pods(&self) -> impl Iterator<Item = &'a PodView> {
        self.pods.iter().copied().filter(|pod| !pod.terminating && !pod.finished)
    }
}

/// One sync of the object by the controller of its kind.
#[must_use]
pub fn sync(seen: &Seen<'_>) -> Vec<Act> {
    match &seen.object.view.body {
        Body::Deployment(body) => deployment::sync(seen, body),
        Body::ReplicaSet(body) => replica_set::sync(seen, body),
        Body::StatefulSet(body) => stateful_set::sync(seen, body),
        Body::DaemonSet(body) => daemon_set::sync(seen, body),
        // Nobody but the controller under test looks after CollaSets.
        Body::CollaSet(_)
        | Body::CloneSet(_)
        | Body::ResourceContext(_)
        | Body::Claim(_)
        | Body::PodDecoration(_)
        | Body::SidecarSet(_)
        | Body::SidecarInjection(_)
        | Body::ControllerRevision(_)
        | Body::Request(_)
        | Body::Omitted(_) => Vec::new(),
    }
}

/// Writes an [`Act::Status`] into the object, which may be a later one than the controller has seen.
pub fn report(object: &mut Value, status: &Value) {
    let known = &mut object["status"];
    for (name, value) in status.as_object().into_iter().flatten() {
        let value = match name.as_str() {
            "observedGeneration" => json!(known[name].as_i64().max(value.as_i64())),
            _ => value.clone(),
        };
        known[name] = value;
    }
}

/// `metadata.ownerReferences` of a child.
fn owned_by(object: &Value) -> Value {
    let meta = &object["metadata"];
    json!([{"apiVersion": object["apiVersion"], "kind": object["kind"], "name": meta["name"], "uid": meta["uid"],
        "controller": true, "blockOwnerDeletion": true}])
}

//! What an application looks like: the kind of its workload, and all that tests choose.

use serde_json::{Value, json};

use super::manifest::merge;
use crate::stack::REGISTRY;

/// Longest time that clients may be parked, in milliseconds: the most that a policy may say.
pub const LONGEST_HOLD: u32 = 4000;

/// Kind of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Deployment.
    Deployment,
    /// StatefulSet, with a headless Service of its own.
    StatefulSet,
    /// DaemonSet.
    DaemonSet,
    /// CollaSet, which `kubectl set image` and `rollout` do not know.
    CollaSet,
    /// OpenKruise's CloneSet, which they do not know either.
    CloneSet,
}

impl Workload {
    /// `apiVersion` of such an object.
    pub(super) fn api_version(self) -> &'static str {
        match self {
            Self::Deployment | Self::StatefulSet | Self::DaemonSet => "apps/v1",
            Self::CollaSet => "apps.kusionstack.io/v1alpha1",
            Self::CloneSet => "apps.kruise.io/v1alpha1",
        }
    }

    /// How `kubectl` is told which one is meant.
    #[must_use]
    pub fn web(self) -> &'static str {
        match self {
            Self::Deployment => "deployment/web",
            Self::StatefulSet => "statefulset/web",
            Self::DaemonSet => "daemonset/web",
            Self::CollaSet => "collaset/web",
            Self::CloneSet => "cloneset/web",
        }
    }

    /// Whether `kubectl set image` knows it.
    #[must_use]
    pub fn is_of_kubernetes(self) -> bool {
        !matches!(self, Self::CollaSet | Self::CloneSet)
    }
}

/// What the workload looks like.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its kind.
    pub workload: Workload,
    /// Replicas; of a DaemonSet the number of nodes, which is what is waited for.
    pub replicas: u32,
    /// The registry of its image, and whatever else is before its name.
    pub registry: String,
    /// Which server: the name of its image, without registry and tag. The reference server's is `echo`.
    pub repository: String,
    /// Its version.
    pub version: &'static str,
    /// Annotation `hitless.dev/update`, if any.
    pub update: Option<&'static str>,
    /// The namespace says the same by its label, and the workload nothing; the pods get the readiness gate by that.
    pub by_namespace: bool,
    /// Annotation `hitless.dev/mode` of the pods, if any. Most tests look at pods that are out of service.
    pub mode: Option<&'static str>,
    /// Whether the pods get the readiness gate (label on the namespace).
    pub gate: bool,
    /// Merged into the workload's JSON.
    pub patch: Value,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            workload: Workload::Deployment,
            replicas: 3,
            registry: REGISTRY.to_owned(),
            repository: "echo".to_owned(),
            version: "v1",
            update: Some("in-place"),
            by_namespace: false,
            mode: Some("Leave"),
            gate: true,
            patch: Value::Null,
        }
    }
}

impl Shape {
    /// A CollaSet: it needs no opt-in, and its pods are made with the readiness gate.
    #[must_use]
    pub fn colla_set(replicas: u32) -> Self {
        Self { workload: Workload::CollaSet, replicas, update: None, mode: None, gate: false, ..Self::default() }
    }

    /// A CloneSet, likewise.
    #[must_use]
    pub fn clone_set(replicas: u32) -> Self {
        Self { workload: Workload::CloneSet, ..Self::colla_set(replicas) }
    }

    /// The same, and its pods are held whatever else could be done: no companion pod serves meanwhile, and nothing goes natively.
    #[must_use]
    pub fn holding(self) -> Self {
        let mut patch = json!({"metadata": {"annotations": {"hitless.dev/companion": "Never"}}});
        merge(&mut patch, &self.patch);
        Self { patch, mode: Some("Hold"), ..self }
    }

    /// The same, and each pod is out of service for so many seconds at least.
    #[must_use]
    pub fn out_for(self, seconds: u32) -> Self {
        self.drained(
            &json!({"minSeconds": seconds, "stragglerAfterSeconds": seconds + 1, "deadlineSeconds": seconds + 3}),
        )
    }

    /// The same, and clients may be parked for as long as a policy may say: how long a restart takes is the machine's affair.
    #[must_use]
    pub fn parking(self) -> Self {
        self.drained(&json!({"holdCapMilliseconds": LONGEST_HOLD}))
    }

    /// What the shape says itself of its pods' annotations counts.
    fn drained(self, drain: &Value) -> Self {
        let annotations = json!({"hitless.dev/drain": drain.to_string()});
        let mut patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        merge(&mut patch, &self.patch);
        Self { patch, ..self }
    }
}

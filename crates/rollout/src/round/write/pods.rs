//! Writes to pods that are no workload's plan: who is in service without an agent, who fetches images, who serves as a companion.

use hitless_api::names::IN_SERVICE;
use hitless_api::{GroupKind, JsonPatch, ObjectRef, PodRef};
use hitless_workloads::{Request, Write};
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};

use crate::prefetch::{self, Pull, Resources};

/// Why the controller puts a pod in service, and no agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutAgent {
    /// Its node has none (docs/contract.md#inservice-without-an-agent).
    NoAgent,
    /// It is a companion pod, which agents leave alone (docs/contract.md#companion-pod).
    Companion,
}

impl WithoutAgent {
    /// Reason and message of the condition.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::NoAgent => ("NoAgent", "set by hitless-controller: the node has no Ready agent"),
            Self::Companion => {
                ("Companion", "set by hitless-controller: it serves while its workload's own pod is away")
            }
        }
    }
}

/// InService True on a pod that has not got the condition in this version.
pub(crate) fn in_service(pod: &PodRef, resource_version: &str, because: WithoutAgent, now: Timestamp) -> Write {
    let (reason, message) = because.words();
    let condition = json!({
        "type": IN_SERVICE, "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": now.round(Unit::Second).unwrap_or_default().to_string(),
    });
    let patch = JsonPatch::at(&pod.uid, resource_version).add(&["status", "conditions", "-"], condition);
    Write::new("in-service-fallback", pod.object(), Request::Status(patch)).about(pod.uid.clone())
}

/// A pod that fetches an image for `owner`. All attempts are about the same.
pub(crate) fn create_prefetch(pull: &Pull, attempt: u32, resources: Resources, owner: &ObjectRef) -> Write {
    let manifest = prefetch::manifest(pull, attempt, resources, owner);
    Write::create("prefetch", &GroupKind::POD, manifest).about(format!("{}/{}", pull.namespace, pull.key()))
}

/// A companion pod with this value of its label `hitless.dev/companion`.
pub(crate) fn create_companion(key: &str, manifest: Value) -> Write {
    let write = Write::create("companion", &GroupKind::POD, manifest);
    let subject = format!("{}/{key}", write.on.namespace);
    write.about(subject)
}

/// A pod that fetches an image or a companion pod is deleted. With a version: one that is put in service meanwhile has clients.
pub(crate) fn delete_helper(
    verb: &'static str,
    pod: &PodRef,
    resource_version: Option<&str>,
    grace_seconds: Option<u32>,
) -> Write {
    let version = resource_version.map(str::to_owned);
    Write::delete_helper(verb, pod, version, grace_seconds).about(format!("{}/{}", pod.namespace, pod.name))
}

//! Grants that are refused before anything is done.

use std::collections::BTreeMap;

use hitless_api::pod::PodView;
use hitless_api::{Change, GrantMode, GrantOp, Hook, PostCheck};
use jiff::Timestamp;

use super::case::expiry;
use super::{Decision, Input};

/// What is wrong with the grant itself.
pub(super) fn refusal_of_grant(input: &Input<'_>, now: Timestamp) -> Option<Decision> {
    let grant = input.grant;
    let (reason, message) = if let GrantOp::Unknown(op) = &grant.op {
        ("UnsupportedOp", format!("this agent does not know the operation {op:?}"))
    } else if let GrantMode::Unknown(mode) = &grant.mode {
        ("UnsupportedMode", format!("this agent does not know the mode {mode:?}"))
    } else if grant.mode == GrantMode::Hold && grant.post_check == Some(PostCheck::Pending) {
        ("UnsupportedMode", "a held pod stays in service, so no rule can keep it out until it has passed".to_owned())
    } else if grant.mode == GrantMode::Hold && Hook::need_leave(&grant.hooks) {
        ("UnsupportedMode", "a held pod's connections are never gone, so no hook can be called then".to_owned())
    } else if let Some(hook) = grant.hooks.iter().find(|hook| hook.call().is_none()) {
        ("UnsupportedHook", format!("this agent does not know how to call hook {}", hook.name))
    } else if input.granted_node_uid != input.node.uid {
        ("NodeUIDMismatch", "the grant was made for an earlier node of this name".to_owned())
    } else if grant.containers.values().all(|change| change.from == change.to) {
        ("NoChange", "the grant changes no image, so the kubelet would restart nothing".to_owned())
    } else if now > expiry(grant) {
        ("Expired", format!("the grant ended at {} and this node's clock says {now}", expiry(grant)))
    } else if input.busy {
        ("Busy", "another operation of this pod is under way".to_owned())
    } else {
        return None;
    };
    Some(Decision::refused(reason, message))
}

/// Annotations that an agent may write (admission allows no others).
const OWN_PREFIX: &str = "hitless.dev/";

/// A key whose value is neither the one before nor the one after. What is absent before is not tested, as in the patch.
fn changed<'a>(changes: &'a BTreeMap<String, Change>, present: &BTreeMap<String, String>) -> Option<&'a str> {
    let is_known = |(key, change): &(&String, &Change)| {
        let value = present.get(*key);
        change.from.is_none() || value == change.from.as_ref() || value == change.to.as_ref()
    };
    changes.iter().find(|change| !is_known(change)).map(|(key, _)| key.as_str())
}

/// What is wrong with the pod.
pub(super) fn refusal_of_pod(input: &Input<'_>, pod: &PodView) -> Option<Decision> {
    let grant = input.grant;
    let (reason, message) = if pod.node.as_deref() != Some(input.node.name.as_str()) {
        ("WrongNode", "the pod is not bound to this node".to_owned())
    } else if pod.host_network {
        ("NotSupported", "pods in the node's network can't be drained".to_owned())
    } else if pod.is_mirror() {
        ("NotSupported", "static pods can't be changed through the API".to_owned())
    } else if !pod.gated && grant.mode == GrantMode::Leave {
        ("NoReadinessGate", format!("the pod has no readiness gate {}", hitless_api::names::IN_SERVICE))
    } else if let Some(name) = grant.containers.keys().find(|name| pod.container(name).is_none()) {
        ("UnknownContainer", format!("the pod has no container {name}"))
    } else if let Some((name, image)) = grant.containers.iter().find_map(|(name, change)| {
        let image = &pod.container(name)?.image;
        (*image != change.from && *image != change.to).then_some((name, image))
    }) {
        ("ImageChanged", format!("container {name} has image {image}, which the grant does not know"))
    } else if let Some(key) = grant.annotations.keys().find(|key| !key.starts_with(OWN_PREFIX)) {
        ("UnsupportedAnnotation", format!("agents write only annotations {OWN_PREFIX}..., not {key}"))
    } else if let Some(key) = changed(&grant.annotations, &pod.annotations).or(changed(&grant.labels, &pod.labels)) {
        ("MetadataChanged", format!("{key} has neither the value before nor the one after"))
    } else {
        return None;
    };
    Some(Decision::refused(reason, message))
}

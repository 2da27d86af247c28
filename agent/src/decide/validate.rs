//! Grants that are refused before anything is done.

use hitless_api::pod::PodView;
use hitless_api::{GrantMode, GrantOp, Hook, PostCheck, Wait};
use jiff::Timestamp;

use super::OperationView;
use super::operation::expiry;
use crate::decision::Decision;
use crate::deed::Deed;

/// What is wrong with the grant itself.
pub(super) fn refusal_of_grant(view: &OperationView<'_>, now: Timestamp) -> Option<Decision> {
    let grant = view.grant;
    let (reason, message) = if let GrantOp::Unknown(op) = &grant.op {
        ("UnsupportedOp", format!("this agent does not know the operation {op:?}"))
    } else if let GrantMode::Unknown(mode) = &grant.mode {
        ("UnsupportedMode", format!("this agent does not know the mode {mode:?}"))
    } else if (grant.mode == GrantMode::Stay) != (grant.op == GrantOp::Relabel) {
        ("UnsupportedMode", "a pod whose labels are changed stays as it is, and no other one does".to_owned())
    } else if grant.mode == GrantMode::Hold && grant.post_check == Some(PostCheck::Pending) {
        ("UnsupportedMode", "a held pod stays in service, so no rule can keep it out until it has passed".to_owned())
    } else if let Some(word) = grant.waits.iter().find_map(Wait::unknown_word) {
        ("UnsupportedWait", format!("this agent does not know how to wait for {word:?}"))
    } else if grant.mode == GrantMode::Hold && grant.waits.iter().any(Wait::is_pending) {
        ("UnsupportedMode", "a held pod stays in service, so nothing outside of it can be waited for".to_owned())
    } else if grant.mode == GrantMode::Hold && Hook::need_leave(&grant.hooks) {
        ("UnsupportedMode", "a held pod's connections are never gone, so no hook can be called then".to_owned())
    } else if let Some(hook) = grant.hooks.iter().find(|hook| hook.call().is_none()) {
        ("UnsupportedHook", format!("this agent does not know how to call hook {}", hook.name))
    } else if view.granted_node_uid != view.node.uid {
        ("NodeUIDMismatch", "the grant was made for an earlier node of this name".to_owned())
    } else if let Some(flaw) = Deed::of(grant).flaw() {
        flaw
    } else if now > expiry(grant) {
        ("Expired", format!("the grant ended at {} and this node's clock says {now}", expiry(grant)))
    } else if view.busy {
        ("Busy", "another operation of this pod is under way".to_owned())
    } else {
        return None;
    };
    Some(Decision::refused(reason, message))
}

/// What is wrong with the pod.
pub(super) fn refusal_of_pod(view: &OperationView<'_>, pod: &PodView) -> Option<Decision> {
    let grant = view.grant;
    let (reason, message) = if pod.node.as_deref() != Some(view.node.name.as_str()) {
        ("WrongNode", "the pod is not bound to this node".to_owned())
    } else if let Some(large) = pod.too_large() {
        ("TooLarge", large.to_string())
    } else if pod.host_network {
        ("NotSupported", "pods in the node's network can't be drained".to_owned())
    } else if pod.is_mirror() {
        ("NotSupported", "static pods can't be changed through the API".to_owned())
    } else if !pod.gated && grant.mode == GrantMode::Leave {
        ("NoReadinessGate", format!("the pod has no readiness gate {}", hitless_api::names::IN_SERVICE))
    } else {
        Deed::of(grant).refusal(pod)?
    };
    Some(Decision::refused(reason, message))
}

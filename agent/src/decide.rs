//! The next step of one granted operation, derived from what is there.
//!
//! ```text
//!             ┌─ validate ─ Refused
//!  Granted ───┤
//!             └─ leave:  Leaving → Draining ─┬─ image patch ─ verify: Operating → Verifying → Checking ─ Returning → Done
//!                          │ cancel, Abort   │                  │ bad, cancelled, not checked in time
//!                          └─ Returning → Cancelled, Failed     └─ rollback: Returning → RolledBack, Failed
//!  Granted ─── hold:   Holding → Settling ───┴─ image patch ─ verify ─ Returning → Done
//!  Granted ─── relabel: patch of labels, Operating → Done
//! ```
//!
//! In a Hold the pod stays in service and nothing but the image patch is written to it. What is held is the kernel's; a
//! thread that owns it is told by [`Decision::hold`] and answers by [`Observation::Held`](crate::view::Observation::Held).
//!
//! Which box an operation is in follows from the pod alone, but for one bit: that the way back has been begun, which is
//! therefore reported *before* it is begun ([`Decision::rollback`]). That the pod has returned to service on behalf of a
//! grant, and why, is written into the InService condition itself ([`mark`]).

mod clock;
mod config;
mod foreign;
mod hold;
mod hooks;
mod leave;
mod operation;
mod reason;
mod relabel;
mod returned;
mod rollback;
mod validate;
mod verify;

use hitless_api::{Grant, Outcome, Phase, Transition};
use jiff::Timestamp;

pub(crate) use hold::patience_seconds;

use crate::decision::{Action, Decision, WaitingFor};
use crate::deed::{Deed, Progress};
use crate::memory::Memory;
use crate::view::{Missing, NodeIdentity, Observation, PodLookup};
use operation::Operation;

/// What the next step of one grant is decided from.
#[derive(Clone, Copy, Debug)]
pub struct OperationView<'a> {
    /// The grant.
    pub grant: &'a Grant,
    /// uid of the node that the grant was made for.
    pub granted_node_uid: &'a str,
    /// This node.
    pub node: &'a NodeIdentity,
    /// The pod.
    pub pod: PodLookup<'a>,
    /// The agent's last report of this grant, as the API server has it.
    pub reported: Option<&'a Transition>,
    /// What this process remembers.
    pub memory: &'a Memory,
    /// What the kernel shows of the pod.
    pub observation: &'a Observation,
    /// Another operation of the same pod goes first.
    pub busy: bool,
}

/// Message of the InService condition that was raised on behalf of this grant. The time tells a grant from an earlier one
/// of the same operation, which has the same id.
#[must_use]
pub fn mark(grant: &Grant) -> String {
    grant.returned_mark()
}

/// Whether anything was done for the grant already; such a grant is ended properly and never refused.
#[must_use]
pub fn begun(view: &OperationView<'_>) -> bool {
    if view.memory.rollback.is_some()
        || !view.memory.hooks.is_empty()
        || view.memory.task_since.is_some()
        || view.reported.is_some_and(|reported| reported.phase > Phase::Granted || reported.rollback.is_some())
    {
        return true;
    }
    match view.pod {
        PodLookup::Found(pod) => {
            let operation = Operation::new(view, &pod.view, Timestamp::UNIX_EPOCH);
            let has_left = operation.lowered().is_some() || operation.may_be_lowered();
            let stays = operation.grant.mode.stays_in_service();
            has_left || operation.returned().is_some() || stays && operation.may_be_patched()
        }
        PodLookup::NotCached | PodLookup::Missing(_) => false,
    }
}

/// The next step. Never panics, whatever the API server holds.
#[must_use]
pub fn decide(view: &OperationView<'_>, now: Timestamp) -> Decision {
    let phase = view.reported.map_or(Phase::Granted, |reported| reported.phase);
    if let Some(result) = view.reported.and_then(|reported| reported.result.as_ref()) {
        return Decision::end(phase, result.outcome, result.reason.clone());
    }
    let begun = begun(view);
    if begun && view.busy {
        return Decision::at(phase).waiting_for(WaitingFor::Other);
    }
    if !begun && let Some(refusal) = validate::refusal_of_grant(view, now) {
        return refusal;
    }
    let found = match view.pod {
        PodLookup::Found(pod) => pod,
        PodLookup::NotCached => return Decision::at(phase).doing(Action::FetchPod).waiting_for(WaitingFor::Pod),
        PodLookup::Missing(missing) => return missing_pod(missing, begun, phase),
    };
    let pod = &found.view;
    let operation = Operation::new(view, pod, now);
    if pod.terminating {
        return Decision::end(phase, Outcome::Cancelled, "PodTerminating").saying("the pod is being deleted");
    }
    if pod.finished {
        return Decision::end(phase, Outcome::Cancelled, "PodFinished").saying("the pod has run to its end");
    }
    if let Deed::Labels(_) = operation.deed() {
        let refusal = if begun { None } else { validate::refusal_of_pod(view, pod) };
        return refusal.unwrap_or_else(|| relabel::decide(&operation));
    }
    if let Some(condition) = operation.returned() {
        return returned::decide(&operation, condition);
    }
    if !begun {
        let is_foreign = matches!(operation.deed(), Deed::Foreign(_));
        if let Some(cancel) = operation.grant.cancel.as_ref().filter(|_| !is_foreign) {
            let cancelled = if operation.is_hold() { hold::cancelled } else { leave::cancelled };
            return cancelled(&operation, &cancel.reason);
        }
        if let Some(refusal) = validate::refusal_of_pod(view, pod) {
            return refusal;
        }
        if let Some(waiting) = config::wait(&operation, &found.config_mounts) {
            return waiting;
        }
    }
    if let Deed::Foreign(foreign) = operation.deed() {
        return foreign::decide(&operation, foreign);
    }
    match (operation.progress(), operation.rollback()) {
        (Progress::Other(reason, what), _) => operation.give_up(reason, what),
        (Progress::NotPatched | Progress::Patched, Some(_)) => rollback::decide(&operation),
        (Progress::NotPatched, None) if operation.is_hold() => hold::decide(&operation),
        (Progress::NotPatched, None) => leave::decide(&operation),
        (Progress::Patched, None) => operation.replacing(verify::decide(&operation)),
    }
}

fn missing_pod(missing: Missing, begun: bool, phase: Phase) -> Decision {
    match missing {
        Missing::OtherUid if !begun => {
            Decision::refused("PodUIDMismatch", "a pod of this name exists, but it is another one than granted")
        }
        Missing::OtherNode if !begun => Decision::refused("WrongNode", "the pod is not bound to this node"),
        Missing::Gone | Missing::OtherUid | Missing::OtherNode => {
            Decision::end(phase, Outcome::Cancelled, "PodGone").saying("the pod is gone")
        }
    }
}

//! What is said of pods without the readiness gate.

use hitless_api::names::labels;
use hitless_workloads::Object;

/// What gives new pods the gate: the label of the namespace, or of the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateLabel {
    Given,
    /// It has another value than `enabled`: its owner wants none.
    Refused,
    Absent,
    /// The namespace gets it now, with the opt-in.
    ToBeGiven,
    /// It may not be read.
    Unread,
}

/// What happens to the workload's pods.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rolls {
    /// It has opted in, or does so now. From then on a restart keeps the pods.
    pub(super) driven: bool,
    /// `kubectl rollout restart` makes them anew: not of a paused Deployment, and not where the update strategy is `OnDelete`.
    pub(super) by_restart: bool,
}

pub(super) fn note(object: &Object, gated: usize, pods: usize, label: GateLabel, rolls: Rolls) -> Option<String> {
    if gated == pods && label == GateLabel::Given {
        return None;
    }
    let namespace = &object.id.namespace;
    let new = match label {
        GateLabel::Given => "Pods that are made from now on have it".to_owned(),
        GateLabel::Refused => format!("The label {} says that pods get none", labels::GATE),
        GateLabel::ToBeGiven => format!(
            "Namespace {namespace} is labelled {}=enabled now, so that pods that are made from then on have it",
            labels::GATE
        ),
        GateLabel::Absent => format!(
            "With --yes namespace {namespace} is labelled {}=enabled, so that pods that are made from then on have it",
            labels::GATE
        ),
        GateLabel::Unread => {
            format!("Whether namespace {namespace} has the label {}=enabled may not be read", labels::GATE)
        }
    };
    let lack = if gated < pods { lacking(object, label, rolls) } else { String::new() };
    Some(format!("{gated} of {pods} pods have the readiness gate. {lack}{new}"))
}

/// What is true of those without it, and how they get it: only a pod that is made anew does.
fn lacking(object: &Object, label: GateLabel, rolls: Rolls) -> String {
    let safe = "Those without are never taken out of service: their new connections are held while their containers are replaced, so the \
                next change is safe, but their open connections are cut. ";
    let (namespace, on) = (&object.id.namespace, object.id.arguments());
    let how = match (label, rolls.driven) {
        (GateLabel::Refused, _) => return safe.to_owned(),
        (_, true) => "They get the gate when they are made anew, as when they are deleted one after the other; a restart is in place from \
                      the opt-in on, and keeps them. "
            .to_owned(),
        (_, false) if !rolls.by_restart => format!(
            "They get the gate when they are made anew: label namespace {namespace} {}=enabled, then delete them one after the other. ",
            labels::GATE
        ),
        (GateLabel::Absent | GateLabel::Unread | GateLabel::ToBeGiven, false) => format!(
            "To give all of them the gate first, before --yes: kubectl label namespace {namespace} {}=enabled && kubectl rollout restart {on} \
             && kubectl rollout status {on}; from the opt-in on a restart is in place, and keeps them as they are. ",
            labels::GATE
        ),
        (GateLabel::Given, false) => format!(
            "To give all of them the gate first, before --yes: kubectl rollout restart {on} && kubectl rollout status {on}; from the opt-in on \
             a restart is in place, and keeps them as they are. "
        ),
    };
    format!("{safe}{how}")
}

//! Hooks of a CloneSet (`spec.lifecycle`): what other operators do to a pod before it goes on, and the state by which they are told.
//!
//! A hook names labels and finalizers. While one of those of `inPlaceUpdate` is on a pod, its containers are not replaced, and while one of
//! `preDelete` is, the pod is not deleted. That is a wait of the pod's grant, as finalizers of PodOpsLifecycle are, and no deadline ends it.
//! Upstream lets a pod serve until its hook is over, unless `markPodNotReady` is set; here a pod has left service while its hook is waited for
//! (docs/decisions/0220-cloneset-hooks-are-waits.md).

mod overdue;
mod states;

use hitless_api::GrantOp;
use hitless_api::clone_set::{Lifecycle, LifecycleHook};
use hitless_api::pod::PodView;

pub(super) use overdue::Overdue;
pub(super) use states::{Decided, writes};

use super::names;
use crate::kind::Hook;

/// Where a pod is, as upstream's label `lifecycle.apps.kruise.io/state` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is new, and the hook `preNormal` is waited for.
    PreparingNormal,
    /// Nothing is done to it.
    Normal,
    /// It is to be updated once nothing of the hook `inPlaceUpdate` is on it.
    PreparingUpdate,
    /// It is being updated.
    Updating,
    /// It is updated, and all of the hook `inPlaceUpdate` is to be put back on it.
    Updated,
    /// It is to be deleted once nothing of the hook `preDelete` is on it.
    PreparingDelete,
}

impl State {
    const ALL: [Self; 6] = [
        Self::PreparingNormal,
        Self::Normal,
        Self::PreparingUpdate,
        Self::Updating,
        Self::Updated,
        Self::PreparingDelete,
    ];

    /// The label's value.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::PreparingNormal => "PreparingNormal",
            Self::Normal => "Normal",
            Self::PreparingUpdate => "PreparingUpdate",
            Self::Updating => "Updating",
            Self::Updated => "Updated",
            Self::PreparingDelete => "PreparingDelete",
        }
    }

    /// What the pod's label says. Where it is absent or has a value that is not known, nothing is done to the pod.
    pub(super) fn of(pod: &PodView) -> Self {
        let label = pod.labels.get(names::LIFECYCLE_STATE);
        let known = label.and_then(|label| Self::ALL.into_iter().find(|state| state.as_str() == label));
        known.unwrap_or(Self::Normal)
    }
}

/// A label or a finalizer of the hook that is on the pod, if one is (upstream's "hooked").
fn on<'h>(hook: &'h LifecycleHook, pod: &PodView) -> Option<&'h str> {
    parts(hook, pod).find(|(_, is_on)| *is_on).map(|(name, _)| name)
}

/// A label or a finalizer of the hook that is not on the pod, if there is one.
fn off<'h>(hook: &'h LifecycleHook, pod: &PodView) -> Option<&'h str> {
    parts(hook, pod).find(|(_, is_on)| !is_on).map(|(name, _)| name)
}

/// Labels and finalizers of the hook, and whether they are on the pod.
fn parts<'h>(hook: &'h LifecycleHook, pod: &PodView) -> impl Iterator<Item = (&'h str, bool)> {
    let labels = hook.labels_handler.iter().map(|(key, value)| (key.as_str(), pod.labels.get(key) == Some(value)));
    let finalizers = hook.finalizers_handler.iter().map(|name| (name.as_str(), has_finalizer(pod, name)));
    labels.chain(finalizers)
}

fn has_finalizer(pod: &PodView, name: &String) -> bool {
    pod.finalizers.as_ref().is_some_and(|all| all.contains(name))
}

/// What has to become of the hooks before the pod may be updated or deleted.
pub(super) fn hook(hooks: &Lifecycle, pod: &PodView, op: &GrantOp) -> Hook {
    match op {
        GrantOp::Update | GrantOp::Restart => hooks.in_place_update.as_ref().map_or(Hook::Absent, |hook| {
            let pending = on(hook, pod).map(|part| waits("inPlaceUpdate", part));
            pending.or_else(|| untold(pod)).map_or(Hook::Over, Hook::Pending)
        }),
        GrantOp::Drain => pending_deletion(hooks, pod).map_or(Hook::Absent, Hook::Pending),
        // Labels change in a pod that serves, and operations of others have an order of their own.
        GrantOp::Relabel | GrantOp::Foreign | GrantOp::Unknown(_) => Hook::Absent,
    }
}

/// What has to become of the hook `preDelete` before the pod is deleted.
pub(super) fn pending_deletion(hooks: &Lifecycle, pod: &PodView) -> Option<String> {
    on(hooks.pre_delete.as_ref()?, pod).map(|part| waits("preDelete", part))
}

fn waits(name: &str, part: &str) -> String {
    format!("hook {name} of the CloneSet waits until {part} is taken off the pod")
}

/// The pod's state does not say yet that it is being updated: whoever prepares it would put the hook on again.
fn untold(pod: &PodView) -> Option<String> {
    match State::of(pod) {
        State::PreparingUpdate | State::Updating => None,
        State::PreparingNormal | State::Normal | State::Updated | State::PreparingDelete => {
            Some("hook inPlaceUpdate of the CloneSet is to be told by the pod's state".to_owned())
        }
    }
}

/// The pod is Ready, and does not count as available, because something is still to be done to it.
pub(super) fn is_unsettled(pod: &PodView) -> bool {
    pod.available() && State::of(pod) != State::Normal
}

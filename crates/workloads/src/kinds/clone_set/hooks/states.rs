//! The state that a pod is in next, and the write that tells it.

use hitless_api::clone_set::Lifecycle;
use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};

use super::{State, has_finalizer, off, on, pending_deletion};
use crate::kinds::clone_set::{CloneSet, names};
use crate::pod_set::pods::stays;
use crate::world::World;
use crate::write::{Request, Write};

/// What is done to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing, or what asks no hook.
    Nothing,
    /// An operation has it out of service, after which it stays.
    Updating,
    /// It leaves, for good.
    Leaving,
}

/// What has been decided about a pod.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds::clone_set) struct Decided {
    /// It is to leave for good.
    pub(in crate::kinds::clone_set) leaves: bool,
    /// Its owner has named it.
    pub(in crate::kinds::clone_set) is_named: bool,
}

impl Doing {
    fn of(pod: &PodView, world: &World<'_>, leaves: bool) -> Self {
        let uid = &pod.id.uid;
        let is_reserved = world.removable.contains(uid) || world.left.contains(uid);
        let is_operated = world.operating.contains(uid);
        // A change of labels leaves it in service, and one that is to leave for good may be wanted again.
        let is_out = pod.in_service().is_some_and(|condition| !condition.is_true);
        match () {
            () if leaves && (is_operated || is_reserved) => Self::Leaving,
            () if is_operated && is_out && !is_reserved && !world.draining.contains(uid) => Self::Updating,
            () => Self::Nothing,
        }
    }
}

/// The state that comes next, by upstream's table; `None`: the same.
fn next(hooks: &Lifecycle, pod: &PodView, doing: Doing, is_named: bool) -> Option<State> {
    let update = hooks.in_place_update.as_ref();
    let is_hooked = update.is_some_and(|hook| on(hook, pod).is_some());
    let state = State::of(pod);
    let next = match (doing, state) {
        (Doing::Leaving, _) if pending_deletion(hooks, pod).is_some() => State::PreparingDelete,
        // One that lacks a part of the hook gets it back first, and is asked again.
        (Doing::Updating, State::Updated) if update.is_some() => State::PreparingUpdate,
        (Doing::Updating, State::Normal | State::PreparingNormal | State::PreparingDelete) if is_hooked => {
            State::PreparingUpdate
        }
        // It waits for nothing now; afterwards it does.
        (Doing::Updating, State::Normal | State::PreparingNormal | State::PreparingDelete) if update.is_some() => {
            State::Updating
        }
        (Doing::Updating, State::PreparingUpdate) if !is_hooked => State::Updating,
        (Doing::Nothing, State::PreparingUpdate | State::Updating | State::Updated) => {
            if update.is_none_or(|hook| off(hook, pod).is_none()) { State::Normal } else { State::Updated }
        }
        (Doing::Nothing, State::PreparingDelete) if !is_named => State::PreparingNormal,
        (Doing::Nothing, State::PreparingNormal) => {
            let is_over = hooks.pre_normal.as_ref().map_or(pod.node.is_some(), |hook| off(hook, pod).is_none());
            if is_over { State::Normal } else { state }
        }
        (Doing::Leaving | Doing::Updating, _) | (Doing::Nothing, State::PreparingDelete | State::Normal) => state,
    };
    (next != state).then_some(next)
}

/// One write for each pod whose state is another one by now.
pub(in crate::kinds::clone_set) fn writes(
    set: CloneSet<'_>,
    world: &World<'_>,
    decided: impl Fn(&PodView) -> Decided,
) -> Vec<Write> {
    // What asks nobody has no time.
    let Some(now) = world.now else { return Vec::new() };
    let hooks = &set.body.hooks;
    let pods = world.pods(&set.object.id.uid).iter().copied().filter(|pod| stays(pod));
    pods.filter_map(|pod| {
        let Decided { leaves, is_named } = decided(pod);
        let next = next(hooks, pod, Doing::of(pod, world, leaves), is_named)?;
        let request = Request::Merge(patch(hooks, pod, next, now));
        Some(Write::on_pod("lifecycle-state", &pod.id, request))
    })
    .collect()
}

/// A merge patch: a pod may have no annotations. Who is asked once more gets the whole hook back.
fn patch(hooks: &Lifecycle, pod: &PodView, next: State, now: Timestamp) -> Value {
    let time = now.round(Unit::Second).unwrap_or(now).to_string();
    let mut metadata = json!({
        "uid": pod.id.uid,
        "resourceVersion": pod.resource_version,
        "labels": {names::LIFECYCLE_STATE: next.as_str()},
        "annotations": {annotations::LIFECYCLE_TIMESTAMP: time},
    });
    let is_again = State::of(pod) == State::Updated && next == State::PreparingUpdate;
    if let Some(hook) = hooks.in_place_update.as_ref().filter(|_| is_again) {
        for (key, value) in &hook.labels_handler {
            metadata["labels"][key] = value.as_str().into();
        }
        let known = pod.finalizers.as_ref().map(|all| all.to_vec()).unwrap_or_default();
        let lacking = hook.finalizers_handler.iter().filter(|name| !has_finalizer(pod, name)).cloned();
        let all: Vec<String> = known.iter().cloned().chain(lacking).collect();
        if all.len() > known.len() {
            metadata["finalizers"] = all.into();
        }
    }
    json!({"metadata": metadata})
}

#[cfg(test)]
mod tests;

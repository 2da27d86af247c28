//! Pods that wait for a hook for long: upstream waits for ever and says nothing.

use hitless_api::clone_set::Lifecycle;
use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use jiff::{SignedDuration, Timestamp};

use super::{State, off, on, pending_deletion, waits};
use crate::kinds::clone_set::CloneSet;
use crate::pod_set::pods::stays;
use crate::world::World;

/// After this time it is told.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// What is told of them, and when to look again.
#[derive(Default)]
pub(in crate::kinds::clone_set) struct Overdue {
    /// Of the one that waits for longest, and how many others do.
    pub(in crate::kinds::clone_set) text: Option<String>,
    /// When the next one has waited for long.
    pub(in crate::kinds::clone_set) wake_at: Option<Timestamp>,
}

impl Overdue {
    pub(in crate::kinds::clone_set) fn of(set: CloneSet<'_>, world: &World<'_>) -> Self {
        let Some(now) = world.now else { return Self::default() };
        let pods = world.pods(&set.object.id.uid).iter().copied().filter(|pod| stays(pod));
        let waiting = pods.filter_map(|pod| Some((since(pod)?, pod, words(&set.body.hooks, pod)?)));
        let (late, soon): (Vec<_>, Vec<_>) = waiting.partition(|(since, ..)| now.duration_since(*since) >= PATIENCE);
        let wake_at = soon.iter().filter_map(|(since, ..)| since.saturating_add(PATIENCE).ok()).min();
        let first = late.iter().min_by_key(|(since, pod, _)| (*since, &pod.id.name));
        let text = first.map(|(since, pod, words)| {
            let (name, state) = (&pod.id.name, State::of(pod).as_str());
            let others = match late.len() - 1 {
                0 => String::new(),
                1 => "; another pod waits as well".to_owned(),
                count => format!("; {count} other pods wait as well"),
            };
            format!("pod {name} is in state {state} since {since:.0}: {words}{others}")
        });
        Self { text, wake_at }
    }
}

/// When its state changed last. A new pod begins in its first one.
fn since(pod: &PodView) -> Option<Timestamp> {
    let written = pod.annotations.get(annotations::LIFECYCLE_TIMESTAMP).and_then(|time| time.parse().ok());
    written.or(pod.created)
}

/// What is to be done to it; `None`: it waits for no hook.
fn words(hooks: &Lifecycle, pod: &PodView) -> Option<String> {
    let lacks = |name: &str, hook: Option<&_>| {
        off(hook?, pod).map(|part| format!("hook {name} of the CloneSet waits until {part} is put on the pod"))
    };
    match State::of(pod) {
        State::PreparingNormal => lacks("preNormal", hooks.pre_normal.as_ref()),
        State::PreparingUpdate => on(hooks.in_place_update.as_ref()?, pod).map(|part| waits("inPlaceUpdate", part)),
        State::Updated => lacks("inPlaceUpdate", hooks.in_place_update.as_ref()),
        State::PreparingDelete => pending_deletion(hooks, pod),
        State::Normal | State::Updating => None,
    }
}

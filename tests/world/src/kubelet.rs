//! What a kubelet makes of a pod: how an image does, what becomes of a container's state, and which conditions follow.

use hitless_api::names::GATES_NOT_READY;
use hitless_api::pod::{ConditionView, ContainerState, ContainerView, PodView};
use hitless_api::shared::Shared;
use jiff::Timestamp;

/// How an image does. `T` is a harness's own measure of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image<T> {
    /// Ready so long after its start.
    Good(T),
    /// Can't be pulled.
    Missing,
    /// Ends right after its start, again and again.
    Crashes,
    /// Runs, and is never ready.
    NeverReady,
    /// Ready at once, and not any more after so long.
    ReadyFor(T),
    /// Ready at once, ends after so long, again and again.
    RunsFor(T),
}

/// What happens to a container by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It becomes ready.
    Ready,
    /// It is not ready any more.
    Unready,
    /// It ends.
    End,
}

impl<T: Copy + Default> Image<T> {
    /// What happens to a container of this image, how long after its start; one that crashes lasts for `soon`.
    #[must_use]
    pub fn course(self, soon: T) -> Vec<(T, Turn)> {
        match self {
            Self::Good(after) => vec![(after, Turn::Ready)],
            Self::Crashes => vec![(soon, Turn::End)],
            Self::ReadyFor(after) => vec![(T::default(), Turn::Ready), (after, Turn::Unready)],
            Self::RunsFor(after) => vec![(T::default(), Turn::Ready), (after, Turn::End)],
            Self::Missing | Self::NeverReady => Vec::new(),
        }
    }
}

/// `time` as the API server keeps it: whole seconds, truncated.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The container's state, which is empty before its first start.
pub fn state(container: &mut ContainerView) -> &mut ContainerState {
    container.status.get_or_insert_with(|| ContainerState {
        container_id: String::new(),
        image: Shared::default(),
        image_id: Shared::default(),
        ready: false,
        running_since: None,
        last_ended: None,
        waiting: None,
        trouble: None,
        restarts: 0,
    })
}

/// A container with this id and image is started.
pub fn started(state: &mut ContainerState, container_id: String, image: &str, image_id: String, now: Timestamp) {
    state.container_id = container_id;
    image.clone_into(&mut state.image);
    state.image_id = image_id.into();
    if state.running_since.is_some() {
        state.last_ended = Some(whole_seconds(now));
    }
    state.running_since = Some(whole_seconds(now));
    state.ready = false;
    state.waiting = None;
    state.restarts += 1;
}

/// The container has stopped, and its successor's image can't be pulled.
pub fn not_pulled(state: &mut ContainerState) {
    stopped(state, "ErrImagePull");
}

/// What has happened to the container that runs, if one does.
pub fn turned(state: &mut ContainerState, turn: Turn) {
    match turn {
        Turn::Ready => state.ready = state.running_since.is_some(),
        Turn::Unready => state.ready = false,
        Turn::End => stopped(state, "CrashLoopBackOff"),
    }
}

fn stopped(state: &mut ContainerState, waiting: &str) {
    state.running_since = None;
    // When is not noted here, and an earlier time would be wrong.
    state.last_ended = None;
    state.ready = false;
    state.waiting = Some(waiting.to_owned());
}

/// Whether one of the containers runs.
#[must_use]
pub fn runs(pod: &PodView) -> bool {
    pod.containers.iter().any(|each| each.status.as_ref().is_some_and(|state| state.running_since.is_some()))
}

/// Ready follows the containers and the gate.
pub fn settle(pod: &mut PodView, now: Timestamp) {
    let containers = pod.containers.iter().all(|each| each.status.as_ref().is_some_and(|state| state.ready));
    let gate = !pod.gated || pod.in_service().is_some_and(|is| is.is_true);
    set_condition(pod, "Initialized", true, now);
    for (name, is_true) in [("ContainersReady", containers), ("Ready", containers && gate)] {
        set_condition(pod, name, is_true, now);
        let Some(condition) = pod.conditions.get_mut(name) else { continue };
        let reason = match (is_true, containers) {
            (true, _) => "",
            (false, true) => GATES_NOT_READY,
            (false, false) => "ContainersNotReady",
        };
        reason.clone_into(&mut condition.reason);
    }
}

/// Sets a condition as of now, if it is another one.
pub fn set_condition(pod: &mut PodView, name: &str, is_true: bool, now: Timestamp) {
    if pod.conditions.get(name).is_none_or(|known| known.is_true != is_true) {
        let condition = ConditionView::new(is_true, "", "", Some(whole_seconds(now)));
        pod.conditions.insert(name, condition);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use hitless_api::names::IN_SERVICE;

    use super::*;
    use crate::objects::Pod;

    fn pod() -> PodView {
        Pod::new("shop", "web-0").gated().container("web", "web:v1").view()
    }

    #[test]
    fn a_pod_is_ready_when_its_container_and_its_gate_say_so() {
        let mut pod = pod();
        let mut is = |change: &mut dyn FnMut(&mut PodView)| {
            change(&mut pod);
            settle(&mut pod, Timestamp::UNIX_EPOCH);
            (pod.is("ContainersReady"), pod.is("Ready"))
        };
        let turn = |pod: &mut PodView, turn| turned(state(&mut pod.containers[0]), turn);
        assert_eq!(is(&mut |pod| turn(pod, Turn::Ready)), (false, false), "nothing runs");
        let start = |pod: &mut PodView| {
            started(state(&mut pod.containers[0]), "c".into(), "web:v1", String::new(), Timestamp::UNIX_EPOCH);
        };
        assert_eq!(is(&mut |pod| start(pod)), (false, false));
        assert_eq!(is(&mut |pod| turn(pod, Turn::Ready)), (true, false));
        let open = |pod: &mut PodView| set_condition(pod, IN_SERVICE, true, Timestamp::UNIX_EPOCH);
        assert_eq!(is(&mut |pod| open(pod)), (true, true));
        assert_eq!(is(&mut |pod| turn(pod, Turn::End)), (false, false));
    }

    #[test]
    fn an_image_says_what_happens_to_its_container() {
        assert_eq!(Image::Good(3).course(1), [(3, Turn::Ready)]);
        assert_eq!(Image::RunsFor(3).course(1), [(0, Turn::Ready), (3, Turn::End)]);
        assert_eq!(Image::<u8>::NeverReady.course(1), []);
    }
}

//! The kubelet: follows the spec and the gate, a little later.

use hitless_agent::instant::whole_seconds;
use hitless_agent::view::NodePod;
use hitless_api::pod::ConditionView;
use jiff::{SignedDuration, Timestamp};

use super::pod::FROM;

/// How the new image does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    /// Ready this many milliseconds after its start.
    Good(i64),
    /// Can't be pulled.
    Missing,
    /// Ends at once, again and again.
    Crashes,
    /// Runs, and never is ready.
    NeverReady,
    /// Ready at once, and not any more after this many milliseconds.
    ReadyFor(i64),
    /// Ready at once, ends after this many milliseconds, again and again.
    RunsFor(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// Ready follows gate and containers, and the spec is noted.
    Settle,
    /// The container of the spec's image is to run.
    Replace,
    BecomeReady,
    BecomeUnready,
    Crash,
}

pub(crate) struct Kubelet {
    new_image: Image,
    pub(crate) dead: bool,
    /// Milliseconds from an image patch until the old container has stopped.
    pub(crate) stopping: i64,
    pub(crate) running_image: String,
    containers: u32,
    events: Vec<(Timestamp, Event)>,
}

fn later(now: Timestamp, milliseconds: i64) -> Timestamp {
    now.checked_add(SignedDuration::from_millis(milliseconds)).unwrap()
}

impl Kubelet {
    pub(crate) fn new(new_image: Image) -> Self {
        Self { new_image, dead: false, stopping: 110, running_image: FROM.into(), containers: 0, events: vec![] }
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.events.iter().map(|(at, _)| *at).min()
    }

    /// The pod was written to.
    pub(crate) fn notice(&mut self, pod: &NodePod, now: Timestamp) {
        if self.dead {
            return;
        }
        self.events.push((later(now, 20), Event::Settle));
        if pod.view.containers[0].image != self.running_image {
            self.events.push((later(now, self.stopping), Event::Replace));
        }
    }

    /// The container that runs now is not ready for this many milliseconds.
    pub(crate) fn unready_for(&mut self, pod: &mut NodePod, milliseconds: i64, now: Timestamp) {
        self.happen(pod, Event::BecomeUnready, now);
        self.events.push((later(now, milliseconds), Event::BecomeReady));
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, pod: &mut NodePod, now: Timestamp) {
        self.events.sort_by_key(|(at, _)| *at);
        while let Some((at, event)) = self.events.first().copied().filter(|(at, _)| *at <= now) {
            self.events.remove(0);
            self.happen(pod, event, at);
        }
    }

    fn happen(&mut self, pod: &mut NodePod, event: Event, now: Timestamp) {
        match event {
            Event::Settle => pod.view.observed_generation = pod.view.generation,
            Event::Replace => self.replace(pod, now),
            Event::BecomeReady => {
                if let Some(status) = &mut pod.view.containers[0].status {
                    status.ready = status.running_since.is_some();
                }
            }
            Event::BecomeUnready => pod.view.containers[0].status.as_mut().unwrap().ready = false,
            Event::Crash => self.crash(pod),
        }
        settle(pod, now);
    }

    fn replace(&mut self, pod: &mut NodePod, now: Timestamp) {
        let view = &mut pod.view;
        let image = view.containers[0].image.clone();
        if image == self.running_image {
            return;
        }
        self.running_image.clone_from(&image);
        self.events.retain(|(_, event)| matches!(event, Event::Settle));
        let kind = if image == FROM { Image::Good(300) } else { self.new_image };
        let status = view.containers[0].status.as_mut().unwrap();
        status.ready = false;
        status.restarts += 1;
        if kind == Image::Missing {
            status.running_since = None;
            status.waiting = Some("ErrImagePull".into());
            return;
        }
        self.containers += 1;
        status.container_id = format!("containerd://{}", self.containers);
        status.running_since = Some(whole_seconds(now));
        status.waiting = None;
        match kind {
            Image::Good(milliseconds) => self.events.push((later(now, milliseconds), Event::BecomeReady)),
            Image::Crashes => self.events.push((later(now, 100), Event::Crash)),
            Image::ReadyFor(milliseconds) | Image::RunsFor(milliseconds) => {
                let is_crash = matches!(kind, Image::RunsFor(_));
                let end = if is_crash { Event::Crash } else { Event::BecomeUnready };
                self.events.push((now, Event::BecomeReady));
                self.events.push((later(now, milliseconds), end));
            }
            Image::Missing | Image::NeverReady => {}
        }
    }

    fn crash(&mut self, pod: &mut NodePod) {
        let status = pod.view.containers[0].status.as_mut().unwrap();
        status.running_since = None;
        status.ready = false;
        status.waiting = Some("CrashLoopBackOff".into());
        self.containers += 1;
        status.container_id = format!("containerd://{}", self.containers);
    }
}

fn settle(pod: &mut NodePod, now: Timestamp) {
    let containers_ready = pod.view.containers[0].status.as_ref().is_some_and(|status| status.ready);
    let gate = pod.view.in_service().is_some_and(|condition| condition.is_true);
    for (name, is_true) in [("ContainersReady", containers_ready), ("Ready", containers_ready && gate)] {
        if pod.view.is(name) != is_true {
            let condition = ConditionView {
                is_true,
                reason: String::new(),
                message: String::new(),
                since: Some(whole_seconds(now)),
            };
            pod.view.conditions.insert(name.to_owned(), condition);
        }
    }
}

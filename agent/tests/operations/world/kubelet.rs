//! The kubelet: follows the spec and the gate, a little later.

use hitless_agent::view::NodePod;
use hitless_world::kubelet::{self, Turn};
use jiff::{SignedDuration, Timestamp};

use super::pod::FROM;

/// How the new image does, in milliseconds.
pub(crate) type Image = kubelet::Image<i64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// Ready follows gate and containers, and the spec is noted.
    Settle,
    /// The container of the spec's image is to run.
    Replace,
    /// The container that runs does this by itself.
    Happen(Turn),
}

pub(crate) struct Kubelet {
    new_image: Image,
    pub(crate) dead: bool,
    /// What is left in the pod keeps the image before from starting, too.
    pub(crate) both_crash: bool,
    /// Milliseconds until it has seen a write to the pod, and Ready follows.
    pub(crate) late: i64,
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
        Self {
            new_image,
            dead: false,
            both_crash: false,
            late: 20,
            stopping: 110,
            running_image: FROM.into(),
            containers: 0,
            events: vec![],
        }
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.events.iter().map(|(at, _)| *at).min()
    }

    /// The pod was written to.
    pub(crate) fn notice(&mut self, pod: &NodePod, now: Timestamp) {
        if self.dead {
            return;
        }
        self.events.push((later(now, self.late), Event::Settle));
        if pod.view.containers[0].image != self.running_image {
            self.events.push((later(now, self.stopping), Event::Replace));
        }
    }

    /// The container that runs now is not ready for this many milliseconds.
    pub(crate) fn unready_for(&mut self, pod: &mut NodePod, milliseconds: i64, now: Timestamp) {
        self.act(pod, Event::Happen(Turn::Unready), now);
        self.events.push((later(now, milliseconds), Event::Happen(Turn::Ready)));
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, pod: &mut NodePod, now: Timestamp) {
        self.events.sort_by_key(|(at, _)| *at);
        while let Some((at, event)) = self.events.first().copied().filter(|(at, _)| *at <= now) {
            self.events.remove(0);
            self.act(pod, event, at);
        }
    }

    fn act(&mut self, pod: &mut NodePod, event: Event, now: Timestamp) {
        match event {
            Event::Settle => pod.view.observed_generation = pod.view.generation,
            Event::Replace => self.replace(pod, now),
            Event::Happen(turn) => {
                let state = kubelet::state(&mut pod.view.containers[0]);
                kubelet::turned(state, turn);
                if turn == Turn::End {
                    // The next one has ended, too.
                    state.container_id = self.next_container();
                }
            }
        }
        kubelet::settle(&mut pod.view, now);
    }

    fn next_container(&mut self) -> String {
        self.containers += 1;
        format!("containerd://{}", self.containers)
    }

    fn replace(&mut self, pod: &mut NodePod, now: Timestamp) {
        let container = &mut pod.view.containers[0];
        let image = container.image.clone();
        if image == self.running_image {
            return;
        }
        self.running_image.clone_from(&image);
        self.events.retain(|(_, event)| matches!(event, Event::Settle));
        let kind = if image == FROM && !self.both_crash { Image::Good(300) } else { self.new_image };
        let state = kubelet::state(container);
        if kind == Image::Missing {
            return kubelet::not_pulled(state);
        }
        let digest = format!("web@sha256:{:02}", i32::from(image != FROM));
        kubelet::started(state, self.next_container(), &image, digest, now);
        let course = kind.course(100).into_iter();
        self.events.extend(course.map(|(after, turn)| (later(now, after), Event::Happen(turn))));
    }
}

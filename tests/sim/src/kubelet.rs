//! The kubelet of one node: follows spec, gate and containers, a little later.

use std::collections::BTreeMap;

use hitless_agent::instant::whole_seconds;
use hitless_agent::view::NodePod;
use hitless_api::pod::{ConditionView, ContainerState};
use jiff::Timestamp;

use crate::checks::image_number;
use crate::clock::{MS, Micros, NEVER, SECOND};
use crate::ground::Ground;
use crate::trace::Who;

/// How an image does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    /// Ready so long after its start.
    Good(Micros),
    /// Can't be pulled.
    Missing,
    /// Ends right after its start, again and again.
    Crashes,
    /// Runs, and is never ready.
    NeverReady,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Takes note of the pod as it is.
    Sync,
    /// The container of the spec's image is to run.
    Start,
    /// The container with this number becomes ready.
    Ready(u32),
    /// The container with this number ends.
    End(u32),
    /// The pod's containers have stopped; the object goes.
    Remove,
}

#[derive(Default)]
struct Run {
    /// Image of the container that runs, or that was tried last.
    image: String,
    /// Number of the last container.
    container: u32,
    todo: Vec<(Micros, Act)>,
    removing: bool,
}

/// One kubelet.
pub(crate) struct Kubelet {
    pub(crate) index: usize,
    pub(crate) skew: Micros,
    /// The node is down.
    pub(crate) dead: bool,
    runs: BTreeMap<String, Run>,
}

impl Kubelet {
    pub(crate) fn new(index: usize) -> Self {
        Self { index, skew: 0, dead: false, runs: BTreeMap::new() }
    }

    pub(crate) fn wake(&self) -> Micros {
        if self.dead {
            return NEVER;
        }
        self.runs.values().flat_map(|run| &run.todo).map(|(at, _)| *at).min().unwrap_or(NEVER)
    }

    /// A pod of the node that has been running for a while.
    pub(crate) fn adopt(&mut self, uid: &str, image: &str) {
        self.runs.insert(uid.to_owned(), Run { image: image.to_owned(), container: 1, ..Run::default() });
    }

    /// A pod of the node was written to.
    pub(crate) fn notice(&mut self, uid: &str, ground: &mut Ground) {
        if !self.runs.contains_key(uid) {
            self.runs.insert(uid.to_owned(), Run::default());
        }
        // Mostly at once; a kubelet that has much to do is slow.
        let longest = if ground.chance.happens(ground.weather.slow_kubelet) { 5 * SECOND } else { 400 * MS };
        let at = ground.now + ground.chance.delay(10 * MS, longest);
        if let Some(run) = self.runs.get_mut(uid)
            && !run.todo.iter().any(|(_, act)| *act == Act::Sync)
        {
            run.todo.push((at, Act::Sync));
        }
    }

    /// A container ends by itself.
    pub(crate) fn crash(&mut self, uid: &str, now: Micros) -> bool {
        let Some(run) = self.runs.get_mut(uid).filter(|_| !self.dead) else { return false };
        run.todo.push((now, Act::End(run.container)));
        true
    }

    /// The node runs again: its containers are gone, and start anew.
    pub(crate) fn reboot(&mut self, ground: &mut Ground) {
        self.dead = false;
        let uids: Vec<String> = self.runs.keys().cloned().collect();
        for uid in uids {
            if let Some(run) = self.runs.get_mut(&uid) {
                run.todo = vec![(ground.now + 300 * MS, Act::End(run.container))];
                run.removing = false;
            }
            self.notice(&uid, ground);
        }
    }

    pub(crate) fn step(&mut self, ground: &mut Ground) {
        if ground.server.is_away() {
            let back = ground.server.away_until + 5 * MS;
            let late = self.runs.values_mut().flat_map(|run| &mut run.todo);
            late.filter(|(at, _)| *at < back).for_each(|(at, _)| *at = back);
            return;
        }
        let uids: Vec<String> = self
            .runs
            .iter()
            .filter(|(_, run)| run.todo.iter().any(|(at, _)| *at <= ground.now))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in uids {
            while let Some(act) = self.take_due(&uid, ground.now) {
                self.act(&uid, act, ground);
            }
        }
    }

    fn take_due(&mut self, uid: &str, now: Micros) -> Option<Act> {
        let todo = &mut self.runs.get_mut(uid)?.todo;
        let due = todo.iter().enumerate().filter(|(_, (at, _))| *at <= now).min_by_key(|(_, (at, _))| *at)?.0;
        Some(todo.remove(due).1)
    }

    fn act(&mut self, uid: &str, act: Act, ground: &mut Ground) {
        let now = ground.now;
        let Some(pod) = ground.server.pods.get(uid).map(|pod| pod.node_pod.clone()) else {
            self.runs.remove(uid);
            return;
        };
        let Some(run) = self.runs.get_mut(uid) else { return };
        let wanted = pod.view.containers.first().map(|container| container.image.clone()).unwrap_or_default();
        let wall = ground.wall(self.skew);
        match act {
            Act::Remove => {
                self.runs.remove(uid);
                ground.say(Who::Kubelet(self.index), || format!("{}: gone", pod.view.id.name));
                let Ground { server, checks, .. } = ground;
                server.remove_pod(checks, uid);
            }
            Act::Sync => {
                if pod.view.terminating && !run.removing {
                    run.removing = true;
                    run.todo = vec![(now + ground.chance.delay(50 * MS, 3 * SECOND), Act::Remove)];
                }
                if !run.removing && run.image != wanted {
                    // The old container stops first.
                    let starts = now + ground.chance.delay(40 * MS, 500 * MS);
                    run.todo.retain(|(_, act)| !matches!(act, Act::Ready(_) | Act::End(_) | Act::Start));
                    run.todo.push((starts, Act::Start));
                }
                change(ground, uid, |pod| {
                    pod.view.observed_generation = pod.view.generation;
                    settle(pod, wall);
                });
            }
            Act::Start => {
                let is_new = run.image != wanted;
                run.image.clone_from(&wanted);
                let kind = ground.images.get(image_number(&wanted).unwrap_or_default()).copied();
                let kind = kind.unwrap_or(Image::Good(300 * MS));
                ground.say(Who::Kubelet(self.index), || format!("{}: starts {wanted} ({kind:?})", pod.view.id.name));
                if kind == Image::Missing {
                    return change(ground, uid, |pod| {
                        status(pod, |status| {
                            status.running_since = None;
                            status.ready = false;
                            status.waiting = Some("ErrImagePull".to_owned());
                        });
                        settle(pod, wall);
                    });
                }
                // A kubelet pulls what is not there.
                ground.server.images.pulled(now, pod.view.node.as_deref().unwrap_or_default(), &wanted);
                run.container += 1;
                let container = run.container;
                match kind {
                    Image::Good(after) => run.todo.push((now + after, Act::Ready(container))),
                    Image::Crashes => run.todo.push((now + 100 * MS, Act::End(container))),
                    Image::Missing | Image::NeverReady => {}
                }
                let (repository, number) = (repository(&wanted), image_number(&wanted).unwrap_or_default().to_owned());
                change(ground, uid, |pod| {
                    status(pod, |status| {
                        status.container_id = format!("containerd://{container}-{}", u8::from(is_new));
                        status.image.clone_from(&wanted);
                        status.image_id = format!("{repository}@sha256:{number}");
                        status.running_since = Some(whole_seconds(wall));
                        status.ready = false;
                        status.waiting = None;
                        status.restarts += 1;
                    });
                    settle(pod, wall);
                });
            }
            Act::Ready(container) => {
                if container == run.container {
                    change(ground, uid, |pod| {
                        status(pod, |status| status.ready = status.running_since.is_some());
                        settle(pod, wall);
                    });
                }
            }
            Act::End(container) => {
                if container != run.container || run.removing {
                    return;
                }
                run.todo.retain(|(_, act)| !matches!(act, Act::Ready(_)));
                // The back-off of a container that crashes again and again is long; after a single crash it is short.
                let again = ground.chance.delay(300 * MS, 10 * SECOND);
                let crashes = ground.images.get(image_number(&run.image).unwrap_or_default()) == Some(&Image::Crashes);
                if !crashes && !run.todo.iter().any(|(_, act)| *act == Act::Start) {
                    run.todo.push((now + again, Act::Start));
                }
                ground.say(Who::Kubelet(self.index), || format!("{}: the container ended", pod.view.id.name));
                change(ground, uid, |pod| {
                    status(pod, |status| {
                        status.running_since = None;
                        status.ready = false;
                        status.waiting = Some("CrashLoopBackOff".to_owned());
                    });
                    settle(pod, wall);
                });
            }
        }
    }
}

fn change(ground: &mut Ground, uid: &str, change: impl FnOnce(&mut NodePod)) {
    let Ground { server, checks, .. } = ground;
    server.change_pod(checks, uid, change);
}

fn status(pod: &mut NodePod, change: impl FnOnce(&mut ContainerState)) {
    let Some(container) = pod.view.containers.first_mut() else { return };
    let empty = || ContainerState {
        container_id: String::new(),
        image: String::new(),
        image_id: String::new(),
        ready: false,
        running_since: None,
        waiting: None,
        trouble: None,
        restarts: 0,
    };
    change(container.status.get_or_insert_with(empty));
}

/// Ready follows the containers and the gate.
fn settle(pod: &mut NodePod, wall: Timestamp) {
    let containers = pod.view.containers.iter().all(|each| each.status.as_ref().is_some_and(|status| status.ready));
    let gate = !pod.view.gated || pod.view.in_service().is_some_and(|is| is.is_true);
    for (name, is_true) in [("ContainersReady", containers), ("Ready", containers && gate)] {
        set_condition(pod, name, is_true, wall);
    }
}

/// Sets a condition as of now, if it is another one.
pub(crate) fn set_condition(pod: &mut NodePod, name: &str, is_true: bool, wall: Timestamp) {
    if pod.view.conditions.get(name).is_none_or(|known| known.is_true != is_true) {
        let (reason, message) = (String::new(), String::new());
        let condition = ConditionView { is_true, reason, message, since: Some(whole_seconds(wall)) };
        pod.view.conditions.insert(name.to_owned(), condition);
    }
}

fn repository(image: &str) -> String {
    image.split([':', '@']).next().unwrap_or_default().to_owned()
}

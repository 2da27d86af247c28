//! The kubelet of one node: follows spec, gate and containers, a little later.

use std::collections::BTreeMap;

use hitless_agent::view::NodePod;
use hitless_api::pod::ContainerState;
use hitless_world::kubelet::{self, Turn};

use crate::checks::image_number;
use crate::clock::{MS, Micros, NEVER, SECOND};
use crate::ground::Ground;
use crate::trace::Who;

/// How an image does.
pub(crate) type Image = kubelet::Image<Micros>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Takes note of the pod as it is.
    Sync,
    /// The container of the spec's image is to run.
    Start,
    /// Its readiness probe asks what may be away.
    Probe,
    /// This happens to the container with this number.
    Happen(Turn, u32),
    /// The pod's containers have stopped; the object goes.
    Remove,
}

/// A container that crashes lasts for so long.
const CRASH: Micros = 100 * MS;

#[derive(Default)]
struct Run {
    /// Image of the container that runs, or that was tried last.
    image: String,
    /// Number of the last container.
    container: u32,
    /// Its readiness probe would pass if what that asks were there.
    ready: bool,
    todo: Vec<(Micros, Act)>,
    removing: bool,
    /// So many containers of this image were started.
    attempts: u32,
    /// It stops slowly, until then.
    stops_at: Option<Micros>,
}

/// After so many attempts the back-off is so long that nothing of interest comes any more.
const ATTEMPTS: u32 = 4;

impl Run {
    /// The container stops, at once or slowly, and the next one starts then.
    fn stop(&mut self, quick: Micros, pod: &NodePod, ground: &mut Ground) {
        let now = ground.now;
        if self.container > 0
            && self.stops_at.is_none()
            && let Some(slow) = stop(pod, ground)
        {
            self.stops_at = Some(now + slow);
        }
        if let Some((at, servers)) = self.stops_at.filter(|at| *at > now).zip(ground.servers.as_mut()) {
            let deaf = Act::Happen(Turn::Unready, self.container);
            self.todo.push((now + servers.deaf_after(at - now), deaf));
        }
        self.todo.push((self.stops_at.map_or(quick, |at| at.max(now)), Act::Start));
    }
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
        self.runs.insert(uid.to_owned(), Run { image: image.to_owned(), container: 1, ready: true, ..Run::default() });
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
        run.todo.push((now, Act::Happen(Turn::End, run.container)));
        true
    }

    /// What readiness probes ask has gone or come back.
    pub(crate) fn probe(&mut self, now: Micros) {
        self.runs.values_mut().for_each(|run| run.todo.push((now, Act::Probe)));
    }

    /// The node runs again: its containers are gone, and start anew.
    pub(crate) fn reboot(&mut self, ground: &mut Ground) {
        self.dead = false;
        let uids: Vec<String> = self.runs.keys().cloned().collect();
        for uid in uids {
            if let Some(run) = self.runs.get_mut(&uid) {
                run.todo = vec![(ground.now + 300 * MS, Act::Happen(Turn::End, run.container))];
                (run.removing, run.stops_at) = (false, None);
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
        let is_away = ground.away.contains(&(pod.view.id.namespace.clone(), repository(&wanted)));
        match act {
            Act::Probe => {
                let ready = run.ready && !is_away;
                let status = pod.view.containers.first().and_then(|container| container.status.as_ref());
                if status.is_some_and(|status| status.running_since.is_some() && status.ready != ready) {
                    change(ground, uid, |pod| {
                        state(pod, |state| state.ready = ready);
                        kubelet::settle(&mut pod.view, wall);
                    });
                }
            }
            Act::Remove => {
                self.runs.remove(uid);
                ground.say(Who::Kubelet(self.index), || format!("{}: gone", pod.view.id.name));
                let Ground { server, checks, .. } = ground;
                server.remove_pod(checks, uid);
            }
            Act::Sync => {
                if pod.view.terminating && !run.removing {
                    run.removing = true;
                    let (quick, slow) = (ground.chance.delay(50 * MS, 3 * SECOND), stop(&pod, ground));
                    run.todo = vec![(slow.map_or(now + quick, |slow| now + slow), Act::Remove)];
                }
                if !run.removing && run.image != wanted {
                    // The old container stops first.
                    let quick = now + ground.chance.delay(40 * MS, 500 * MS);
                    run.todo.retain(|(_, act)| !matches!(act, Act::Happen(..) | Act::Start));
                    run.stop(quick, &pod, ground);
                }
                change(ground, uid, |pod| {
                    pod.view.observed_generation = pod.view.generation;
                    kubelet::settle(&mut pod.view, wall);
                });
            }
            Act::Start => {
                let is_new = run.image != wanted;
                run.attempts = if is_new { 1 } else { run.attempts + 1 };
                run.stops_at = None;
                run.image.clone_from(&wanted);
                run.ready = false;
                let kind = ground.images.get(image_number(&wanted).unwrap_or_default()).copied();
                let kind = kind.unwrap_or(Image::Good(300 * MS));
                ground.say(Who::Kubelet(self.index), || format!("{}: starts {wanted} ({kind:?})", pod.view.id.name));
                if kind == Image::Missing {
                    return change(ground, uid, |pod| {
                        state(pod, kubelet::not_pulled);
                        kubelet::settle(&mut pod.view, wall);
                    });
                }
                // A kubelet pulls what is not there.
                ground.server.images.pulled(now, pod.view.node.as_deref().unwrap_or_default(), &wanted);
                run.container += 1;
                let container = run.container;
                let course = course(kind, run.attempts, &pod, &wanted, ground).into_iter();
                run.todo.extend(course.map(|(after, turn)| (now + after, Act::Happen(turn, container))));
                let (repository, number) = (repository(&wanted), image_number(&wanted).unwrap_or_default());
                let id = format!("containerd://{container}-{}", u8::from(is_new));
                let digest = format!("{repository}@sha256:{number}");
                change(ground, uid, |pod| {
                    state(pod, |state| kubelet::started(state, id, &wanted, digest, wall));
                    kubelet::settle(&mut pod.view, wall);
                });
            }
            Act::Happen(turn, container) => {
                if container != run.container || turn == Turn::End && run.removing {
                    return;
                }
                if turn == Turn::End {
                    run.todo.retain(|(_, act)| !matches!(act, Act::Happen(Turn::Ready | Turn::Unready, _)));
                    // The back-off of a container that crashes again and again is long; after a single crash it is short.
                    let again = ground.chance.delay(300 * MS, 10 * SECOND);
                    let crashes = is_given_up(run, &pod, ground);
                    if !crashes && !run.todo.iter().any(|(_, act)| *act == Act::Start) {
                        run.todo.push((now + again, Act::Start));
                    }
                    ground.say(Who::Kubelet(self.index), || format!("{}: the container ended", pod.view.id.name));
                }
                run.ready = turn == Turn::Ready;
                // It is started again at once.
                let crashes = ground.servers.as_ref().map_or(0, |servers| servers.crashes(number_of(&run.image)));
                let is_first = crashes > 0 && run.attempts == 1;
                change(ground, uid, |pod| {
                    state(pod, |state| {
                        kubelet::turned(state, turn);
                        if is_first {
                            state.waiting = None;
                        }
                        state.ready &= !is_away;
                    });
                    kubelet::settle(&mut pod.view, wall);
                });
            }
        }
    }
}

fn change(ground: &mut Ground, uid: &str, change: impl FnOnce(&mut NodePod)) {
    let Ground { server, checks, .. } = ground;
    server.change_pod(checks, uid, change);
}

fn state(pod: &mut NodePod, change: impl FnOnce(&mut ContainerState)) {
    if let Some(container) = pod.view.containers.first_mut() {
        change(kubelet::state(container));
    }
}

fn repository(image: &str) -> String {
    image.split([':', '@']).next().unwrap_or_default().to_owned()
}

/// Whether the container is not started again in any time that matters.
fn is_given_up(run: &Run, pod: &NodePod, ground: &Ground) -> bool {
    let kind = ground.images.get(number_of(&run.image)).copied().unwrap_or(Image::NeverReady);
    let mut course = course(kind, run.attempts, pod, &run.image, ground).into_iter();
    let is_hopeless = run.attempts >= ATTEMPTS && course.any(|(_, turn)| turn == Turn::End);
    kind == Image::Crashes || ground.servers.is_some() && is_hopeless
}

fn number_of(image: &str) -> &str {
    image_number(image).unwrap_or_default()
}

/// How long the pod's container takes to end, if not at once.
fn stop(pod: &NodePod, ground: &mut Ground) -> Option<Micros> {
    let (slow, fault) = ground.servers.as_mut()?.stop(pod.view.grace_seconds)?;
    ground.fault(fault);
    Some(slow)
}

/// What happens to a container of this image at this attempt to start one.
fn course(kind: Image, attempt: u32, pod: &NodePod, image: &str, ground: &Ground) -> Vec<(Micros, Turn)> {
    let Some(servers) = &ground.servers else { return kind.course(CRASH) };
    let Image::Good(after) = kind else { return kind.course(CRASH) };
    if attempt <= servers.crashes(number_of(image)) {
        return vec![(CRASH, Turn::End)];
    }
    match servers.probe((&pod.view.id.namespace, &repository(image))) {
        Some(probe) if probe < after => vec![(probe, Turn::End)],
        Some(_) | None => kind.course(CRASH),
    }
}

//! What the agent's loop and the threads that hold connections share: the pods, what is wanted for each, and how each stands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hitless_api::DrainSpec;
use tokio::sync::Notify;

use crate::decision::{Direction, Hold};
use crate::view::{Held, Observation, PreStop};

/// What to do about a pod's new connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// How far to go.
    pub hold: Hold,
    /// containerID of each container that is replaced, as the pod's status has it.
    pub containers: Vec<String>,
    /// Nothing is to be held: tell only whether the containers serve somebody.
    pub unless_serving: bool,
    /// The pod has left service, and nobody should come any more: who does is held, and nothing is told. What is decided about the pod
    /// rests on its counts.
    pub has_left: bool,
    /// Somebody is certain to listen in the pod: if nobody is seen to, nobody can be held.
    pub must_listen: bool,
    /// A port where the pod serves by SCTP: nobody can be held.
    pub sctp: Option<u16>,
    /// Treatment of the ports, the cap, and what becomes of stragglers.
    pub drain: DrainSpec,
    /// How long requests are waited for that take longer than clients can be held, with nobody held.
    pub patience: Duration,
    /// The old process serves on for a while when the kubelet stops it.
    pub pre_stop: Option<PreStop>,
    /// How long after SIGTERM the kubelet kills a process that has not ended.
    pub grace: Duration,
}

/// All pods in a Hold.
#[derive(Debug)]
pub(super) struct Jobs {
    proc_root: PathBuf,
    state: Mutex<State>,
    /// Notified when a target has changed.
    changed: Condvar,
    /// Notified of news for the agent's loop.
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// By pod uid. A job is there as long as its thread.
    jobs: BTreeMap<String, Job>,
    stop: bool,
}

#[derive(Debug, Default)]
struct Job {
    /// None when the operation has ended.
    target: Option<Target>,
    observation: Observation,
    /// Counts operations: what a thread says of an earlier one is not noted.
    number: u64,
}

impl Jobs {
    pub(super) fn new(proc_root: PathBuf, wake: Arc<Notify>) -> Self {
        Self { proc_root, state: Mutex::default(), changed: Condvar::new(), wake }
    }

    /// Replaces the targets. For a pod that has no thread yet `start` is called, and it gets its job if that succeeds.
    pub(super) fn set_targets(&self, targets: BTreeMap<String, Target>, mut start: impl FnMut(&str) -> bool) {
        let mut state = self.state();
        let ended = state.jobs.iter_mut().filter(|(uid, job)| job.target.is_some() && !targets.contains_key(*uid));
        let mut is_news = false;
        for (_, job) in ended {
            job.end();
            is_news = true;
        }
        for (uid, target) in targets {
            match state.jobs.get_mut(&uid) {
                Some(job) => is_news |= job.follow(target),
                // The thread asks for its job, and so waits until this is done.
                None if start(&uid) => _ = state.jobs.insert(uid, Job { target: Some(target), ..Job::default() }),
                None => {}
            }
        }
        if is_news {
            self.changed.notify_all();
        }
    }

    /// The next operation of the pod; `None` when there is none, and then its job is gone: its thread ends.
    pub(super) fn next<'a>(&'a self, uid: &'a str) -> Option<JobHandle<'a>> {
        let mut state = self.state();
        let job = state.jobs.get(uid).filter(|_| !state.stop);
        let next = job.and_then(|job| Some((job.number, direction(job.target.as_ref()?.hold))));
        let Some((number, direction)) = next else {
            state.jobs.remove(uid);
            return None;
        };
        Some(JobHandle { jobs: self, uid, number, direction })
    }

    /// How one Hold stands.
    pub(super) fn observation(&self, uid: &str) -> Option<Observation> {
        let state = self.state();
        state.jobs.get(uid).map(|job| job.observation.clone()).filter(|told| *told != Observation::None)
    }

    /// How each Hold stands.
    pub(super) fn observations(&self) -> BTreeMap<String, Observation> {
        let state = self.state();
        let told = state.jobs.iter().filter(|(_, job)| job.observation != Observation::None);
        told.map(|(uid, job)| (uid.clone(), job.observation.clone())).collect()
    }

    /// Every operation is over, and no other begins.
    pub(super) fn stop(&self) {
        self.state().stop = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is a single map operation, so a panic elsewhere can't have left it broken.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    fn end(&mut self) {
        self.target = None;
        self.observation = Observation::None;
    }

    /// Says whether that is something else than before.
    fn follow(&mut self, target: Target) -> bool {
        let is_news = self.target.as_ref() != Some(&target);
        self.number += u64::from(self.target.is_none());
        self.target = Some(target);
        is_news
    }
}

/// One operation of one pod, for the thread that carries out its Hold: here it learns what is wanted, and says how it stands.
pub(super) struct JobHandle<'a> {
    jobs: &'a Jobs,
    pub(super) uid: &'a str,
    number: u64,
    pub(super) direction: Direction,
}

impl JobHandle<'_> {
    pub(super) fn proc_root(&self) -> &Path {
        &self.jobs.proc_root
    }

    /// What to do now; `None` when this operation is over.
    pub(super) fn target(&self) -> Option<Target> {
        self.target_in(&self.jobs.state()).cloned()
    }

    fn target_in<'a>(&self, state: &'a State) -> Option<&'a Target> {
        let job = state.jobs.get(self.uid).filter(|job| job.number == self.number && !state.stop)?;
        job.target.as_ref().filter(|target| direction(target.hold) == self.direction)
    }

    /// Until any target changes, or `at_most` so long.
    pub(super) fn wait(&self, at_most: Duration) {
        let state = self.jobs.state();
        if self.target_in(&state).is_some() {
            drop(self.jobs.changed.wait_timeout(state, at_most).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Until the target is `wanted`, the time is over, or the operation is. The target then.
    pub(super) fn wait_for(&self, at_most: Duration, wanted: impl Fn(Hold) -> bool) -> Option<Target> {
        let deadline = Instant::now() + at_most;
        let mut state = self.jobs.state();
        loop {
            let target = self.target_in(&state)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if wanted(target.hold) || left.is_zero() {
                return Some(target.clone());
            }
            state = self.jobs.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Says how it stands, if that is news.
    pub(super) fn report(&self, held: Held) {
        let mut state = self.jobs.state();
        if self.target_in(&state).is_none_or(|target| target.has_left) {
            return;
        }
        let Some(job) = state.jobs.get_mut(self.uid) else { return };
        let observation = Observation::Held(held);
        if job.observation != observation {
            job.observation = observation;
            drop(state);
            self.jobs.wake.notify_one();
        }
    }
}

fn direction(hold: Hold) -> Direction {
    match hold {
        Hold::Prepare(direction) | Hold::Begin(direction) | Hold::Continue(direction) => direction,
        Hold::No => Direction::Forward,
    }
}

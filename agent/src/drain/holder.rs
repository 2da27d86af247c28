//! Who holds new connections: a thread for each pod in a Hold, so that none waits for another's.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hitless_api::DrainSpec;
use tokio::sync::Notify;

use super::held;
use crate::decision::Direction;
use crate::decision::Hold;
use crate::view::{Held, Observation};

/// What such a thread needs at most; it keeps nothing big on its stack.
const STACK_BYTES: usize = 256 * 1024;

/// What to do about a pod's new connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// How far to go.
    pub hold: Hold,
    /// containerID of each container that is operated, as the pod's status has it.
    pub containers: Vec<String>,
    /// Treatment of the ports, the cap, and what becomes of stragglers.
    pub drain: DrainSpec,
    /// How long after SIGTERM the kubelet kills a process that has not ended.
    pub grace: Duration,
}

/// Holds new connections of the pods that it is told of. Dropping it lets all of them in.
#[derive(Debug)]
pub struct Holder {
    desk: Arc<Desk>,
}

#[derive(Debug)]
struct Desk {
    proc_root: PathBuf,
    notes: Mutex<Notes>,
    ordered: Condvar,
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Notes {
    /// By pod uid. A job is there as long as its thread.
    jobs: BTreeMap<String, Job>,
    /// Of all threads that have not been seen to have ended.
    threads: Vec<JoinHandle<()>>,
    stop: bool,
}

#[derive(Debug, Default)]
struct Job {
    /// None when the operation has ended.
    order: Option<Order>,
    observation: Observation,
    /// Counts operations: what a thread says of an earlier one is not noted.
    number: u64,
}

impl Holder {
    /// Nothing is held yet. `proc_root` is the `/proc` of the node's process namespace; `wake` is notified of news.
    #[must_use]
    pub fn new(proc_root: PathBuf, wake: Arc<Notify>) -> Self {
        Self { desk: Arc::new(Desk { proc_root, notes: Mutex::default(), ordered: Condvar::new(), wake }) }
    }

    /// Does as told, and lets clients of all other pods in.
    pub fn order(&self, orders: BTreeMap<String, Order>) {
        let mut notes = self.desk.notes();
        notes.threads.retain(|thread| !thread.is_finished());
        let ended = notes.jobs.iter_mut().filter(|(uid, job)| job.order.is_some() && !orders.contains_key(*uid));
        let mut is_news = false;
        for (_, job) in ended {
            job.end();
            is_news = true;
        }
        for (uid, order) in orders {
            match notes.jobs.get_mut(&uid) {
                Some(job) => is_news |= job.follow(order),
                None => match self.desk.start(&uid) {
                    Ok(thread) => {
                        notes.threads.push(thread);
                        notes.jobs.insert(uid, Job { order: Some(order), ..Job::default() });
                    }
                    Err(error) => tracing::error!(pod_uid = uid, %error, "can't start a thread to hold connections"),
                },
            }
        }
        if is_news {
            self.desk.ordered.notify_all();
        }
    }

    /// How one Hold stands.
    #[must_use]
    pub fn observation(&self, pod_uid: &str) -> Option<Observation> {
        let notes = self.desk.notes();
        notes.jobs.get(pod_uid).map(|job| job.observation.clone()).filter(|told| *told != Observation::None)
    }

    /// How each Hold stands.
    #[must_use]
    pub fn observations(&self) -> BTreeMap<String, Observation> {
        let notes = self.desk.notes();
        let told = notes.jobs.iter().filter(|(_, job)| job.observation != Observation::None);
        told.map(|(uid, job)| (uid.clone(), job.observation.clone())).collect()
    }
}

impl Job {
    fn end(&mut self) {
        self.order = None;
        self.observation = Observation::None;
    }

    /// Says whether that is something else than before.
    fn follow(&mut self, order: Order) -> bool {
        let is_news = self.order.as_ref() != Some(&order);
        self.number += u64::from(self.order.is_none());
        self.order = Some(order);
        is_news
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let threads = {
            let mut notes = self.desk.notes();
            notes.stop = true;
            std::mem::take(&mut notes.threads)
        };
        self.desk.ordered.notify_all();
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!(
                    "a thread that held new connections has panicked; they are let in by the kernel's timer"
                );
            }
        }
    }
}

impl Desk {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        // Every change is a single map operation, so a panic elsewhere can't have left it broken.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>, uid: &str) -> io::Result<JoinHandle<()>> {
        let (desk, uid) = (self.clone(), uid.to_owned());
        std::thread::Builder::new().name("hold".into()).stack_size(STACK_BYTES).spawn(move || desk.work(&uid))
    }

    /// One operation after another, until none is left.
    fn work(&self, uid: &str) {
        let mut known = held::Known::default();
        loop {
            let (number, hold) = {
                let mut notes = self.notes();
                let job = notes.jobs.get(uid).filter(|_| !notes.stop);
                let Some(next) = job.and_then(|job| Some((job.number, job.order.as_ref()?.hold))) else {
                    notes.jobs.remove(uid);
                    return;
                };
                next
            };
            let seat = Seat { desk: self, uid, number, direction: direction(hold) };
            held::run(&seat, &mut known);
        }
    }
}

/// Where a thread is told what to do about one operation, and says how it stands.
pub(super) struct Seat<'a> {
    desk: &'a Desk,
    pub(super) uid: &'a str,
    number: u64,
    pub(super) direction: Direction,
}

impl Seat<'_> {
    pub(super) fn proc_root(&self) -> &std::path::Path {
        &self.desk.proc_root
    }

    /// What to do now; `None` when this operation is over.
    pub(super) fn order(&self) -> Option<Order> {
        self.order_in(&self.desk.notes()).cloned()
    }

    fn order_in<'a>(&self, notes: &'a Notes) -> Option<&'a Order> {
        let job = notes.jobs.get(self.uid).filter(|job| job.number == self.number && !notes.stop)?;
        job.order.as_ref().filter(|order| direction(order.hold) == self.direction)
    }

    /// Until somebody orders something, or `at_most` so long.
    pub(super) fn wait(&self, at_most: Duration) {
        let notes = self.desk.notes();
        if self.order_in(&notes).is_some() {
            drop(self.desk.ordered.wait_timeout(notes, at_most).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Until `wanted` is ordered, the time is over, or the operation is. What is ordered then.
    pub(super) fn wait_for(&self, at_most: Duration, wanted: impl Fn(Hold) -> bool) -> Option<Order> {
        let deadline = Instant::now() + at_most;
        let mut notes = self.desk.notes();
        loop {
            let order = self.order_in(&notes)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if wanted(order.hold) || left.is_zero() {
                return Some(order.clone());
            }
            notes = self.desk.ordered.wait_timeout(notes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Says how it stands, if that is news.
    pub(super) fn note(&self, held: Held) {
        let mut notes = self.desk.notes();
        if self.order_in(&notes).is_none() {
            return;
        }
        let Some(job) = notes.jobs.get_mut(self.uid) else { return };
        let observation = Observation::Held(held);
        if job.observation != observation {
            job.observation = observation;
            drop(notes);
            self.desk.wake.notify_one();
        }
    }
}

fn direction(hold: Hold) -> Direction {
    match hold {
        Hold::Prepare(direction) | Hold::Park(direction) | Hold::Keep(direction) => direction,
        Hold::No => Direction::Forward,
    }
}

//! The thread that looks.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::Notify;

use super::bell::Bell;
use super::observed::{Observed, Order};
use crate::view::Observation;

/// Looks at the pods that it is told to look at; asleep while there are none. Dropping it ends the thread.
#[derive(Debug)]
pub struct Observer {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Desk {
    notes: Mutex<Notes>,
    /// Rung when the orders have changed.
    ordered: Bell,
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Notes {
    /// Orders by pod uid.
    orders: BTreeMap<String, Order>,
    /// Answers by pod uid.
    observations: BTreeMap<String, Observation>,
    stop: bool,
}

impl Observer {
    /// Starts the thread. `proc_root` is the `/proc` of the node's process namespace; `wake` is notified when something that
    /// was observed has changed.
    pub fn start(proc_root: PathBuf, wake: Arc<Notify>) -> io::Result<Self> {
        let desk = Arc::new(Desk { notes: Mutex::default(), ordered: Bell::new()?, wake });
        let seat = desk.clone();
        let thread = std::thread::Builder::new().name("drain".into()).spawn(move || seat.work(&proc_root))?;
        Ok(Self { desk, thread: Some(thread) })
    }

    /// Looks at these pods, and at no others, from now on.
    pub fn order(&self, orders: BTreeMap<String, Order>) {
        let mut notes = self.desk.notes();
        if notes.orders != orders {
            notes.observations.retain(|uid, _| orders.contains_key(uid));
            notes.orders = orders;
            self.desk.ordered.ring();
        }
    }

    /// What was seen last of one pod.
    #[must_use]
    pub fn observation(&self, pod_uid: &str) -> Option<Observation> {
        self.desk.notes().observations.get(pod_uid).cloned()
    }

    /// What was seen last of each pod.
    #[must_use]
    pub fn observations(&self) -> BTreeMap<String, Observation> {
        self.desk.notes().observations.clone()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.desk.notes().stop = true;
        self.desk.ordered.ring();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the drain thread has panicked");
        }
    }
}

impl Desk {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        // Every change is a single map operation, so a panic elsewhere can't have left it broken.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, proc_root: &std::path::Path) {
        let mut pods: BTreeMap<String, Observed> = BTreeMap::new();
        // Of the node's own namespace; opened when it is needed.
        let mut node = None;
        loop {
            let notes = self.notes();
            if notes.stop {
                return;
            }
            take_orders(&mut pods, &notes.orders, Instant::now());
            drop(notes);
            self.wait(&mut pods);
            for (uid, pod) in &mut pods {
                let now = Instant::now();
                if pod.next <= now {
                    let observation = pod.look(proc_root, &mut node, now);
                    self.note(uid, observation);
                }
            }
        }
    }

    /// Until something is due or ordered, or a connection has ended somewhere.
    fn wait(&self, pods: &mut BTreeMap<String, Observed>) {
        self.ordered.wait(pods.values().filter_map(Observed::destroy_events), pods.values().map(|pod| pod.next).min());
        let now = Instant::now();
        for pod in pods.values_mut() {
            pod.note_ends(now);
        }
    }

    fn note(&self, uid: &str, observation: Observation) {
        let mut notes = self.notes();
        let is_news = notes.orders.contains_key(uid) && notes.observations.get(uid) != Some(&observation);
        if is_news {
            notes.observations.insert(uid.to_owned(), observation);
            drop(notes);
            self.wake.notify_one();
        }
    }
}

fn take_orders(pods: &mut BTreeMap<String, Observed>, orders: &BTreeMap<String, Order>, now: Instant) {
    pods.retain(|uid, _| orders.contains_key(uid));
    for (uid, order) in orders {
        pods.entry(uid.clone())
            .and_modify(|pod| pod.follow(order.clone(), now))
            .or_insert_with(|| Observed::new(uid.clone(), order.clone(), now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::observed::Stage;
    use hitless_api::DrainSpec;

    fn order() -> Order {
        let (drain, probe_periods, containers) = (DrainSpec::default(), vec![], vec![]);
        Order { stage: Stage::Draining, drain, probe_periods, containers }
    }

    #[tokio::test]
    async fn a_pod_that_can_not_be_found_is_a_failure_and_never_a_count() {
        let empty = tempfile::tempdir().unwrap();
        let wake = Arc::new(Notify::new());
        let observer = Observer::start(empty.path().to_owned(), wake.clone()).unwrap();
        observer.order(BTreeMap::from([("0a-1b".to_owned(), order())]));
        wake.notified().await;
        let seen = observer.observations();
        assert!(matches!(&seen["0a-1b"], Observation::Failed(why) if why.contains("no process")), "{seen:?}");
        observer.order(BTreeMap::new());
        assert!(observer.observations().is_empty());
    }
}

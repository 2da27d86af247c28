//! Requests on a fixed number of kept-alive connections.
//!
//! A request that is due is taken by the connection that has been idle for longest, or waits until one is free; its
//! latency and its timeout run from the due time, so waiting is counted. When the timeout has passed in the queue the
//! request is not sent any more: its user has left.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::{Plan, Target};
use crate::connection::{Connection, Failed, Idle};
use crate::recorder::{Answerer, ConnectionEvent, FirstFailure, Outcome};
use crate::retry::Broken;
use crate::{ConnectionClass, FailureKind};

const CLASS: ConnectionClass = ConnectionClass::Keepalive;
/// Due requests ahead of the workers. A full queue only holds up the schedule, which keeps its due times.
const QUEUE: usize = 256;

/// The mutex is fair, so the workers take turns and every connection is used.
type Queue = Arc<Mutex<mpsc::Receiver<Instant>>>;

pub(super) async fn run(plan: Arc<Plan>) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let queue: Queue = Arc::new(Mutex::new(receiver));
    let mut workers = JoinSet::new();
    for index in 0..plan.config.keepalive_connections as usize {
        workers.spawn(Worker { plan: Arc::clone(&plan), index, connection: None }.run(Arc::clone(&queue)));
    }
    let mut schedule = plan.schedule(plan.config.keepalive_per_second);
    while let Some(due) = schedule.next().await {
        plan.recorder.due(CLASS);
        if sender.send(due).await.is_err() {
            break;
        }
    }
    drop(sender);
    while workers.join_next().await.is_some() {}
}

/// Owns one connection.
struct Worker {
    plan: Arc<Plan>,
    index: usize,
    connection: Option<Connection>,
}

/// An attempt that failed, and who had answered on its connection before.
struct FailedAttempt {
    broken: Broken,
    pod: Option<String>,
}

impl Worker {
    async fn run(mut self, queue: Queue) {
        while let Some(due) = self.next(&queue).await {
            self.request(due).await;
        }
    }

    /// The next due request. Meanwhile a connection that ends is noticed at once and closed from this side too, as
    /// clients with an event loop do; the next request opens another.
    async fn next(&mut self, queue: &Queue) -> Option<Instant> {
        let due = async || queue.lock().await.recv().await;
        if let Some(connection) = &self.connection {
            tokio::select! {
                biased;
                due = due() => return due,
                idle = connection.idle_end() => self.note_idle(idle),
            }
        }
        due().await
    }

    async fn request(&mut self, due: Instant) {
        if let Some(connection) = &self.connection {
            self.note_idle(connection.idle());
        }
        let mut first_failure = None;
        let mut attempt = self.attempt(due).await;
        if let Err(failed) = &attempt {
            let FailedAttempt { broken, pod } = failed;
            first_failure = Some(FirstFailure { kind: broken.kind, seen: Instant::now(), pod: pod.clone() });
            if broken.may_be_retried() {
                attempt = self.attempt(due).await;
            }
        }
        let result = attempt.map_err(|failed| failed.broken.kind);
        self.plan.recorder.ended(Outcome { class: CLASS, due, first_failure, result });
    }

    fn note_idle(&mut self, idle: Idle) {
        let event = match idle {
            Idle::Usable => return,
            Idle::Closed => ConnectionEvent::ClosedBetweenRequests,
            Idle::Reset => ConnectionEvent::ResetBetweenRequests,
        };
        self.connection = None;
        self.plan.recorder.connection(CLASS, event);
    }

    /// Sends on the connection there is, or on a new one; keeps it only after a complete answer.
    async fn attempt(&mut self, due: Instant) -> Result<Answerer, FailedAttempt> {
        let pod = self.connection.as_ref().and_then(Connection::answered_by).map(ToOwned::to_owned);
        let reused = pod.is_some();
        let failed = |kind, answer_begun| FailedAttempt { broken: Broken { kind, reused, answer_begun }, pod };
        let plan = Arc::clone(&self.plan);
        let Some(target) = plan.target(self.index) else { return Err(failed(FailureKind::Local, false)) };
        let deadline = plan.deadline(due);
        if Instant::now() >= deadline {
            return Err(failed(FailureKind::Timeout, false));
        }
        let existing = self.connection.take();
        match timeout_at(deadline, exchange(&plan, target, existing)).await {
            Err(_elapsed) => Err(failed(FailureKind::Timeout, false)),
            Ok(Err(broken)) => Err(failed(broken.kind, broken.answer_begun)),
            Ok(Ok((answerer, connection))) => {
                self.connection = connection;
                Ok(answerer)
            }
        }
    }
}

/// One exchange; gives the connection back if it can carry another.
async fn exchange(
    plan: &Plan,
    target: &Target,
    existing: Option<Connection>,
) -> Result<(Answerer, Option<Connection>), Failed> {
    let mut connection = if let Some(connection) = existing { connection } else { open(plan, target).await? };
    let answer = connection.exchange(&target.keepalive_request).await?;
    if answer.closes {
        plan.recorder.connection(CLASS, ConnectionEvent::ClosedBetweenRequests);
        return Ok((answer.answerer, None));
    }
    Ok((answer.answerer, Some(connection)))
}

async fn open(plan: &Plan, target: &Target) -> Result<Connection, Failed> {
    let opened = Connection::open(target.address).await;
    let connection = opened.map_err(|error| Failed { kind: (&error).into(), answer_begun: false })?;
    plan.recorder.connection(CLASS, ConnectionEvent::Opened);
    Ok(connection)
}

//! A supervisor for the tasks of a process: a signal stops them all in order, and a task that ends early stops the process.
//!
//! Phases: run → (SIGTERM, SIGINT, or a task's end) → after a signal, whoever is served comes to an end while all tasks go on
//! ([`Tasks::run_retiring`]) → the token is cancelled and everybody finishes what is begun → after the grace time, or at a second
//! signal, what still runs is dropped.

use std::collections::HashMap;
use std::future::{Future, ready};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// Any error of a task.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a process does not end cleanly; its exit code is 1.
#[derive(Debug, thiserror::Error)]
pub enum ShutdownError {
    /// A task returned an error.
    #[error("task {task} failed: {source}")]
    Failed {
        /// Name of the task.
        task: &'static str,
        /// What it returned.
        source: BoxError,
    },
    /// A task returned though nobody had asked it to stop.
    #[error("task {0} ended early")]
    EndedEarly(&'static str),
    /// A task panicked; the panic itself is on stderr.
    #[error("task {0} panicked")]
    Panicked(&'static str),
    /// Tasks did not stop within the grace time, or a second signal came first.
    #[error("stopped by force, still running: {}", .0.join(", "))]
    Forced(Vec<&'static str>),
    /// The signal handlers could not be installed.
    #[error("can't listen for signals: {0}")]
    Signals(#[from] std::io::Error),
}

/// The tasks of a process.
#[derive(Debug, Default)]
pub struct Tasks {
    set: JoinSet<Result<(), BoxError>>,
    names: HashMap<Id, &'static str>,
    token: CancellationToken,
}

impl Tasks {
    /// No task yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled when the process is to stop.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Starts a task, which must run until [`Self::token`] is cancelled.
    pub fn spawn<E>(&mut self, name: &'static str, task: impl Future<Output = Result<(), E>> + Send + 'static)
    where
        E: Into<BoxError> + Send + 'static,
    {
        let handle = self.set.spawn(async move { task.await.map_err(Into::into) });
        self.names.insert(handle.id(), name);
    }

    /// Runs until SIGTERM or SIGINT, or until a task ends; then stops all tasks, which may take `grace`.
    /// The first thing that went wrong is returned.
    pub async fn run(self, grace: Duration) -> Result<(), ShutdownError> {
        self.run_retiring(ready(()), grace).await
    }

    /// The same. After a signal all tasks go on until `retired` is over; a second signal ends that.
    pub async fn run_retiring(self, retired: impl Future<Output = ()>, grace: Duration) -> Result<(), ShutdownError> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        self.run_until(retired, grace, async || either(&mut terminate, &mut interrupt).await).await
    }

    async fn run_until(
        mut self,
        retired: impl Future<Output = ()>,
        grace: Duration,
        mut signalled: impl AsyncFnMut() -> &'static str,
    ) -> Result<(), ShutdownError> {
        let mut first_error = None;
        let is_signalled = tokio::select! {
            name = signalled() => {
                tracing::info!(signal = name, "stopping");
                true
            }
            Some(ended) = self.set.join_next_with_id() => {
                first_error = Some(self.early_end(ended));
                false
            }
        };
        if is_signalled {
            tokio::select! {
                biased;
                () = retired => {}
                name = signalled() => tracing::warn!(signal = name, "second signal"),
                Some(ended) = self.set.join_next_with_id() => first_error = Some(self.early_end(ended)),
            }
        }
        self.token.cancel();
        let stopped = async {
            while let Some(ended) = self.set.join_next_with_id().await {
                let error = Self::late_end(&mut self.names, ended);
                first_error = first_error.take().or(error);
            }
        };
        tokio::select! {
            () = stopped => {}
            () = tokio::time::sleep(grace) => tracing::warn!(?grace, "tasks did not stop in time"),
            name = signalled() => tracing::warn!(signal = name, "second signal"),
        }
        let mut still: Vec<_> = self.names.into_values().collect();
        still.sort_unstable();
        first_error.or_else(|| (!still.is_empty()).then_some(ShutdownError::Forced(still))).map_or(Ok(()), Err)
    }

    fn early_end(&mut self, ended: Ended) -> ShutdownError {
        let name = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let name = self.names.get(&name).copied().unwrap_or("?");
        let error = Self::late_end(&mut self.names, ended).unwrap_or(ShutdownError::EndedEarly(name));
        tracing::error!(%error, "stopping");
        error
    }

    fn late_end(names: &mut HashMap<Id, &'static str>, ended: Ended) -> Option<ShutdownError> {
        match ended {
            Ok((id, result)) => {
                let task = names.remove(&id).unwrap_or("?");
                result.err().map(|source| ShutdownError::Failed { task, source })
            }
            Err(error) => Some(ShutdownError::Panicked(names.remove(&error.id()).unwrap_or("?"))),
        }
    }
}

type Ended = Result<(Id, Result<(), BoxError>), JoinError>;

async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::io;

    const GRACE: Duration = Duration::from_secs(10);

    async fn until_cancelled(token: CancellationToken) -> io::Result<()> {
        token.cancelled().await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_stops_every_task_cleanly() {
        let mut tasks = Tasks::new();
        tasks.spawn("a", until_cancelled(tasks.token()));
        tasks.spawn("b", until_cancelled(tasks.token()));
        let mut signals = 0;
        let result = tasks
            .run_until(ready(()), GRACE, async || {
                signals += 1;
                if signals > 1 {
                    pending::<()>().await;
                }
                "TEST"
            })
            .await;
        assert!(result.is_ok(), "{result:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_signal_tasks_go_on_until_whoever_is_served_is_done_or_a_second_signal() {
        for (signals, expected) in [(1, 30), (2, 5)] {
            let mut tasks = Tasks::new();
            let token = tasks.token();
            tasks.spawn("server", until_cancelled(token.clone()));
            let (start, mut seen) = (tokio::time::Instant::now(), 0);
            let served = async {
                tokio::time::sleep(Duration::from_secs(30)).await;
                assert!(!token.is_cancelled(), "it still serves");
            };
            let signalled = async || {
                seen += 1;
                match seen {
                    1 => {}
                    2 if signals == 2 => tokio::time::sleep(Duration::from_secs(5)).await,
                    _ => pending::<()>().await,
                }
                "TEST"
            };
            assert!(tasks.run_until(served, GRACE, signalled).await.is_ok());
            assert_eq!(start.elapsed().as_secs(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_early_or_panics_or_fails_stops_the_others() {
        type Early = fn() -> io::Result<()>;
        let cases: [(Early, &str); 3] = [
            (|| Ok(()), "task early ended early"),
            (|| panic!("on purpose"), "task early panicked"),
            (|| Err(io::Error::other("no disk")), "task early failed: no disk"),
        ];
        for (early, message) in cases {
            let mut tasks = Tasks::new();
            let token = tasks.token();
            tasks.spawn("other", until_cancelled(token.clone()));
            tasks.spawn("early", async move { early() });
            let error = tasks.run_until(ready(()), GRACE, pending).await.unwrap_err();
            assert_eq!(error.to_string(), message);
            assert!(token.is_cancelled());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_stop_is_named_after_the_grace_time_or_at_once_by_a_second_signal() {
        for signals in [1, 2] {
            let mut tasks = Tasks::new();
            tasks.spawn("stubborn", pending::<io::Result<()>>());
            let (start, mut seen) = (tokio::time::Instant::now(), 0);
            let error = tasks
                .run_until(ready(()), GRACE, async || {
                    seen += 1;
                    if seen > signals {
                        pending::<()>().await;
                    }
                    "TEST"
                })
                .await
                .unwrap_err();
            assert_eq!(error.to_string(), "stopped by force, still running: stubborn");
            assert_eq!(start.elapsed() >= GRACE, signals == 1);
        }
    }
}

//! A client in another network namespace that prints what it has seen as JSON lines until its standard input is closed.

use std::fmt::Debug;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde::de::DeserializeOwned;

/// A running client; killed when dropped before [`Client::stop`].
pub struct Client<R> {
    child: Child,
    stdin: Option<ChildStdin>,
    reader: Option<JoinHandle<()>>,
    latest: Arc<(Mutex<Latest<R>>, Condvar)>,
}

struct Latest<R> {
    report: Option<R>,
    /// No more lines will come.
    ended: bool,
}

impl<R: Clone + Debug + Default + DeserializeOwned + Send + 'static> Client<R> {
    /// Starts it.
    pub fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start a client")?;
        let stdout = child.stdout.take().context("the client has no standard output")?;
        let latest = Arc::new((Mutex::new(Latest { report: None, ended: false }), Condvar::new()));
        let reader = std::thread::spawn({
            let latest = Arc::clone(&latest);
            move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if let Ok(report) = serde_json::from_str::<R>(&line) {
                        latest.0.lock().unwrap_or_else(PoisonError::into_inner).report = Some(report);
                        latest.1.notify_all();
                    }
                }
                latest.0.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
                latest.1.notify_all();
            }
        });
        Ok(Self { stdin: child.stdin.take(), child, reader: Some(reader), latest })
    }

    /// The last line.
    #[must_use]
    pub fn report(&self) -> R {
        self.latest.0.lock().unwrap_or_else(PoisonError::into_inner).report.clone().unwrap_or_default()
    }

    /// Waits for a line of which `found` is true. The error says what was waited for and what there was instead.
    pub fn wait(&self, what: &str, timeout: Duration, found: impl Fn(&R) -> bool) -> anyhow::Result<()> {
        let end = Instant::now() + timeout;
        let mut latest = self.latest.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !latest.report.as_ref().is_some_and(&found) {
            ensure!(!latest.ended, "the client ended while {what} were waited for: {:?}", latest.report);
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("waited {timeout:?} for {what}: {:?}", latest.report);
            }
            latest = self.latest.1.wait_timeout(latest, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Closes its standard input, waits for its end and returns its last line.
    pub fn stop(mut self) -> anyhow::Result<R> {
        drop(self.stdin.take());
        let status = self.child.wait()?;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        ensure!(status.success(), "the client ended with {status}: {:?}", self.report());
        Ok(self.report())
    }
}

impl<R> Drop for Client<R> {
    fn drop(&mut self) {
        // After `stop` both find nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

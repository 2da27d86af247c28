//! The `kubectl get --watch` behind a watch, one after another: the API server ends each of them after half an hour to an hour.

use std::collections::BTreeSet;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::Kubectl;

/// Before the next one is started: the API server may be away.
const PAUSE: Duration = Duration::from_secs(1);

/// What feeds one watch.
pub(super) struct Feed {
    kubectl: Kubectl,
    arguments: Vec<String>,
    /// `None` once nobody wants it any more.
    running: Mutex<Option<Child>>,
}

impl Feed {
    /// Starts the first one.
    pub(super) fn start(kubectl: &Kubectl, arguments: &[&str]) -> anyhow::Result<(Self, ChildStdout)> {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let feed = Self { kubectl: kubectl.clone(), arguments, running: Mutex::new(None) };
        let (child, events) = feed.spawn()?;
        *feed.running() = Some(child);
        Ok((feed, events))
    }

    fn spawn(&self) -> anyhow::Result<(Child, ChildStdout)> {
        let watch = ["get", "--watch", "--output-watch-events", "-o", "json"];
        let mut command = self.kubectl.command(&[&watch[..], &self.arguments()].concat())?;
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("start kubectl get --watch")?;
        let events = child.stdout.take().context("kubectl has no standard output")?;
        Ok((child, events))
    }

    fn arguments(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }

    fn running(&self) -> MutexGuard<'_, Option<Child>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next one after one has ended, with the names that there are: who is not among them has gone meanwhile. `None` once nobody
    /// wants it any more.
    pub(super) fn again(&self) -> Option<(ChildStdout, BTreeSet<String>)> {
        loop {
            // It has ended, or is of no use.
            stop(self.running().as_mut()?);
            thread::sleep(PAUSE);
            let mut running = self.running();
            running.as_ref()?;
            let Ok((child, events)) = self.spawn() else { continue };
            *running = Some(child);
            drop(running);
            if let Ok(objects) = self.kubectl.list(&self.arguments()) {
                let name = |object: &Value| object["metadata"]["name"].as_str().map(str::to_owned);
                return Some((events, objects.iter().filter_map(name).collect()));
            }
        }
    }

    /// Ends it for good.
    pub(super) fn end(&self) {
        if let Some(mut child) = self.running().take() {
            stop(&mut child);
        }
    }
}

/// Nothing is to be done about a child that is gone already.
fn stop(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

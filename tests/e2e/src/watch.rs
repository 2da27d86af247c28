//! A live copy of some objects, fed by `kubectl get --watch`, to wait on without polling.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use crate::Kubectl;

/// Objects by name.
pub type Objects = BTreeMap<String, Value>;

#[derive(Default)]
struct Shared {
    objects: Mutex<Objects>,
    changed: Condvar,
}

/// A running watch of one kind in one namespace; ends when dropped.
pub struct Watch {
    what: String,
    child: Child,
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches `kubectl get <arguments>`, e.g. `["pods", "-l", "app=web"]`.
    pub fn start(kubectl: &Kubectl, arguments: &[&str]) -> anyhow::Result<Self> {
        Self::start_seeing(kubectl, arguments, |_| ())
    }

    /// The same. `see` gets each event (`type`, `object`) before anybody can wait for what it changes; so it also sees what is
    /// true for a moment only.
    pub fn start_seeing(
        kubectl: &Kubectl,
        arguments: &[&str],
        mut see: impl FnMut(&Value) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let mut command =
            kubectl.command(&[&["get", "--watch", "--output-watch-events", "-o", "json"], arguments].concat())?;
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("start kubectl get --watch")?;
        let stdout = child.stdout.take().context("kubectl has no standard output")?;
        let shared = Arc::new(Shared::default());
        let reader = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                // The stream ends with an error when kubectl is killed: that is how a watch stops.
                for event in serde_json::Deserializer::from_reader(std::io::BufReader::new(stdout)).into_iter::<Value>()
                {
                    let Ok(event) = event else { return };
                    see(&event);
                    shared.apply(&event);
                }
            }
        });
        Ok(Self { what: arguments.join(" "), child, shared, reader: Some(reader) })
    }

    /// A copy of what is there now.
    #[must_use]
    pub fn objects(&self) -> Objects {
        self.shared.objects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until `found` returns something. The error says what was waited for and what was there instead.
    pub fn wait<T>(&self, what: &str, timeout: Duration, found: impl Fn(&Objects) -> Option<T>) -> anyhow::Result<T> {
        let end = Instant::now() + timeout;
        let mut objects = self.shared.objects.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(value) = found(&objects) {
                return Ok(value);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let seen = serde_json::to_string_pretty(&*objects)?;
                anyhow::bail!("waited {timeout:?} for {what}; {} are:\n{seen}", self.what);
            }
            objects = self.shared.changed.wait_timeout(objects, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns at the next change, or after `timeout`.
    pub fn next_change(&self, timeout: Duration) {
        let objects = self.shared.objects.lock().unwrap_or_else(PoisonError::into_inner);
        // Woken for nothing is fine: callers look for themselves.
        drop(self.shared.changed.wait_timeout(objects, timeout));
    }

    /// Makes sure that something does *not* happen for as long as `duration`: returns the first thing that did.
    #[must_use]
    pub fn never<T>(&self, duration: Duration, found: impl Fn(&Objects) -> Option<T>) -> Option<T> {
        self.wait("nothing", duration, found).ok()
    }
}

impl Shared {
    fn apply(&self, event: &Value) {
        let object = &event["object"];
        let Some(name) = object["metadata"]["name"].as_str().map(str::to_owned) else { return };
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if event["type"] == "DELETED" {
            objects.remove(&name);
        } else {
            objects.insert(name, object.clone());
        }
        self.changed.notify_all();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Nothing to do about a child that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

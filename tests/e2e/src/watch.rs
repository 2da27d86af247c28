//! A live copy of some objects, fed by `kubectl get --watch`, to wait on without polling.

mod feed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Kubectl;
use feed::Feed;

/// Objects by name.
pub type Objects = BTreeMap<String, Value>;

#[derive(Default)]
struct Shared {
    objects: Mutex<Objects>,
    changed: Condvar,
    /// Those who are told each state; only used while `objects` is locked, so that none is left out.
    followers: Mutex<Vec<Sender<Objects>>>,
}

/// A running watch of one kind in one namespace; ends when dropped.
pub struct Watch {
    what: String,
    /// Only a test has none.
    feed: Option<Arc<Feed>>,
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

/// Each state of a watch from some moment on, one after the other: also those that are over when this process comes to look.
pub struct States<'w> {
    what: &'w str,
    now: Objects,
    next: Receiver<Objects>,
}

impl Watch {
    /// Watches `kubectl get <arguments>`, e.g. `["pods", "-l", "app=web"]`. Nothing is there at first, and what there is comes one
    /// by one: that something is *not* there can only be waited for once it was seen.
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
        let (feed, mut events) = Feed::start(kubectl, arguments)?;
        let (feed, shared) = (Arc::new(feed), Arc::new(Shared::default()));
        let reader = std::thread::spawn({
            let (feed, shared) = (Arc::clone(&feed), Arc::clone(&shared));
            move || {
                loop {
                    let stream = serde_json::Deserializer::from_reader(std::io::BufReader::new(events));
                    // It ends with an error when kubectl is killed in the middle of an event.
                    for event in stream.into_iter::<Value>().map_while(Result::ok) {
                        see(&event);
                        shared.apply(&event);
                    }
                    let Some((next, names)) = feed.again() else { return };
                    shared.retain(&names);
                    events = next;
                }
            }
        });
        Ok(Self { what: arguments.join(" "), feed: Some(feed), shared, reader: Some(reader) })
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
                return Err(in_vain(what, timeout, &self.what, &objects));
            }
            objects = self.shared.changed.wait_timeout(objects, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Each state from now on, this one first. Begin before that can happen which is to be seen: [`Watch::wait`] looks at the
    /// newest state only, and on a busy machine it may look too late for one that lasts a second.
    #[must_use]
    pub fn follow(&self) -> States<'_> {
        let (sender, next) = channel();
        let objects = self.shared.objects.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.followers.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        States { what: &self.what, now: objects.clone(), next }
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

impl States<'_> {
    /// Goes on to the first state for which `found` returns something, and stays there. The error is as that of [`Watch::wait`].
    pub fn wait<T>(
        &mut self,
        what: &str,
        timeout: Duration,
        mut found: impl FnMut(&Objects) -> Option<T>,
    ) -> anyhow::Result<T> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(value) = found(&self.now) {
                return Ok(value);
            }
            let left = end.saturating_duration_since(Instant::now());
            let Ok(next) = self.next.recv_timeout(left) else {
                return Err(in_vain(what, timeout, self.what, &self.now));
            };
            self.now = next;
        }
    }
}

fn in_vain(what: &str, timeout: Duration, of: &str, objects: &Objects) -> anyhow::Error {
    let seen = serde_json::to_string_pretty(objects).unwrap_or_default();
    anyhow::anyhow!("waited {timeout:?} for {what}; {of} are:\n{seen}")
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
        self.tell(&objects);
    }

    /// Who is not among these has gone while nobody looked.
    fn retain(&self, names: &BTreeSet<String>) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.retain(|name, _| names.contains(name));
        self.tell(&objects);
    }

    fn tell(&self, objects: &Objects) {
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        // Who has gone does not take it.
        followers.retain(|follower| follower.send(objects.clone()).is_ok());
        self.changed.notify_all();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(feed) = &self.feed {
            feed.end();
        }
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A watch that nothing feeds but the test.
    fn watch() -> Watch {
        Watch { what: "pods".to_owned(), feed: None, shared: Arc::default(), reader: None }
    }

    fn see(watch: &Watch, what: &str, state: &str) {
        watch.shared.apply(&json!({"type": what, "object": {"metadata": {"name": "a"}, "state": state}}));
    }

    fn is(state: &str) -> impl Fn(&Objects) -> Option<()> {
        move |objects| (objects.get("a")?["state"] == state).then_some(())
    }

    #[test]
    fn who_follows_sees_what_is_over_and_in_order() -> anyhow::Result<()> {
        let watch = watch();
        see(&watch, "ADDED", "first");
        let mut states = watch.follow();
        for state in ["second", "third"] {
            see(&watch, "MODIFIED", state);
        }
        see(&watch, "DELETED", "third");
        assert!(watch.wait("second", Duration::ZERO, is("second")).is_err(), "a wait sees the newest state only");
        for state in ["first", "second", "third"] {
            states.wait(state, Duration::ZERO, is(state))?;
        }
        states.wait("its end", Duration::ZERO, |objects| objects.is_empty().then_some(()))?;
        let missed = states.wait("first", Duration::ZERO, is("first"));
        assert!(missed.is_err_and(|error| error.to_string().contains("for first; pods are")));
        Ok(())
    }

    #[test]
    fn who_has_gone_between_two_feeds_is_not_there() {
        let watch = watch();
        see(&watch, "ADDED", "first");
        let mut states = watch.follow();
        watch.shared.retain(&BTreeSet::from(["b".to_owned()]));
        assert!(states.wait("its end", Duration::ZERO, |objects| objects.is_empty().then_some(())).is_ok());
    }

    #[test]
    fn nobody_is_told_who_has_gone() {
        let watch = watch();
        drop(watch.follow());
        see(&watch, "ADDED", "first");
        assert!(watch.shared.followers.lock().unwrap().is_empty());
    }
}

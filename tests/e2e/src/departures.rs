//! Which pods of an application left service, also those that did so for a moment only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::ensure;
use serde_json::Value;

use crate::app::{OWN, PATIENCE, all_ready, condition, is_ready};
use crate::{App, Watch};

/// A pod that left service: it was Ready, and then it was not, its condition InService was False, or it was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Its node.
    pub node: String,
    /// When that was seen first.
    pub at: Instant,
}

/// What is known of one pod.
#[derive(Default)]
struct Seen {
    node: String,
    was_ready: bool,
    left: Option<Instant>,
    /// Restarts of its containers when it was Ready first, and now.
    restarts: Option<(i64, i64)>,
}

/// Watches an application's pods from the moment of its start until it is dropped.
pub struct Departures {
    pods: Arc<Mutex<BTreeMap<String, Seen>>>,
    _watch: Watch,
}

impl Departures {
    /// Begins to watch; `count` pods must be there and ready.
    pub fn start(app: &App, count: usize) -> anyhow::Result<Self> {
        let pods = Arc::new(Mutex::new(BTreeMap::new()));
        let seen = Arc::clone(&pods);
        let watch = Watch::start_seeing(&app.kubectl, &["pods", "-l", OWN], move |event| {
            note(&mut seen.lock().unwrap_or_else(PoisonError::into_inner), event);
        })?;
        watch.wait(&format!("{count} ready pods"), PATIENCE, |pods| all_ready(pods, count).then_some(()))?;
        Ok(Self { pods, _watch: watch })
    }

    /// The pods that have left service since, by uid.
    #[must_use]
    pub fn left(&self) -> BTreeMap<String, Departure> {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let left = pods
            .iter()
            .filter_map(|(uid, seen)| Some((uid.clone(), Departure { node: seen.node.clone(), at: seen.left? })));
        left.collect()
    }

    /// Fails if a pod has left service or a container has been restarted.
    pub fn ensure_none(&self) -> anyhow::Result<()> {
        let left = self.left();
        ensure!(left.is_empty(), "pods left service: {left:?}");
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let restarted: Vec<&String> = pods
            .iter()
            .filter(|(_, seen)| seen.restarts.is_some_and(|(first, now)| now > first))
            .map(|(uid, _)| uid)
            .collect();
        ensure!(restarted.is_empty(), "containers were restarted of the pods {restarted:?}");
        Ok(())
    }
}

fn note(pods: &mut BTreeMap<String, Seen>, event: &Value) {
    let pod = &event["object"];
    let Some(uid) = pod["metadata"]["uid"].as_str() else { return };
    let seen = pods.entry(uid.to_owned()).or_default();
    if let Some(node) = pod["spec"]["nodeName"].as_str() {
        node.clone_into(&mut seen.node);
    }
    let is_out = event["type"] == "DELETED" || condition(pod, "hitless.dev/InService") == Some("False");
    let serves = !is_out && is_ready(pod);
    seen.was_ready |= serves;
    if !seen.was_ready {
        return;
    }
    if !serves {
        seen.left.get_or_insert_with(Instant::now);
    }
    let containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let restarts = containers.filter_map(|container| container["restartCount"].as_i64()).sum();
    seen.restarts.get_or_insert((restarts, restarts)).1 = restarts;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(what: &str, ready: &str, in_service: &str, restarts: u32) -> Value {
        let conditions =
            json!([{"type": "Ready", "status": ready}, {"type": "hitless.dev/InService", "status": in_service}]);
        json!({"type": what, "object": {"metadata": {"name": "a", "uid": "u"}, "spec": {"nodeName": "n1"},
            "status": {"conditions": conditions, "containerStatuses": [{"restartCount": restarts}]}}})
    }

    /// What is known of the pod after these events.
    fn after(events: &[Value]) -> Seen {
        let mut pods = BTreeMap::new();
        for event in events {
            note(&mut pods, event);
        }
        pods.remove("u").unwrap()
    }

    #[test]
    fn a_pod_leaves_only_after_it_was_in_service() {
        let (new, serves) = (event("ADDED", "False", "False", 0), event("MODIFIED", "True", "True", 0));
        assert!(after(&[new.clone(), serves.clone()]).left.is_none());
        assert!(after(&[new.clone(), event("DELETED", "False", "False", 0)]).left.is_none(), "it has never served");
        for away in [
            event("MODIFIED", "False", "True", 0),
            event("MODIFIED", "True", "False", 0),
            event("DELETED", "True", "True", 0),
        ] {
            // Back again: it has left nevertheless.
            assert!(after(&[new.clone(), serves.clone(), away.clone(), serves.clone()]).left.is_some(), "{away}");
        }
    }

    #[test]
    fn restarts_count_from_the_first_moment_in_service() {
        let serves = |restarts| event("MODIFIED", "True", "True", restarts);
        assert_eq!(after(&[event("ADDED", "False", "True", 1), serves(2), serves(3)]).restarts, Some((2, 3)));
    }
}

//! How the installation is when a test has failed: often what a dozen tests failed of stands there in one line.

use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use hitless_e2e::Stack;
use serde_json::Value;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(20);
/// Most changes that are told.
const MOST: usize = 40;

/// What has changed while tests ran, each change with its time.
#[derive(Default)]
pub(super) struct History {
    last: BTreeSet<String>,
    changes: VecDeque<String>,
}

impl History {
    /// Looks at the installation until `work` has ended.
    pub(super) fn during<T>(&mut self, stack: &Stack, work: impl FnOnce() -> T) -> T {
        let (ended, end) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                loop {
                    self.look(lines(stack), &stack.now());
                    if !matches!(end.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout)) {
                        break;
                    }
                }
            });
            let outcome = work();
            drop(ended);
            outcome
        })
    }

    fn look(&mut self, now: BTreeSet<String>, at: &str) {
        let new = now.difference(&self.last).map(|line| format!("{at} {line}"));
        self.changes.extend(new);
        self.changes.drain(..self.changes.len().saturating_sub(MOST));
        self.last = now;
    }

    /// The last changes, oldest first.
    pub(super) fn text(&self) -> String {
        let lines: Vec<&str> = self.changes.iter().map(String::as_str).collect();
        format!("\n  {}", lines.join("\n  "))
    }
}

/// A line for each pod of hitless, for each node, and for each Lease.
fn lines(stack: &Stack) -> BTreeSet<String> {
    let system = stack.system();
    let list = |what: &str| system.list(&[what]).map_err(|error| vec![format!("{what} can't be read: {error}")]);
    let all = |what: &str, line: fn(&Value) -> String| {
        list(what).map_or_else(|error| error, |objects| objects.iter().map(line).collect())
    };
    [all("pods", pod), all("nodes", node), all("leases", lease)].into_iter().flatten().collect()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or("?")
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn is(object: &Value, condition: &str) -> bool {
    items(&object["status"]["conditions"]).any(|each| each["type"] == condition && each["status"] == "True")
}

fn pod(pod: &Value) -> String {
    let containers = items(&pod["status"]["containerStatuses"]).map(|each| {
        let state = [&each["state"]["waiting"]["reason"], &each["lastState"]["terminated"]["reason"]];
        let words: Vec<&str> = state.into_iter().filter_map(Value::as_str).collect();
        let ended = each["lastState"]["terminated"]["finishedAt"].as_str().unwrap_or("never");
        format!("{} restarts, last {ended} {}", each["restartCount"], words.join(" "))
    });
    let containers: Vec<String> = containers.collect();
    let ready = if is(pod, "Ready") { "Ready" } else { "not Ready" };
    let on = pod["spec"]["nodeName"].as_str().unwrap_or("no node");
    format!("pod {} on {on}: {ready}; {}", name(pod), containers.join(", "))
}

fn node(node: &Value) -> String {
    let conditions = items(&node["status"]["conditions"]).filter(|each| each["status"] == "True");
    let conditions: Vec<&str> = conditions.filter_map(|each| each["type"].as_str()).collect();
    let taints: Vec<&str> = items(&node["spec"]["taints"]).filter_map(|taint| taint["key"].as_str()).collect();
    format!("node {}: {}; taints {taints:?}", name(node), conditions.join(", "))
}

fn lease(lease: &Value) -> String {
    let spec = &lease["spec"];
    // Not when it was renewed: that changes with each look, and would leave no room for anything else.
    format!("lease {}: {} since {}", name(lease), spec["holderIdentity"], spec["acquireTime"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_changes_is_told_and_the_last_of_it() {
        let mut history = History::default();
        let lines = |ready: &str| BTreeSet::from(["node n1: Ready".to_owned(), format!("pod a: {ready}")]);
        history.look(lines("Ready"), "1");
        history.look(lines("Ready"), "2");
        history.look(lines("not Ready"), "3");
        assert_eq!(history.text(), "\n  1 node n1: Ready\n  1 pod a: Ready\n  3 pod a: not Ready");
        for time in 0..MOST {
            history.look(lines(&time.to_string()), "4");
        }
        assert_eq!(history.text().lines().count() - 1, MOST);
    }

    #[test]
    fn a_lease_that_is_renewed_is_no_change() {
        let renewed = |at: &str| json!({"metadata": {"name": "controller"}, "spec": {"holderIdentity": "a", "acquireTime": "1", "renewTime": at}});
        assert_eq!(lease(&renewed("2")), lease(&renewed("3")));
    }

    #[test]
    fn a_pod_that_crashes_and_a_node_under_pressure_are_told() {
        let crashing = json!({"metadata": {"name": "controller-1"}, "spec": {"nodeName": "n1"}, "status": {
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{"restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}}}]}});
        assert_eq!(
            pod(&crashing),
            "pod controller-1 on n1: not Ready; 5 restarts, last 2026-01-01T00:00:00Z CrashLoopBackOff Error"
        );
        let full = json!({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "node.kubernetes.io/disk-pressure"}]}, "status": {
            "conditions": [{"type": "DiskPressure", "status": "True"}, {"type": "PIDPressure", "status": "False"}, {"type": "Ready", "status": "True"}]}});
        assert_eq!(node(&full), "node n1: DiskPressure, Ready; taints [\"node.kubernetes.io/disk-pressure\"]");
    }
}

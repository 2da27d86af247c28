//! Pods on nodes that don't come back.

use std::sync::Arc;

use hitless_rollout::snapshot::{AgentState, NodeView, Snapshot};
use hitless_workloads::registry;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::blips::{Is, V1, V2, a_pod};
use crate::scene::{self, LONG_AGO, decide, now, read, template, view};
use crate::stateful_set::granted;

fn owned(mut object: Value) -> Value {
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web", "uid": "uid-web", "controller": true}]);
    object
}

fn revision(name: &str, number: i64, image: &str) -> Value {
    let mut object =
        owned(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": scene::meta(name),
        "revision": number, "data": {"spec": {"template": template(image)}}}));
    object["metadata"]["labels"] = json!({"controller-revision-hash": name});
    object
}

/// A DaemonSet in mid-rollout to v2, with one pod on each of the nodes n1, n2, ….
pub(crate) fn daemon_set(strategy: &Value, pods: &[([&str; 2], Is)]) -> Snapshot {
    let updated = pods.iter().filter(|(version, _)| *version == V2).count();
    let mut set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": scene::meta("web"),
        "spec": {"template": template("web:v2"), "updateStrategy": strategy},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": pods.len(), "updatedNumberScheduled": updated}});
    set["metadata"]["annotations"] = json!({"hitless.dev/update": "in-place"});
    let held = registry::of_workload(&read(&set).id.group_kind).unwrap().held(set);
    let objects = [held, revision("old", 1, "web:v1"), revision("new", 2, "web:v2")];
    let pods = pods.iter().enumerate().map(|(index, (version, is))| {
        let mut pod = owned(a_pod(index, *version, *is));
        pod["spec"]["nodeName"] = format!("n{}", index + 1).into();
        Arc::new(view(&pod))
    });
    let pods: Vec<_> = pods.collect();
    let mut snapshot = scene::snapshot(&objects, (*pods[0]).clone(), &["web:v1", "web:v2"]);
    let known = NodeView::clone(&snapshot.nodes["n1"]);
    for name in pods.iter().filter_map(|pod| pod.node.clone()).skip(1) {
        let node = NodeView { name: name.clone(), uid: format!("uid-{name}"), ..known.clone() };
        snapshot.nodes.insert(name.clone(), Arc::new(node));
        snapshot.agents.insert(name, AgentState::Ready);
    }
    snapshot.with_pods(pods)
}

/// Its pod on n3 has v2, and that node is away for so long.
fn rollout(old: Is, away: SignedDuration) -> Snapshot {
    let mut snapshot = daemon_set(&json!({"type": "RollingUpdate"}), &[(V1, old), (V1, old), (V2, Is::Unready)]);
    let lost = NodeView { not_ready_since: Some(now() - away), ..NodeView::clone(&snapshot.nodes["n3"]) };
    snapshot.nodes.insert("n3".to_owned(), Arc::new(lost));
    snapshot.agents.insert("n3".to_owned(), AgentState::MissingSince(LONG_AGO.parse().unwrap()));
    snapshot
}

/// It neither proves the version nor keeps it from the nodes that are there, whether their pods serve or not.
#[test]
fn a_pod_of_the_new_version_on_a_lost_node_holds_up_no_other_node() {
    for old in [Is::Ready, Is::Unready, Is::Crashing] {
        let round = decide(&rollout(old, SignedDuration::from_secs(50)));
        assert!(granted(&round).is_empty(), "the node may be back in a moment: {:?}", round.verdicts);
        assert!(round.wake_at.is_some_and(|at| at <= now() + SignedDuration::from_secs(10)));
        let grants = granted(&decide(&rollout(old, SignedDuration::from_mins(5))));
        let names: Vec<_> = grants.iter().map(|grant| grant.pod.name.as_str()).collect();
        assert_eq!(names.len(), 1, "one after the other, because nobody has verified the version: {names:?}");
        assert!(["web-0", "web-1"].contains(&names[0]));
    }
}

/// A budget that somebody has written counts it: who wrote that at most one may be away means it.
#[test]
fn a_budget_that_somebody_has_written_counts_a_lost_pod() {
    let mut snapshot = rollout(Is::Ready, SignedDuration::from_mins(5));
    let spec = serde_json::from_value(json!({"selector": {}, "maxUnavailable": 1})).unwrap();
    let budget = hitless_gate::Budget {
        name: "one".to_owned(),
        namespace: "shop".to_owned(),
        uid: "b".to_owned(),
        spec,
        unreadable: None,
    };
    snapshot.budgets = vec![Arc::new(budget)];
    assert!(granted(&decide(&snapshot)).is_empty());
}

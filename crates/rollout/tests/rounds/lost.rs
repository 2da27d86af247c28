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

/// A DaemonSet in mid-rollout to v2. Its pod on n3 has that, and the node is away for so long.
fn rollout(old: Is, away: SignedDuration) -> Snapshot {
    let mut set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": scene::meta("web"),
        "spec": {"template": template("web:v2"), "updateStrategy": {"type": "RollingUpdate"}},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 3, "updatedNumberScheduled": 1}});
    set["metadata"]["annotations"] = json!({"hitless.dev/update": "in-place"});
    let held = registry::of_workload(&read(&set).id.group_kind).unwrap().held(set);
    let objects = [held, revision("old", 1, "web:v1"), revision("new", 2, "web:v2")];
    let pods = [(V1, old), (V1, old), (V2, Is::Unready)].into_iter().enumerate().map(|(index, (version, is))| {
        let mut pod = owned(a_pod(index, version, is));
        pod["spec"]["nodeName"] = format!("n{}", index + 1).into();
        Arc::new(view(&pod))
    });
    let pods: Vec<_> = pods.collect();
    let mut snapshot = scene::snapshot(&objects, (*pods[0]).clone(), &["web:v1", "web:v2"]);
    let known = NodeView::clone(&snapshot.nodes["n1"]);
    for (name, not_ready_since, agent) in [
        ("n2", None, AgentState::Ready),
        ("n3", Some(now() - away), AgentState::MissingSince(LONG_AGO.parse().unwrap())),
    ] {
        let node = NodeView { name: name.to_owned(), uid: format!("uid-{name}"), not_ready_since, ..known.clone() };
        snapshot.nodes.insert(name.to_owned(), Arc::new(node));
        snapshot.agents.insert(name.to_owned(), agent);
    }
    snapshot.with_pods(pods)
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

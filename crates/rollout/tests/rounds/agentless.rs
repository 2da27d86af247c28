//! Pods on nodes on which no agent is ever going to be.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_rollout::round::{Round, WaitReason};
use hitless_rollout::snapshot::{AgentState, NodeView, Snapshot};
use hitless_workloads::Object;
use serde_json::json;

use crate::blips::{Is, V1, rollout};
use crate::scene::{decide, now, read, view};
use crate::stateful_set::granted;

/// A StatefulSet of three, of which web-0 is on a Fargate node; this is its opt-in.
fn on_fargate(update: &str) -> Snapshot {
    let mut snapshot = rollout([(V1, Is::Ready), (V1, Is::Ready), (V1, Is::Ready)]);
    let node = NodeView {
        name: "n2".to_owned(),
        uid: "uid-n2".to_owned(),
        labels: BTreeMap::from([
            ("kubernetes.io/os".to_owned(), "linux".to_owned()),
            ("eks.amazonaws.com/compute-type".to_owned(), "fargate".to_owned()),
        ]),
        images: snapshot.nodes["n1"].images.clone(),
        ..NodeView::default()
    };
    snapshot.nodes.insert("n2".to_owned(), Arc::new(node));
    let opted = |object: &Arc<Object>| {
        let mut object = Object::clone(object);
        if object.stateful_set().is_some() {
            object.annotations.insert("hitless.dev/update".to_owned(), update.to_owned());
        }
        Arc::new(object)
    };
    snapshot.objects = snapshot.objects.iter().map(opted).collect();
    let not_fargate = json!({"key": "eks.amazonaws.com/compute-type", "operator": "NotIn", "values": ["fargate"]});
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [not_fargate]}]});
    snapshot.objects.push(read(&json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": "hitless-system", "name": "hitless-agent", "uid": "uid-agents", "resourceVersion": "1"},
        "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": [],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}}}})));
    let agent = |node: &str| {
        Arc::new(view(
            &json!({"metadata": {"namespace": "hitless-system", "name": format!("agent-{node}"), "uid": node,
            "labels": {"app.kubernetes.io/name": "hitless-agent"}}, "spec": {"nodeName": node, "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        ))
    };
    let mut pods: Vec<Arc<PodView>> = snapshot.pods.clone();
    let mut first = PodView::clone(&pods[0]);
    first.node = Some("n2".to_owned());
    pods[0] = Arc::new(first);
    pods.push(agent("n1"));
    let mut snapshot = snapshot.with_pods(pods);
    // n1 has no labels: the selector of the agents' DaemonSet would leave it out.
    let labelled = NodeView {
        labels: [("kubernetes.io/os".to_owned(), "linux".to_owned())].into(),
        ..NodeView::clone(&snapshot.nodes["n1"])
    };
    snapshot.nodes.insert("n1".to_owned(), Arc::new(labelled));
    snapshot.agents = snapshot.agent_states(&BTreeMap::new(), now());
    snapshot
}

fn lets_go(round: &Round) -> bool {
    round.steps.iter().any(|step| step.write.tells.as_ref().is_some_and(|note| note.reason == "NativeRollout"))
}

#[test]
fn where_no_agent_can_ever_be_is_told_from_where_there_is_none_yet() {
    let mut snapshot = on_fargate("in-place");
    assert_eq!(snapshot.agents["n1"], AgentState::Ready);
    assert_eq!(snapshot.agents["n2"], AgentState::Never);
    let pods = snapshot.pods.iter().filter(|pod| pod.id.namespace != "hitless-system").cloned().collect();
    snapshot = snapshot.with_pods(pods);
    assert_eq!(snapshot.agent_states(&snapshot.agents, now())["n1"], AgentState::MissingSince(now()));
}

#[test]
fn a_workload_with_a_pod_there_goes_natively_and_nobody_is_operated_before() {
    let round = decide(&on_fargate("in-place"));
    assert!(lets_go(&round), "{:?}", round.steps);
    assert!(granted(&round).is_empty());
    let told = round.steps.iter().find_map(|step| step.write.tells.as_ref()).unwrap();
    assert!(told.text.contains("pod web-0 is on node n2"), "{}", told.text);
}

#[test]
fn in_place_only_is_refused_and_an_owner_s_own_pause_lets_the_others_go() {
    let only = decide(&on_fargate("in-place-only"));
    assert!(!lets_go(&only) && granted(&only).is_empty());
    assert_eq!(only.stages.get("Refused"), Some(&1), "{:?}", only.stages);

    let mut own = on_fargate("in-place");
    let on_delete = |object: &Arc<Object>| {
        let mut object = Object::clone(object);
        object.annotations.retain(|name, _| name != "hitless.dev/rollout" && name != "hitless.dev/update-strategy");
        Arc::new(object)
    };
    own.objects = own.objects.iter().map(on_delete).collect();
    let round = decide(&own);
    let goes: Vec<String> = granted(&round).into_iter().map(|grant| grant.pod.name).collect();
    assert_eq!(goes, ["web-2"]);
    let waits = round.verdicts.iter().find(|verdict| verdict.pod.name == "web-0").unwrap();
    assert!(
        matches!(waits.waiting, Some(WaitReason::Obstacle(_) | WaitReason::NoAgentPossible(_))),
        "{:?}",
        waits.waiting
    );
}

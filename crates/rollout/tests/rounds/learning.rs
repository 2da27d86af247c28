//! What the first pod of a version teaches of how long the others will be away.

use std::sync::Arc;

use hitless_api::names::annotations;
use hitless_api::node_transition::AgentInfo;
use hitless_api::{Grant, GrantMode};
use hitless_rollout::mode::Mode;
use hitless_rollout::prefetch::{NamePool, NodeImages};
use hitless_rollout::round::Round;
use hitless_rollout::snapshot::{NodePressure, NodeTransitionView, NodeView};
use serde_json::{Value, json};

use crate::blips::{Is, V1, V2, a_pod, rollout};
use crate::dependency::first;
use crate::scene::{LONG_AGO, agent, decide, transition, view};
use crate::stateful_set::granted;

/// The round after the first of three pods was brought to the next version, of which its agent reports these times.
fn after_the_first(times: &Value) -> Round {
    with_agent(times, None)
}

/// `agent`: what the agent says of itself.
fn with_agent(times: &Value, agent: Option<AgentInfo>) -> Round {
    let grant = first();
    let mut report = json!({"id": grant.id, "granted": grant.granted, "phase": "Returning", "since": grant.granted,
        "result": {"outcome": "Done", "reason": "Done"}});
    report.as_object_mut().unwrap().extend(times.as_object().unwrap().clone());
    let mut snapshot = rollout([(V1, Is::Ready), (V1, Is::Ready), (V2, Is::Ready)]);
    let mut done = a_pod(2, V2, Is::Ready);
    done["metadata"]["annotations"] = json!({annotations::REVISION: grant.annotations[annotations::REVISION].to});
    done["status"]["containerStatuses"][0]["containerID"] = "containerd://2".into();
    let pods = [a_pod(0, V1, Is::Ready), a_pod(1, V1, Is::Ready), done];
    snapshot = snapshot.with_pods(pods.iter().map(|pod| Arc::new(view(pod))).collect());
    let node = NodeTransitionView { agent, ..transition(vec![grant], &json!([report])) };
    snapshot.node_transitions.insert("n1".to_owned(), Arc::new(node));
    decide(&snapshot)
}

/// How the next pod goes, and why.
fn next(round: &Round) -> (GrantMode, String) {
    let next: Vec<Grant> = granted(round).into_iter().filter(|grant| grant.pod.name == "web-1").collect();
    let [grant] = &next[..] else { panic!("{:?}", round.verdicts) };
    (grant.mode.clone(), Mode::word(&grant.mode_reason).to_owned())
}

#[test]
fn the_next_pod_is_held_only_if_the_first_one_was_ready_soon_after_it_listened() {
    for (times, expected) in [
        (json!({"gapMilliseconds": 300, "readyMilliseconds": 900}), (GrantMode::Hold, "ShortGap")),
        (json!({"gapMilliseconds": 300, "readyMilliseconds": 8100}), (GrantMode::Leave, "LongGap")),
        // An agent of an earlier version says nothing of it.
        (json!({"gapMilliseconds": 300}), (GrantMode::Leave, "UnknownGap")),
    ] {
        let (mode, reason) = next(&after_the_first(&times));
        assert_eq!((mode, reason.as_str()), expected, "{times}");
    }
}

/// The agent reports nothing then (`agent/src/report.rs`).
#[test]
fn the_grant_says_where_the_kubelet_pulls_the_image_while_the_container_is_down() {
    let grant = |images: &[&str]| {
        let mut snapshot = rollout([(V1, Is::Ready), (V1, Is::Ready), (V1, Is::Ready)]);
        let images = NodeImages::of(images.iter().map(|image| [*image]), &mut NamePool::default());
        let pressure = Some(NodePressure { condition: "DiskPressure", since: LONG_AGO.parse().ok() });
        let node =
            NodeView { name: "n1".to_owned(), uid: "uid-n1".to_owned(), images, pressure, ..NodeView::default() };
        snapshot.nodes.insert("n1".to_owned(), Arc::new(node));
        granted(&decide(&snapshot)).pop().unwrap()
    };
    let (pulled, there) = (grant(&["web:v1"]), grant(&["web:v1", "web:v2"]));
    assert_eq!(Mode::word(&pulled.mode_reason), "ImageNotFetched");
    assert_eq!((pulled.unfetched, there.unfetched), (true, false));
}

#[test]
fn a_pod_whose_requests_were_seen_to_outlast_a_hold_leaves() {
    let times = json!({"gapMilliseconds": 300, "readyMilliseconds": 900});
    let able = agent(&["Leave", "Hold"]);
    let of = |in_flight: &[&str]| {
        let in_flight = in_flight.iter().map(|uid| (*uid).to_owned()).collect();
        next(&with_agent(&times, Some(AgentInfo { in_flight, ..able.clone() })))
    };
    assert_eq!(of(&["uid-web-1"]), (GrantMode::Leave, "StillInFlight".to_owned()));
    assert_eq!(of(&["uid-web-0"]), (GrantMode::Hold, "ShortGap".to_owned()), "that was another pod");
}

#[test]
fn what_it_teaches_is_kept_on_the_workload() {
    let round = after_the_first(&json!({"gapMilliseconds": 300, "readyMilliseconds": 8100}));
    let written: Vec<String> = round.steps.iter().map(|step| format!("{:?}", step.write)).collect();
    let is_kept = |write: &String| write.contains("hitless.dev~1gap-to-ready") && write.contains(":8100}");
    assert!(written.iter().any(is_kept), "{written:#?}");
}

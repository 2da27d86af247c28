//! Connections that were lost when a pod became not Ready.

use hitless_api::node_transition::NodeTransitionSpec;
use hitless_api::{GrantMode, Outcome, Phase};
use hitless_rollout::snapshot::NodeTransitionView;
use serde_json::json;

use crate::cluster::Cluster;
use crate::holds::{finish, turns};
use crate::node::Fate;
use crate::test_controller::TestController;

/// Three pods that are away for longer than a pod is held without a reason, brought to the next version one after another: the mode of
/// each, and its reason.
fn modes_of_three(cluster: &mut Cluster) -> Vec<(GrantMode, String)> {
    cluster.gap_milliseconds = Some(2000);
    let mut controller = TestController::new(1, cluster);
    cluster.set_image(2);
    let mut modes: Vec<(String, (GrantMode, String))> = Vec::new();
    for _ in 0..100 {
        turns(cluster, &mut controller, 1);
        for grant in cluster.grants() {
            if !modes.iter().any(|(id, _)| *id == grant.id) {
                modes.push((grant.id, (grant.mode, grant.mode_reason)));
            }
        }
        let _ = cluster.agent(0, Fate::Done);
    }
    finish(cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
    modes.into_iter().map(|(_, mode)| mode).collect()
}

#[test]
fn once_connections_were_lost_at_readys_fall_the_other_pods_are_held() {
    let modes = |resets, wanted: Option<&str>| {
        let mut cluster = Cluster::new(3, 1).service("web");
        cluster.resets = resets;
        for pod in cluster.pods.values_mut() {
            let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.extend(wanted.map(|wanted| ("hitless.dev/mode".to_owned(), json!(wanted))));
        }
        let modes = modes_of_three(&mut cluster);
        let known = cluster.deployment["metadata"]["annotations"]["hitless.dev/losses"].as_str().map(str::to_owned);
        (modes, known, cluster.written["workload"])
    };
    let (of_three, known, written) = modes(Some(3), None);
    let words = "3 of 4 connections of pod";
    assert!(of_three[0].0 == GrantMode::Leave && of_three[0].1.starts_with("UnknownGap"), "{of_three:?}");
    for (mode, reason) in &of_three[1..] {
        assert!(*mode == GrantMode::Hold && reason.starts_with(&format!("ConnectionsLost: {words}")), "{of_three:?}");
    }
    assert!(known.unwrap().contains(r#""lost":3,"open":4"#));
    assert_eq!(written, 5, "history, mixed, gap and losses, exact, un-pause");

    let (of_three, known, _) = modes(Some(1), None);
    assert!(of_three.iter().all(|(mode, _)| *mode == GrantMode::Leave) && known.is_none(), "{of_three:?}");

    let (of_three, known, _) = modes(Some(3), Some("Leave"));
    assert!(of_three.iter().all(|(mode, reason)| *mode == GrantMode::Leave && reason.starts_with("Wished")));
    assert!(!of_three[0].1.contains(words) && of_three[1].1.contains(words), "its owner is told: {of_three:?}");
    assert!(known.is_some());
}

#[test]
fn an_agent_is_believed_about_pods_of_its_own_node_only() {
    let is_known = |of_another_node: bool| {
        let mut cluster = Cluster::new(3, 1).service("web");
        cluster.resets = Some(4);
        let mut controller = TestController::new(1, &cluster);
        cluster.set_image(2);
        let grant = (0..10).find_map(|_| {
            turns(&mut cluster, &mut controller, 1);
            cluster.grants().pop()
        });
        cluster.report(&grant.unwrap(), Phase::Returning, Some((Outcome::Done, "Done")));
        if of_another_node {
            let (node, mut known) = cluster.transitions.pop_first().unwrap();
            let other = cluster.nodes.keys().find(|other| **other != node).unwrap().clone();
            let report = known.transitions.pop().unwrap();
            let spec = NodeTransitionSpec { grants: Vec::new(), ..known.spec.clone() };
            let lie = NodeTransitionView { node: other.clone(), spec, transitions: vec![report], ..known.clone() };
            cluster.transitions.extend([(node, known), (other, lie)]);
        }
        turns(&mut cluster, &mut controller, 1);
        cluster.deployment["metadata"]["annotations"].get("hitless.dev/losses").is_some()
    };
    assert_eq!((is_known(false), is_known(true)), (true, false));
}

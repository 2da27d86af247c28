//! Pods that are held, and Services that are opened for them.

use hitless_api::{Grant, GrantMode};
use hitless_workloads::Template;
use serde_json::json;

use crate::cluster::Cluster;
use crate::node::Fate;
use crate::test_controller::{ALL, PODS, TestController, Writing};

pub(crate) fn turns(cluster: &mut Cluster, controller: &mut TestController, count: usize) {
    controller.turns(cluster, count, 400);
}

/// One replica behind these Services, changed, with its grant given and not begun.
#[allow(clippy::unwrap_used, reason = "a test")]
pub(crate) fn held(services: &[&str]) -> (Cluster, TestController, Grant) {
    let mut cluster = services.iter().fold(Cluster::new(1, 1), |cluster, name| cluster.service(name));
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    let granted = (0..10).find_map(|_| {
        turns(&mut cluster, &mut controller, 1);
        cluster.grants().pop()
    });
    (cluster, controller, granted.unwrap())
}

pub(crate) fn finish(cluster: &mut Cluster, controller: &mut TestController, fate: Fate) {
    for _ in 0..20 {
        let _ = cluster.agent(0, fate);
        turns(cluster, controller, 1);
    }
    cluster.agents_forget();
    turns(cluster, controller, 6);
}

#[test]
fn a_single_replica_is_held_and_its_services_are_open_meanwhile() {
    let (mut cluster, mut controller, grant) = held(&["web", "web-internal"]);
    assert_eq!(grant.mode, GrantMode::Hold);
    assert!(grant.mode_reason.starts_with("OnlyPod: no other pod serves"), "{}", grant.mode_reason);
    for name in ["web", "web-internal"] {
        let service = cluster.see_service(name);
        assert!(service.open, "before the grant");
        assert_eq!(service.held_by, Some(format!("{},false", grant.id)));
    }
    assert!(cluster.agent(0, Fate::Done), "parked, and down");
    turns(&mut cluster, &mut controller, 5);
    assert!(cluster.see_service("web").open);
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
    assert_eq!(cluster.written["service"], 4, "each opened once and closed once");
}

#[test]
fn the_grant_waits_until_the_service_is_seen_open() {
    let mut cluster = Cluster::new(1, 1).service("web");
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 2);
    // Ledger and Service are written, but the answer for the Service is lost.
    controller.refresh(&cluster, ALL);
    let _ = controller.turn(&mut cluster, Writing::Unanswered(1));
    assert_eq!(cluster.ledgers["shop"].spec.reservations.len(), 1);
    let _ = controller.turn(&mut cluster, Writing::Killed(0));
    assert!(cluster.grants().is_empty() && !cluster.see_service("web").open);
    controller.arrive(&mut cluster);
    assert!(cluster.see_service("web").open);
    let _ = controller.turn(&mut cluster, Writing::All);
    assert!(cluster.grants().is_empty(), "open, and not seen");
    turns(&mut cluster, &mut controller, 1);
    assert_eq!(cluster.grants().len(), 1);
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
}

#[test]
fn another_leader_keeps_it_open_and_closes_it() {
    let (mut cluster, _, _) = held(&["web"]);
    assert!(cluster.agent(0, Fate::Done), "parked");
    let mut second = TestController::new(2, &cluster);
    turns(&mut cluster, &mut second, 5);
    assert!(cluster.see_service("web").open);
    finish(&mut cluster, &mut second, Fate::Done);
    cluster.assert_at_rest();
}

#[test]
fn a_leader_that_comes_after_the_end_closes_what_was_left_open() {
    let (mut cluster, _, _) = held(&["web"]);
    for _ in 0..3 {
        assert!(cluster.agent(0, Fate::Done));
    }
    let mut second = TestController::new(2, &cluster);
    finish(&mut cluster, &mut second, Fate::Done);
    cluster.assert_at_rest();
    // And what nobody knows anything of.
    cluster.services.get_mut("web").unwrap()["metadata"]["annotations"] =
        json!({"hitless.dev/held-by": "gone.1,false"});
    cluster.services.get_mut("web").unwrap()["spec"]["publishNotReadyAddresses"] = json!(true);
    let mut third = TestController::new(3, &cluster);
    turns(&mut cluster, &mut third, 1);
    cluster.assert_at_rest();
}

#[test]
fn when_its_pod_is_deleted_it_is_closed_at_once() {
    let (mut cluster, mut controller, grant) = held(&["web"]);
    assert!(cluster.agent(0, Fate::Done), "parked");
    cluster.pods.get_mut(&grant.pod.uid).unwrap()["metadata"]["deletionTimestamp"] = json!(cluster.now.to_string());
    turns(&mut cluster, &mut controller, 1);
    assert!(!cluster.see_service("web").open);
}

#[test]
fn when_its_pod_has_vanished_that_is_read_first() {
    let (mut cluster, mut controller, grant) = held(&["web"]);
    assert!(cluster.agent(0, Fate::Done), "parked");
    cluster.pods.remove(&grant.pod.uid);
    // Read; the place given back; closed.
    turns(&mut cluster, &mut controller, 3);
    assert!(!cluster.see_service("web").open);
}

#[test]
fn a_cancelled_or_failed_operation_closes_it_too() {
    let (mut cluster, mut controller, _) = held(&["web"]);
    assert!(cluster.agent(0, Fate::Done), "parked");
    cluster.set_image(1);
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
    let (mut cluster, mut controller, _) = held(&["web"]);
    finish(&mut cluster, &mut controller, Fate::Failed);
    cluster.pass(10_000);
    turns(&mut cluster, &mut controller, 2);
    assert!(!cluster.see_service("web").open, "its pod is not Ready, and stays so");
}

#[test]
fn a_service_that_is_applied_again_ends_as_its_owner_wrote_it() {
    let (mut cluster, mut controller, _) = held(&["web"]);
    assert!(cluster.agent(0, Fate::Done), "parked");
    cluster.apply_service("web", &json!({"sessionAffinity": "ClientIP"}));
    turns(&mut cluster, &mut controller, 1);
    assert!(cluster.see_service("web").open, "opened again");
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
    assert_eq!(cluster.services["web"]["spec"]["sessionAffinity"], "ClientIP");

    let (mut cluster, mut controller, _) = held(&["web"]);
    let applied = json!({"spec": {"publishNotReadyAddresses": true}}).to_string();
    cluster.services.get_mut("web").unwrap()["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
        json!(applied);
    finish(&mut cluster, &mut controller, Fate::Done);
    let service = cluster.see_service("web");
    assert!(service.open && service.held_by.is_none());
}

#[test]
fn who_closes_it_on_purpose_is_not_fought_while_the_pod_is_held() {
    let (mut cluster, mut controller, _) = held(&["web"]);
    assert!(cluster.agent(0, Fate::Done), "parked");
    cluster.services.get_mut("web").unwrap()["spec"]["publishNotReadyAddresses"] = json!(false);
    turns(&mut cluster, &mut controller, 5);
    assert!(!cluster.see_service("web").open);
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
}

#[test]
fn with_another_endpoint_nothing_is_opened_and_headless_ones_never_are() {
    let mut cluster = Cluster::new(2, 1).service("web");
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    let revision = Template::new(cluster.deployment["spec"]["template"].clone()).revision().to_owned();
    for known in ["hitless.dev/gap", "hitless.dev/gap-to-ready"] {
        cluster.deployment["metadata"]["annotations"][known] = json!(json!({&revision: 300}).to_string());
    }
    turns(&mut cluster, &mut controller, 4);
    let grant = cluster.grants().pop().unwrap();
    assert_eq!(grant.mode, GrantMode::Hold);
    assert!(grant.mode_reason.starts_with("ShortGap"), "{}", grant.mode_reason);
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
    assert!(!cluster.written.contains_key("service"), "{:?}", cluster.written);

    let mut cluster = Cluster::new(1, 1).service("web");
    cluster.apply_service("web", &json!({"clusterIP": "None"}));
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 4);
    assert_eq!(cluster.grants()[0].mode, GrantMode::Hold);
    assert!(!cluster.see_service("web").open);
}

#[test]
fn two_pods_are_never_away_together_where_the_rules_would_let_them() {
    let mut cluster = Cluster::new(2, 2).service("web");
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    for _ in 0..60 {
        turns(&mut cluster, &mut controller, 1);
        let _ = cluster.agent(0, Fate::Done);
        cluster.assert_within_budget(1);
    }
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
}

#[test]
fn the_first_pod_leaves_and_teaches_and_the_others_are_held() {
    let mut cluster = Cluster::new(3, 1).service("web");
    cluster.gap_milliseconds = Some(230);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    let mut modes = Vec::new();
    for _ in 0..100 {
        turns(&mut cluster, &mut controller, 1);
        for grant in cluster.grants() {
            if !modes.iter().any(|(id, _)| *id == grant.id) {
                modes.push((grant.id, grant.mode));
            }
        }
        let _ = cluster.agent(0, Fate::Done);
    }
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
    let modes: Vec<GrantMode> = modes.into_iter().map(|(_, mode)| mode).collect();
    assert_eq!(modes[0], GrantMode::Leave);
    assert_eq!(modes[2], GrantMode::Hold, "{modes:?}");
    let gaps = cluster.deployment["metadata"]["annotations"]["hitless.dev/gap"].as_str().unwrap();
    assert!(gaps.ends_with(":300}"), "{gaps}");
    assert_eq!(cluster.written["workload"], 5, "history, mixed, gap, exact, un-pause");
}

#[test]
fn while_the_first_pod_teaches_nobody_else_goes_also_once_its_image_is_patched() {
    let mut cluster = Cluster::new(6, 3).service("web");
    cluster.gap_milliseconds = Some(230);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    let mut left = 0;
    for _ in 0..100 {
        turns(&mut cluster, &mut controller, 1);
        let leaving = cluster.grants().iter().filter(|grant| grant.mode == GrantMode::Leave).count();
        left = left.max(leaving);
        let is_taught = cluster.deployment["metadata"]["annotations"].get("hitless.dev/gap").is_some();
        assert!(is_taught || cluster.grants().len() <= 1 + usize::from(leaving == 0), "{:#?}", cluster.grants());
        let _ = cluster.agent(0, Fate::Done);
    }
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
    assert_eq!(left, 1);
}

#[test]
fn an_agent_that_does_not_know_hold_says_so_once() {
    let mut cluster = Cluster::new(1, 1).service("web");
    cluster.agent.features = vec!["Leave".to_owned()];
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 6);
    assert_eq!(cluster.grants()[0].mode, GrantMode::Hold, "nothing is known of it");
    assert!(cluster.agent(0, Fate::UnsupportedMode));
    turns(&mut cluster, &mut controller, 6);
    let grant = cluster.grants().pop().unwrap();
    assert_eq!(grant.mode, GrantMode::Leave);
    assert!(grant.mode_reason.starts_with("AgentCannotHold"), "{}", grant.mode_reason);
    assert!(!cluster.see_service("web").open, "closed before it leaves");
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
}

#[test]
fn hooks_come_with_the_grant_and_one_after_the_drain_makes_the_pod_leave() {
    let hooks = |when: &str| json!([{"name": "ask", "when": when, "http": {"port": 80, "path": "/"}}]).to_string();
    for (when, mode) in [("BeforeDrain", GrantMode::Hold), ("AfterDrain", GrantMode::Leave)] {
        let mut cluster = Cluster::new(1, 1).service("web");
        let mut controller = TestController::new(1, &cluster);
        for pod in cluster.pods.values_mut() {
            pod["metadata"]["annotations"]["hitless.dev/hooks"] = json!(hooks(when));
        }
        cluster.set_image(2);
        turns(&mut cluster, &mut controller, 6);
        let grant = cluster.grants().pop().unwrap();
        assert_eq!((&grant.mode, grant.hooks[0].name.as_str()), (&mode, "ask"), "{}", grant.mode_reason);
    }
}

#[test]
fn a_pod_with_hooks_waits_for_an_agent_that_knows_hooks() {
    let mut cluster = Cluster::new(1, 1);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    turns(&mut cluster, &mut controller, 6);
    finish(&mut cluster, &mut controller, Fate::Done);
    let exec = json!([{"name": "ask", "when": "BeforeDrain", "exec": {"container": "web", "command": ["true"]}}]);
    for pod in cluster.pods.values_mut() {
        pod["metadata"]["annotations"]["hitless.dev/hooks"] = json!(exec.to_string());
    }
    cluster.set_image(3);
    for features in [["Leave", "Hold"].as_slice(), &["Leave", "hooks"]] {
        for node in cluster.transitions.values_mut() {
            node.agent = Some(hitless_api::node_transition::AgentInfo {
                features: features.iter().map(|feature| (*feature).to_owned()).collect(),
                ..Default::default()
            });
        }
        turns(&mut cluster, &mut controller, 6);
        assert_eq!(cluster.grants(), [], "{features:?}");
    }
    for node in cluster.transitions.values_mut() {
        node.agent.as_mut().unwrap().features.push("exec-hooks".to_owned());
    }
    turns(&mut cluster, &mut controller, 6);
    assert_eq!(cluster.grants()[0].hooks[0].name, "ask");
}

#[test]
fn connections_that_nobody_uses_are_told_of_to_agents_that_can_read_it() {
    let mut cluster = Cluster::new(1, 1);
    let mut controller = TestController::new(1, &cluster);
    for pod in cluster.pods.values_mut() {
        pod["metadata"]["annotations"]["hitless.dev/drain"] = json!(json!({"idleAfterSeconds": 5}).to_string());
    }
    for (revision, features, expected) in
        [(2, &["Leave"][..], Some(5)), (3, &["Leave"], None), (4, &["Leave", "idleAfter"], Some(5))]
    {
        cluster.set_image(revision);
        for node in cluster.transitions.values_mut() {
            let features = features.iter().map(|feature| (*feature).to_owned()).collect();
            node.agent = Some(hitless_api::node_transition::AgentInfo { features, ..Default::default() });
        }
        turns(&mut cluster, &mut controller, 6);
        let grant = cluster.grants().pop().unwrap();
        assert_eq!(grant.drain.idle_after_seconds, expected, "{features:?}, for revision {revision}");
        finish(&mut cluster, &mut controller, Fate::Done);
    }
}

#[test]
fn a_pod_that_could_not_be_held_leaves() {
    let (mut cluster, mut controller, _) = held(&["web"]);
    assert!(cluster.agent(0, Fate::UnsupportedMode), "though it says that it can");
    turns(&mut cluster, &mut controller, 6);
    assert_eq!(cluster.grants()[0].mode, GrantMode::Leave);
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
}

#[test]
fn one_that_is_open_for_another_operation_is_marked_anew_before_the_grant() {
    let mut cluster = Cluster::new(1, 1).service("web");
    let service = cluster.services.get_mut("web").unwrap();
    let (uid, pod) = cluster.pods.iter_mut().next().unwrap();
    // It is back since just now: the Service is not closed yet.
    pod["status"]["conditions"][0]["lastTransitionTime"] = json!(cluster.now.to_string());
    service["metadata"]["annotations"] = json!({"hitless.dev/held-by": format!("{uid}.earlier,false")});
    service["spec"]["publishNotReadyAddresses"] = json!(true);
    let mut controller = TestController::new(1, &cluster);
    cluster.set_image(2);
    let granted = (0..10).find_map(|_| {
        turns(&mut cluster, &mut controller, 1);
        cluster.grants().pop()
    });
    let service = cluster.see_service("web");
    assert_eq!((service.open, service.held_by), (true, Some(format!("{},false", granted.unwrap().id))));
    assert_eq!(cluster.written["service"], 1, "not closed in between");
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
}

#[test]
fn it_stays_open_for_an_operation_whose_grant_is_not_seen() {
    let (mut cluster, mut controller, _) = held(&["web"]);
    assert!(cluster.agent(0, Fate::Done), "parked, and down");
    let granted = std::mem::take(&mut cluster.transitions);
    turns(&mut cluster, &mut controller, 1);
    assert!(cluster.see_service("web").open, "it has its place");
    cluster.transitions = granted;
    finish(&mut cluster, &mut controller, Fate::Done);
    cluster.assert_at_rest();
}

#[test]
fn it_stays_open_while_its_pod_is_not_seen() {
    let (mut cluster, _, _) = held(&["web"]);
    assert!(cluster.agent(0, Fate::Done), "parked, and down");
    let pods = std::mem::take(&mut cluster.pods);
    let mut second = TestController::new(2, &cluster);
    cluster.pods = pods;
    // First its epoch, then what it decides on a cache from before the pod.
    for _ in 0..2 {
        second.refresh(&cluster, ALL - PODS);
        let _ = second.turn(&mut cluster, Writing::All);
        assert!(cluster.see_service("web").open);
    }
    finish(&mut cluster, &mut second, Fate::Done);
    cluster.assert_at_rest();
}

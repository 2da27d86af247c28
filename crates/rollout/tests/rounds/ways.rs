//! Which way a pod goes where none is without a price: Leave, Hold, or Kubernetes' own.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantMode};
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::mode::Mode;
use hitless_rollout::round::{Explanation, WaitReason, explain};
use hitless_rollout::snapshot::{NodeTransitionView, Snapshot};
use hitless_workloads::Object;
use serde_json::{Value, json};

use crate::blips::{Is, V1, rollout};
use crate::last_endpoint;
use crate::pause;
use crate::scene::{agent, decide, grants, now, transition, two_may_be_away, view};
use crate::siblings::{alone, waits_for};
use crate::stateful_set::granted;

fn explained(snapshot: &Snapshot) -> Explanation {
    explain(snapshot, &mut GateCache::default(), now(), |_| true)
}

/// Its workload was away for so long when its pods were brought to the version that they get.
fn away(mut snapshot: Snapshot, milliseconds: Option<u32>) -> Snapshot {
    let target = explained(&snapshot).workloads[0].target.clone();
    let Some(milliseconds) = milliseconds else { return snapshot };
    let times = json!({target: milliseconds}).to_string();
    let learned = |object: &Arc<Object>| {
        let mut object = Object::clone(object);
        if object.deployment().is_some() || object.stateful_set().is_some() {
            for name in ["hitless.dev/gap", "hitless.dev/gap-to-ready"] {
                object.annotations.insert(name.to_owned(), times.clone());
            }
        }
        Arc::new(object)
    };
    snapshot.objects = snapshot.objects.iter().map(learned).collect();
    snapshot
}

fn behind_an_address() -> Value {
    json!({"clusterIP": "10.0.0.1"})
}

/// Nothing has to be opened for a pod that is held.
fn behind_a_name() -> Value {
    json!({"clusterIP": "None"})
}

fn without_gate(pod: &mut Value) {
    pod["spec"]["readinessGates"] = json!([]);
}

fn kept_by_a_load_balancer(pod: &mut Value) {
    let condition = json!({"type": "target-health.elbv2.k8s.aws/k8s-shop-web-0123456789", "status": "True"});
    pod["status"]["conditions"].as_array_mut().unwrap().push(condition);
}

/// A second Hold would make its clients wait twice, and nobody would be spared anything.
#[test]
fn requests_in_flight_keep_a_pod_from_being_held_only_where_somebody_else_may_serve() {
    let grant = |snapshot: &Snapshot| {
        let grant = granted(&decide(snapshot)).pop().unwrap();
        assert_eq!((&grant.mode, Mode::word(&grant.mode_reason)), (&GrantMode::Hold, "ShortGap"));
        grant.unless_in_flight
    };
    let three = rollout([(V1, Is::Ready), (V1, Is::Ready), (V1, Is::Ready)]);
    let first = vec![three.pods[0].clone()];
    let database = away(three.clone().with_pods(first), Some(300));
    assert!(grant(&away(three, Some(300))), "others serve");
    assert!(!grant(&database), "a StatefulSet has no companion pod");
    let single = |companion: &str| away(alone(&behind_a_name(), companion, |_| {}), Some(300));
    assert!(grant(&single("Auto")) && !grant(&single("Never")));
}

#[test]
fn a_single_pod_that_cannot_be_kept_free_of_clients_is_held_only_if_that_was_seen_to_be_short() {
    type Change = fn(&mut Value);
    for (change, reason) in
        [(without_gate as Change, "NoReadinessGate"), (kept_by_a_load_balancer as Change, "LoadBalancerKeepsIt")]
    {
        for companion in ["Auto", "Never"] {
            let waits = |gap| waits_for(&away(alone(&behind_a_name(), companion, change), gap));
            assert_eq!(waits(None), "NativeRollout", "{reason} {companion}");
            assert_eq!(waits(Some(9000)), "NativeRollout", "{reason} {companion}");
            let held = waits(Some(2000));
            assert!(held.starts_with(reason), "{companion}: {held}");
        }
    }
}

/// Two pods of one Deployment behind one Service.
fn two(change: fn(&mut Value)) -> Snapshot {
    let snapshot = alone(&behind_an_address(), "Auto", change);
    let pods = ["pod", "other"].map(|name| {
        let pod = pause::pod(("ReplicaSet", "set"), |pod| {
            pod["metadata"]["labels"] = json!({"app": "web"});
            (pod["metadata"]["name"], pod["metadata"]["uid"]) = (name.into(), format!("uid-{name}").into());
            change(pod);
        });
        Arc::new(view(&pod))
    });
    snapshot.with_pods(pods.to_vec())
}

#[test]
fn where_others_serve_one_pod_without_the_gate_shows_how_long_it_is_away_before_all_go_natively() {
    let unknown = granted(&decide(&two(without_gate)));
    let [first] = &unknown[..] else { panic!("{unknown:?}") };
    assert_eq!((&first.mode, Mode::word(&first.mode_reason)), (&GrantMode::Hold, "NoReadinessGate"));
    for change in [without_gate as fn(&mut Value), kept_by_a_load_balancer] {
        let long = decide(&away(two(change), Some(9000)));
        assert!(granted(&long).is_empty());
        let waits: Vec<&str> =
            long.verdicts.iter().filter_map(|known| Some(known.waiting.as_ref()?.reason())).collect();
        assert!(waits.contains(&"NativeRollout"), "{waits:?}");
        let short = granted(&decide(&away(two(change), Some(2000))));
        assert!(short.len() == 1 && short[0].mode == GrantMode::Hold, "{short:?}");
    }
    let usual = granted(&decide(&away(two(|_| {}), Some(9000))));
    assert_eq!(Mode::word(&usual[0].mode_reason), "LongGap", "it can leave, and nobody sends it connections then");
}

/// Pods that are to be restarted, both of which a budget lets go; their agent has these features.
fn both_may_go(features: &[&str], mode: Option<&str>) -> Snapshot {
    let restart = |pod: &mut Value| {
        pod["metadata"]["annotations"]["hitless.dev/restart"] = "now".into();
        if let Some(mode) = mode {
            pod["metadata"]["annotations"]["hitless.dev/mode"] = mode.into();
        }
    };
    let mut snapshot = last_endpoint::snapshot(|one, other| {
        restart(one);
        restart(other);
    });
    snapshot.budgets = vec![two_may_be_away()];
    let node = NodeTransitionView { agent: Some(agent(features)), ..transition(Vec::new(), &json!([])) };
    snapshot.node_transitions = BTreeMap::from([("n1".to_owned(), Arc::new(node))]);
    snapshot
}

#[test]
fn pods_that_leave_whoever_else_serves_go_one_after_the_other() {
    for (features, mode, reason) in
        [(&["Leave"][..], None, "AgentCannotHold"), (&["Leave", "Hold"][..], Some("Leave"), "Wished")]
    {
        let snapshot = both_may_go(features, mode);
        let round = decide(&snapshot);
        let going: Vec<Grant> = grants(&round).unwrap();
        let [first] = &going[..] else { panic!("{going:?}") };
        assert_eq!(Mode::word(&first.mode_reason), reason);
        let other = round.verdicts.iter().find(|verdict| verdict.pod.name != first.pod.name).unwrap();
        assert_eq!(other.waiting, Some(WaitReason::SiblingAway(first.pod.name.clone())));
    }
    // While a third one serves, both may go.
    let two = both_may_go(&["Leave"], None);
    let mut third = PodView::clone(&last_endpoint::snapshot(|_, _| {}).pods[1]);
    (third.id.name, third.id.uid) = ("third".to_owned(), "uid-third".to_owned());
    let pods = two.pods.iter().cloned().chain([Arc::new(third)]).collect();
    assert_eq!(grants(&decide(&two.with_pods(pods))).unwrap().len(), 2);
}

/// What would be chosen in this moment is not what happens.
#[test]
fn why_names_no_mode_of_a_pod_for_which_it_is_not_chosen_yet_or_never() {
    let expected = |snapshot: &Snapshot| {
        let known = explained(snapshot);
        let pods = known.pods.values().filter_map(|pod| {
            let details = pod.details.as_ref()?;
            let waiting = details.verdict.waiting.as_ref()?.reason();
            Some((waiting, details.in_the_way[0].reason(), details.expected.is_some()))
        });
        pods.collect::<Vec<_>>()
    };
    let natively = alone(&behind_an_address(), "Never", |_| {});
    assert_eq!(expected(&natively), [("NativeRollout", "NativeRollout", false)]);
    let waits = expected(&both_may_go(&["Leave"], None));
    assert_eq!(waits, [("SiblingAway", "SiblingAway", false)]);
}

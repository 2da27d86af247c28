//! Pods to which no Service with an address leads: their clients find others by name, or have no others.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::{Grant, GrantMode};
use hitless_rollout::mode::{Mode, ServiceView};
use hitless_rollout::round::{Companion, Round, WaitReason};
use hitless_rollout::snapshot::{Evidence, OperationKey, Snapshot};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::pause;
use crate::removals::after;
use crate::scene::{self, LONG_AGO, decide, grants, meta, transition, two_may_be_away, view};

/// One of two pods of a ReplicaSet, which is to be restarted.
pub(crate) fn pod(name: &str) -> Value {
    let id = format!("r.io/web@sha256:{}", "1".repeat(64));
    let mut pod = scene::pod(&meta(name), "r.io/web:v1", &id, LONG_AGO);
    pod["metadata"]["annotations"] = json!({"hitless.dev/restart": "now"});
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "uid-set", "controller": true}]);
    pod
}

/// The pod as its operation has left it.
pub(crate) fn restarted(mut pod: Value, grant: &Grant) -> Value {
    for (name, change) in &grant.annotations {
        pod["metadata"]["annotations"][name] = change.to.clone().into();
    }
    pod["status"]["containerStatuses"][0]["containerID"] = "containerd://2".into();
    pod
}

pub(crate) fn snapshot(pods: &[Value]) -> Snapshot {
    let images = ["r.io/web:v1"];
    scene::snapshot(&[], view(&pods[0]), &images).with_pods(pods.iter().map(|pod| Arc::new(view(pod))).collect())
}

/// What the pod waits for.
fn waits<'a>(round: &'a Round, name: &str) -> Option<&'a WaitReason> {
    round.verdicts.iter().find(|verdict| verdict.pod.name == name)?.waiting.as_ref()
}

pub(crate) fn only(grants: Vec<Grant>) -> Grant {
    let [grant] = <[Grant; 1]>::try_from(grants).unwrap();
    grant
}

#[test]
fn the_last_pod_of_two_without_a_service_waits_until_the_other_one_serves_again_and_is_not_held() {
    let both = [pod("one"), pod("two")];
    let asked = snapshot(&both);
    let first = decide(&asked);
    let grant = only(grants(&first).unwrap());
    assert_eq!((&grant.mode, Mode::word(&grant.mode_reason)), (&GrantMode::Leave, "UnknownGap"));
    let (done, other) = if grant.pod.name == "one" { ("one", "two") } else { ("two", "one") };

    // Its end is seen, and its place is still in the ledger.
    let pods = [restarted(pod(done), &grant), pod(other)];
    let report = json!([{"id": grant.id, "granted": grant.granted, "phase": "Returning", "since": grant.granted,
        "result": {"outcome": "Done", "reason": "Done"}}]);
    let mut ended = after(snapshot(&pods), &first);
    ended.evidence.insert(OperationKey { id: grant.id.clone(), since: grant.granted.0 }, Evidence::Ready);
    ended.node_transitions = BTreeMap::from([("n1".to_owned(), Arc::new(transition(vec![grant], &report)))]);
    let second = decide(&ended);
    assert_eq!(waits(&second, other), Some(&WaitReason::SiblingAway(done.to_owned())));
    let kept = grants(&second).unwrap_or_default();
    assert!(kept.iter().all(|grant| grant.pod.name != other), "{kept:?}");

    let mut later = after(snapshot(&pods), &second);
    later.node_transitions = BTreeMap::from([("n1".to_owned(), Arc::new(transition(Vec::new(), &json!([]))))]);
    let grant = only(grants(&decide(&later)).unwrap());
    let reason = Mode::word(&grant.mode_reason);
    assert_eq!((grant.pod.name.as_str(), &grant.mode, reason), (other, &GrantMode::Leave, "UnknownGap"));
}

/// An operation of the other pod is over and has left it not Ready, so many minutes ago.
#[test]
fn a_pod_that_stays_down_after_its_operation_keeps_no_other_one_waiting_for_ever() {
    let then = |minutes: i64| {
        let first = decide(&snapshot(&[pod("one"), pod("two")]));
        let grant = only(grants(&first).unwrap());
        let (own, other) = if grant.pod.name == "one" { ("one", "two") } else { ("two", "one") };
        let mut down = restarted(pod(own), &grant);
        down["status"]["conditions"][0]["status"] = json!("False");
        let since = scene::now().checked_sub(SignedDuration::from_mins(minutes)).unwrap();
        let report = json!([{"id": grant.id, "granted": grant.granted, "phase": "Returning", "since": since,
            "result": {"outcome": "Done", "reason": "ReadyPending"}}]);
        let mut over = after(snapshot(&[down, pod(other)]), &first);
        over.budgets = vec![two_may_be_away()];
        over.evidence.insert(OperationKey::granted(&grant), Evidence::NotReady);
        over.node_transitions = BTreeMap::from([("n1".to_owned(), Arc::new(transition(vec![grant], &report)))]);
        let round = decide(&over);
        (waits(&round, other).map(WaitReason::reason), round.wake_at)
    };
    let at = scene::now().checked_add(SignedDuration::from_mins(9)).unwrap();
    assert_eq!(then(1), (Some("SiblingAway"), Some(at)));
    assert_ne!(then(11).0, Some("SiblingAway"));
}

/// A Deployment's only pod, to which this Service leads. `companion`: the annotation of its workload.
pub(crate) fn alone(spec: &Value, companion: &str, change: impl FnOnce(&mut Value)) -> Snapshot {
    let objects = pause::deployment(|root| root["metadata"]["annotations"]["hitless.dev/companion"] = companion.into());
    let pod = pause::pod(("ReplicaSet", "set"), |pod| {
        pod["metadata"]["labels"] = json!({"app": "web"});
        change(pod);
    });
    let mut service = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": spec});
    service["spec"]["selector"] = json!({"app": "web"});
    let service = ServiceView::from(&serde_json::from_value::<Service>(service).unwrap());
    let snapshot = scene::snapshot(&objects, view(&pod), &["r.io/web:v1", "r.io/web:v2"]);
    Snapshot { services: vec![Arc::new(service)], ..snapshot }
}

pub(crate) fn waits_for(snapshot: &Snapshot) -> String {
    let round = decide(snapshot);
    match waits(&round, "pod") {
        Some(WaitReason::Companion { stage: Companion::Missing, .. }) => "a companion".to_owned(),
        Some(other) => other.reason().to_owned(),
        None => only(grants(&round).unwrap()).mode_reason,
    }
}

#[test]
fn clients_who_find_an_only_pod_by_its_services_name_get_another_one_as_those_behind_an_address_do() {
    let headless = json!({"clusterIP": "None"});
    for spec in [json!({"clusterIP": "10.0.0.1"}), headless.clone()] {
        assert_eq!(waits_for(&alone(&spec, "Auto", |_| {})), "a companion", "{spec}");
        assert_eq!(waits_for(&alone(&spec, "Never", |_| {})), "NativeRollout", "{spec}");
    }
    // It is in the name whether it is Ready or not: nobody can take its clients.
    let published = json!({"clusterIP": "None", "publishNotReadyAddresses": true});
    assert!(waits_for(&alone(&published, "Never", |_| {})).starts_with("OnlyPod"));
}

/// Nobody sets them on a companion, which would be waited for until the version's time is over, and for ever once it has started.
#[test]
fn a_companion_that_could_never_become_ready_is_not_made_and_the_next_way_is_taken() {
    let address = json!({"clusterIP": "10.0.0.1"});
    let gated = |gate: &str, companion: &str| {
        let mut snapshot = alone(&address, companion, |_| {});
        let objects = pause::deployment(|root| {
            root["metadata"]["annotations"]["hitless.dev/companion"] = companion.into();
            root["spec"]["template"]["spec"]["readinessGates"] = json!([{"conditionType": gate}]);
        });
        let mut objects = objects.into_iter();
        let mut all: Vec<_> = objects.next().into_iter().collect();
        for mut set in objects {
            set["spec"]["template"]["spec"]["readinessGates"] = json!([{"conditionType": gate}]);
            all.push(set);
        }
        snapshot.objects = all.iter().map(scene::read).collect();
        snapshot
    };
    for companion in ["Auto", "Always"] {
        let snapshot = gated("example.com/registered", companion);
        assert_eq!(waits_for(&snapshot), "NativeRollout");
        let text = format!("{:?}", decide(&snapshot).steps);
        assert!(
            text.contains("no companion pod can serve: no controller sets the readiness gate example.com/registered"),
            "{text}"
        );
        for gate in ["hitless.dev/InService", "pod.kusionstack.io/service-ready", "target-health.elbv2.k8s.aws/k8s-a"] {
            assert_eq!(waits_for(&gated(gate, companion)), "a companion", "{gate}");
        }
    }
}

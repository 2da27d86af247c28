//! Versions that may start in a new pod only.

use std::sync::Arc;

use hitless_api::Grant;
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::round::{Round, explain};
use hitless_rollout::snapshot::{Evidence, OperationKey, Snapshot};
use hitless_workloads::{Object, Write};
use serde_json::{Value, json};

use crate::blips::{Is, V1, rollout};
use crate::dependency::{first, others};
use crate::left_out::ledger;
use crate::new_pods::waits;
use crate::pause;
use crate::scene::{self, LONG_AGO, decide, grants, now, transition, view};
use crate::stateful_set::granted;

/// The first of three has ended so, and is down.
fn given_up(others_are: [Is; 2]) -> (Snapshot, Grant) {
    let grant = first();
    let dead = json!({"outcome": "Failed", "reason": "RollbackNotReady"});
    let mut snapshot = others(others_are, &grant, Some(&dead));
    snapshot.evidence.insert(OperationKey::granted(&grant), Evidence::NotReady);
    (snapshot, grant)
}

fn says(round: &Round, what: &str) -> bool {
    let text = |write: &Write| format!("{write:?}").contains(what);
    round.steps.iter().any(|step| text(&step.write))
}

pub(crate) fn with(snapshot: Snapshot, name: &str, value: &str) -> Snapshot {
    let change = |object: &Arc<Object>| {
        let mut object = Object::clone(object);
        if object.stateful_set().is_some() {
            object.annotations.insert(name.to_owned(), value.to_owned());
        }
        Arc::new(object)
    };
    let objects = snapshot.objects.iter().map(change).collect();
    Snapshot { objects, ..snapshot }
}

#[test]
fn it_ends_with_new_pods_and_not_with_a_dead_one() {
    let (snapshot, _) = given_up([Is::Ready, Is::Ready]);
    let round = decide(&snapshot);
    assert!(says(&round, "hitless.dev~1way") && !says(&round, "hitless.dev~1halted"), "{:?}", round.steps);
    let target = "does not start again with the version before either";
    assert!(says(&round, target), "{:?}", round.steps);
}

/// The image was there, and the pod could not have it: what it pulls with may be what is missing, and not the image.
#[test]
fn a_version_whose_image_a_pod_can_not_pull_is_tried_in_new_pods_only_where_it_had_been_fetched() {
    let undone = |unfetched: bool| {
        let grant = Grant { unfetched, ..first() };
        let result = json!({"outcome": "RolledBack", "reason": "ImagePullBackOff"});
        let mut snapshot = others([Is::Ready, Is::Ready], &grant, Some(&result));
        snapshot.evidence.insert(OperationKey::granted(&grant), Evidence::Ready);
        decide(&snapshot)
    };
    let fetched = undone(false);
    assert!(says(&fetched, "hitless.dev~1way") && !says(&fetched, "hitless.dev~1halted"), "{:?}", fetched.steps);
    assert!(says(&fetched, "could not pull it (ImagePullBackOff)"), "{:?}", fetched.steps);
    let unfetched = undone(true);
    assert!(!says(&unfetched, "hitless.dev~1way") && says(&unfetched, "hitless.dev~1halted"), "{:?}", unfetched.steps);
}

/// Nobody is told that a rollout is halted whose pods are about to be made anew, or `wait` would end with an error in mid-rollout.
#[test]
fn what_goes_natively_is_not_halted() {
    let halts = |snapshot: &Snapshot| {
        let known = explain(snapshot, &mut GateCache::default(), now(), |_| false);
        let set = known.workloads.iter().find(|known| known.name() == "statefulset/web").unwrap();
        (set.failures.len(), known.pods.values().filter(|pod| pod.halts).count())
    };
    let (snapshot, _) = given_up([Is::Ready, Is::Ready]);
    assert_eq!(halts(&snapshot), (0, 0));
    assert_eq!(halts(&with(snapshot, "hitless.dev/update", "in-place-only")), (1, 1));
}

#[test]
fn not_where_what_all_need_is_away_nor_where_its_owner_wants_no_new_pods() {
    let (away, _) = given_up([Is::Unready, Is::Unready]);
    assert!(!says(&decide(&away), "hitless.dev~1way"));
    let (only, _) = given_up([Is::Ready, Is::Ready]);
    let only = decide(&with(only, "hitless.dev/update", "in-place-only"));
    assert!(!says(&only, "hitless.dev~1way"));
    let text: Vec<String> = only.verdicts.iter().filter_map(hitless_rollout::round::PodVerdict::text).collect();
    assert!(text.iter().all(|text| text.contains("kubectl delete pod web-2")), "{text:?}");
    let (paused, _) = given_up([Is::Ready, Is::Ready]);
    assert!(!says(&decide(&with(paused, "hitless.dev/paused", "true")), "hitless.dev~1way"));
}

#[test]
fn the_dead_pod_of_a_stateful_set_is_made_anew_within_the_rules_before_its_controller_goes_on() {
    let (snapshot, grant) = given_up([Is::Ready, Is::Ready]);
    let written = decide(&snapshot);
    assert_eq!(scene::written(&written, "go-natively").len(), 1);
    let target = grant.annotations["hitless.dev/revision"].to.clone().unwrap();
    let value = json!({"revision": target, "message": "pod web-2 does not start"}).to_string();
    let marked = with(snapshot, "hitless.dev/way", &value);
    let pods = marked.pods.iter().map(|pod| {
        let mut pod = hitless_api::pod::PodView::clone(pod);
        if pod.id.name == "web-2" {
            let status = pod.containers[0].status.as_mut().unwrap();
            (status.waiting, status.running_since) = (Some("CrashLoopBackOff".to_owned()), None);
        }
        Arc::new(pod)
    });
    let pods = pods.collect();
    let marked = marked.with_pods(pods);
    let round = decide(&marked);
    let removals: Vec<String> = scene::ledgers(&round)
        .into_iter()
        .flat_map(|spec| spec.reservations.into_values())
        .filter(|reservation| reservation.removal && reservation.since.0 >= now())
        .map(|reservation| reservation.pod)
        .collect();
    assert_eq!(removals, ["web-2"], "{:?}", round.steps);
    assert!(!says(&round, "updateStrategy"), "{:?}", round.steps);
}

/// A Deployment with so many pods in mid-rollout. Its container writes an emptyDir, or not.
fn deployment(replicas: u32, is_kept: bool, annotations: &Value) -> Snapshot {
    let mut objects = pause::deployment(|_| ());
    let mut old = objects[1].clone();
    for (field, value) in [("name", "old"), ("uid", "uid-old")] {
        old["metadata"][field] = value.into();
    }
    old["metadata"]["labels"] = json!({});
    old["spec"]["template"] = scene::template("r.io/web:v1");
    objects.push(old);
    for object in &mut objects {
        object["spec"]["replicas"] = replicas.into();
        if is_kept {
            let spec = &mut object["spec"]["template"]["spec"];
            spec["volumes"] = json!([{"name": "run", "emptyDir": {}}]);
            spec["containers"][0]["volumeMounts"] = json!([{"name": "run", "mountPath": "/run/app"}]);
        }
    }
    objects[1]["status"]["replicas"] = replicas.into();
    objects[2]["spec"]["replicas"] = 0.into();
    objects[2]["status"]["replicas"] = 0.into();
    for (name, value) in annotations.as_object().unwrap() {
        objects[0]["metadata"]["annotations"][name] = value.clone();
    }
    let pods = (0..replicas).map(|number| {
        let pod = pause::pod(("ReplicaSet", "set"), |pod| {
            pod["metadata"]["name"] = format!("web-{number}").into();
            pod["metadata"]["uid"] = format!("uid-web-{number}").into();
            pod["metadata"]["creationTimestamp"] = LONG_AGO.into();
        });
        Arc::new(view(&pod))
    });
    let pods: Vec<_> = pods.collect();
    let snapshot = scene::snapshot(&objects, (*pods[0]).clone(), &["r.io/web:v1", "r.io/web:v2"]);
    snapshot.with_pods(pods)
}

/// Its first pod's grant, and what the round says once that has ended so.
fn ended(snapshot: &Snapshot, outcome: &str, reason: &str) -> (Grant, Round) {
    let grant = grants(&decide(snapshot)).unwrap().remove(0);
    let report = json!([{"id": grant.id, "granted": grant.granted, "phase": "Returning", "since": grant.granted,
        "result": {"outcome": outcome, "reason": reason}}]);
    let mut after = snapshot.clone();
    after.evidence.insert(OperationKey::granted(&grant), Evidence::Ready);
    after.node_transitions.insert("n1".to_owned(), Arc::new(transition(vec![grant.clone()], &report)));
    let round = decide(&after);
    (grant, round)
}

#[test]
fn a_version_that_crashes_beside_what_only_a_new_pod_renews_is_tried_in_a_new_pod_before_it_is_bad() {
    let (grant, round) = ended(&deployment(3, true, &json!({})), "RolledBack", "CrashLoopBackOff");
    assert_eq!((grant.verify.alone, grant.verify.crashes), (false, Some(5)));
    assert!(says(&round, "hitless.dev~1way") && !says(&round, "hitless.dev~1halted"), "{:?}", round.steps);
    assert!(says(&round, "where volume run is not emptied, so new pods are tried"), "{:?}", round.steps);

    // Nothing is there that a new pod would renew; or the version starts, and its owner's own hook is against it.
    let (grant, round) = ended(&deployment(3, false, &json!({})), "RolledBack", "CrashLoopBackOff");
    assert_eq!(grant.verify.crashes, None, "the kubelet tries again until the time is over");
    assert!(says(&round, "hitless.dev~1halted") && !says(&round, "hitless.dev~1way"), "{:?}", round.steps);
    let (_, round) = ended(&deployment(3, true, &json!({})), "RolledBack", "HookFailed");
    assert!(says(&round, "hitless.dev~1halted") && !says(&round, "hitless.dev~1way"), "{:?}", round.steps);
}

/// The version before did not start in place, and new pods serve: minutes of crashes would show the same again.
#[test]
fn after_a_version_that_served_from_new_pods_only_the_next_one_gets_new_pods_at_once() {
    let (_, round) = ended(&deployment(3, true, &json!({})), "RolledBack", "CrashLoopBackOff");
    assert!(says(&round, "hitless.dev~1in-place-failed"), "{:?}", round.steps);
    let failed = |at: &str, kept: &str| {
        let message =
            "the version did not start in place in pod web-1 (CrashLoopBackOff), where volume run is not emptied";
        let known = json!({"revision": "before", "at": at, "kept": kept, "message": message});
        json!({"hitless.dev/in-place-failed": known.to_string()})
    };
    let kept = "volume run is not emptied";
    let next = decide(&deployment(3, true, &failed(LONG_AGO, kept)));
    assert!(says(&next, "hitless.dev~1way") && says(&next, "hitless.dev~1in-place-failed"), "{:?}", next.steps);
    assert!(says(&next, "so this version gets new pods at once"), "{:?}", next.steps);
    assert_eq!(grants(&next), None, "nobody is operated meanwhile");
    assert_eq!(waits(&next), ["NativeRollout"; 3]);

    let is_in_place = |snapshot: &Snapshot| {
        let round = decide(snapshot);
        !says(&round, "hitless.dev~1way") && grants(&round).is_some()
    };
    assert!(is_in_place(&deployment(3, true, &failed(LONG_AGO, "volume tmp is not emptied"))), "it is another part");
    assert!(is_in_place(&deployment(3, true, &failed("2100-01-01T00:00:00.000000Z", kept))), "these pods are older");
    let mut only = failed(LONG_AGO, kept);
    only["hitless.dev/update"] = "in-place-only".into();
    assert!(is_in_place(&deployment(3, true, &only)), "its owner lets no pod be made anew");
}

/// The owner has gone back while a pod was being undone, and it does not start with the version that it has again either.
#[test]
fn a_pod_that_does_not_start_again_ends_with_new_pods_also_where_its_owner_has_gone_back_meanwhile() {
    let back = |annotations: &Value| {
        let snapshot = deployment(3, true, annotations);
        let mut grant = grants(&decide(&snapshot)).unwrap().remove(0);
        grant.annotations.get_mut("hitless.dev/revision").unwrap().to = Some("another".to_owned());
        let result = json!({"outcome": "Failed", "reason": "RollbackNotReady"});
        let report = json!([{"id": grant.id, "granted": grant.granted, "phase": "Returning", "since": grant.granted, "result": result}]);
        let target = grants(&decide(&snapshot)).unwrap().remove(0).annotations["hitless.dev/revision"].to.clone();
        let pods = snapshot.pods.iter().map(|pod| {
            let mut pod = hitless_api::pod::PodView::clone(pod);
            pod.containers[0].image = "r.io/web:v2".to_owned();
            pod.annotations.insert("hitless.dev/revision".to_owned(), target.clone().unwrap());
            if pod.id.uid == grant.pod.uid {
                let status = pod.containers[0].status.as_mut().unwrap();
                (status.waiting, status.running_since) = (Some("CrashLoopBackOff".to_owned()), None);
                pod.conditions.get_mut("Ready").unwrap().is_true = false;
            }
            Arc::new(pod)
        });
        let pods = pods.collect();
        let mut after = snapshot.with_pods(pods);
        after.evidence.insert(OperationKey::granted(&grant), Evidence::NotReady);
        after.ledgers.extend([ledger("shop", &[&grant])]);
        after.node_transitions.insert("n1".to_owned(), Arc::new(transition(vec![grant], &report)));
        decide(&after)
    };
    let round = back(&json!({}));
    assert!(says(&round, "hitless.dev~1way"), "{:?}", round.steps);
    assert!(says(&round, "does not start again"), "{:?}", round.steps);
    assert!(!says(&back(&json!({"hitless.dev/update": "in-place-only"})), "hitless.dev~1way"));
}

#[test]
fn where_no_pod_may_be_made_anew_it_is_halted_and_the_reason_names_what_a_new_pod_would_renew() {
    let only = deployment(3, true, &json!({"hitless.dev/update": "in-place-only"}));
    let (grant, round) = ended(&only, "RolledBack", "CrashLoopBackOff");
    assert_eq!(grant.verify.crashes, None);
    assert!(says(&round, "hitless.dev~1halted") && !says(&round, "hitless.dev~1way"), "{:?}", round.steps);
    assert!(says(&round, "in place volume run is not emptied, and its owner lets no pod be made anew"));
}

#[test]
fn a_version_that_ran_in_its_companion_is_not_bad_because_it_does_not_start_in_place() {
    let target = |snapshot: &Snapshot| {
        let grant = grants(&decide(snapshot)).unwrap().remove(0);
        grant.annotations["hitless.dev/revision"].to.clone().unwrap()
    };
    let tried = |outcome: &str| {
        let revision = target(&deployment(1, false, &json!({})));
        json!({"hitless.dev/tried": json!({"revision": revision, "outcome": outcome}).to_string()})
    };
    for reason in ["CrashLoopBackOff", "ProgressDeadlineExceeded"] {
        let (grant, round) = ended(&deployment(1, false, &tried("Good")), "RolledBack", reason);
        assert_eq!((grant.verify.alone, grant.verify.crashes), (true, None), "natively the pod before would serve");
        assert!(says(&round, "hitless.dev~1way") && !says(&round, "hitless.dev~1halted"), "{:?}", round.steps);
        assert!(says(&round, "the version has run in its companion pod"), "{:?}", round.steps);
        let (_, round) = ended(&deployment(1, false, &tried("Skipped")), "RolledBack", reason);
        assert!(says(&round, "hitless.dev~1halted") && !says(&round, "hitless.dev~1way"), "{:?}", round.steps);
    }
    let (_, round) = ended(&deployment(1, false, &tried("Good")), "RolledBack", "HookFailed");
    assert!(!says(&round, "hitless.dev~1way"), "the version starts, and its owner's own hook is against it");
}

/// Natively no other pod would run beside it either, so a lease of the process before is waited for as it would be there.
#[test]
fn the_only_pod_of_a_stateful_set_may_crash_some_times() {
    let three = rollout([(V1, Is::Ready), (V1, Is::Ready), (V1, Is::Ready)]);
    let only = three.pods[..1].to_vec();
    let grants = granted(&decide(&three.with_pods(only)));
    let verify: Vec<_> = grants.iter().map(|grant| (grant.verify.alone, grant.verify.crashes)).collect();
    assert_eq!(verify, [(true, Some(5))]);
}

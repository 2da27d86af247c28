//! Pods that are not Ready in the middle of a rollout, or before it.

use std::sync::Arc;

use hitless_gate::Allows;
use hitless_rollout::round::{Round, WaitReason};
use hitless_rollout::snapshot::Snapshot;
use hitless_workloads::Object;
use serde_json::{Value, json};

use crate::scene::{LONG_AGO, decide, view};
use crate::stateful_set::{below_the_partition, granted, pod};

pub(crate) const V1: [&str; 2] = ["web:v1", "old"];
pub(crate) const V2: [&str; 2] = ["web:v2", "new"];

/// How a pod is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Is {
    Ready,
    /// Its container runs, and its readiness probe fails.
    Unready,
    Crashing,
}

pub(crate) fn a_pod(number: usize, [image, revision]: [&str; 2], is: Is) -> Value {
    let mut pod = pod(&format!("web-{number}"), image, revision, LONG_AGO);
    let status = &mut pod["status"];
    if is != Is::Ready {
        status["conditions"][0]["status"] = "False".into();
        status["containerStatuses"][0]["ready"] = false.into();
    }
    if is == Is::Crashing {
        status["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    }
    pod
}

/// A StatefulSet of three in mid-rollout to v2.
pub(crate) fn rollout(pods: [([&str; 2], Is); 3]) -> Snapshot {
    let mut snapshot = below_the_partition();
    let raise = |object: &Arc<Object>| {
        let mut object = Object::clone(object);
        if object.stateful_set().is_some() {
            object
                .annotations
                .insert("hitless.dev/update-strategy".to_owned(), r#"{"type":"RollingUpdate"}"#.to_owned());
        }
        Arc::new(object)
    };
    snapshot.objects = snapshot.objects.iter().map(raise).collect();
    let pods = pods.into_iter().enumerate().map(|(number, (version, is))| Arc::new(view(&a_pod(number, version, is))));
    snapshot.with_pods(pods.collect())
}

fn goes(round: &Round) -> Vec<String> {
    let mut names: Vec<String> = granted(round).into_iter().map(|grant| grant.pod.name).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_version_that_nobody_has_verified_goes_to_no_second_pod_while_all_probes_fail() {
    for old in [Is::Unready, Is::Crashing] {
        let round = decide(&rollout([(V1, old), (V1, old), (V2, Is::Unready)]));
        assert_eq!(goes(&round), Vec::<String>::new());
        for verdict in &round.verdicts {
            assert_eq!(verdict.waiting, Some(WaitReason::Rules));
            let text = verdict.text().unwrap();
            assert!(text.contains("1 other is being tried (at most 1)"), "{text}");
        }
    }
}

#[test]
fn an_old_version_that_is_broken_on_all_pods_is_mended_one_pod_after_the_other() {
    for old in [Is::Unready, Is::Crashing] {
        let first = granted(&decide(&rollout([(V1, old), (V1, old), (V1, old)])));
        let first: Vec<_> = first.iter().map(|grant| (grant.pod.name.as_str(), grant.while_unavailable)).collect();
        assert_eq!(first, [("web-2", true)]);
    }
    let second = decide(&rollout([(V1, Is::Unready), (V1, Is::Unready), (V2, Is::Ready)]));
    assert_eq!(goes(&second), ["web-1"]);
}

#[test]
fn pods_that_crash_get_a_verified_version_at_once() {
    let round = decide(&rollout([(V1, Is::Crashing), (V1, Is::Crashing), (V2, Is::Ready)]));
    let free = round.verdicts.iter().filter(|verdict| {
        let rules = verdict.gate.iter().flat_map(|gate| &gate.rules);
        rules.into_iter().all(|rule| rule.because == Allows::AlreadyUnavailable) && verdict.gate.is_some()
    });
    assert_eq!(free.count(), 2, "{:?}", round.verdicts);
}

#[test]
fn a_single_pod_that_is_not_ready_gets_another_version() {
    for old in [Is::Unready, Is::Crashing] {
        let snapshot = rollout([(V1, old), (V1, old), (V1, old)]);
        let only = vec![snapshot.pods[0].clone()];
        assert_eq!(goes(&decide(&snapshot.with_pods(only))), ["web-0"]);
    }
}

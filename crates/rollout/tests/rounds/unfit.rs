//! A pod that does not start with the version before either.

use std::sync::Arc;

use hitless_api::Grant;
use hitless_rollout::round::{Round, Write};
use hitless_rollout::snapshot::{Evidence, OperationKey, Snapshot};
use hitless_workloads::Object;
use serde_json::json;

use crate::blips::Is;
use crate::dependency::{first, others};
use crate::scene::{decide, now};

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

fn with(snapshot: Snapshot, name: &str, value: &str) -> Snapshot {
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
    let mark = written.steps.iter().find_map(|step| match &step.write {
        Write::Workload(write) if write.verb == "go-natively" => Some(format!("{:?}", write.request)),
        _ => None,
    });
    assert!(mark.is_some());
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
    let removals: Vec<String> = round
        .steps
        .iter()
        .filter_map(|step| match &step.write {
            Write::Ledger(write) => Some(write.spec.reservations.values()),
            _ => None,
        })
        .flatten()
        .filter(|reservation| reservation.removal && reservation.since.0 >= now())
        .map(|reservation| reservation.pod.clone())
        .collect();
    assert_eq!(removals, ["web-2"], "{:?}", round.steps);
    assert!(!says(&round, "updateStrategy"), "{:?}", round.steps);
}

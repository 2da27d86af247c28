//! OpenKruise's own sequences (the announcement of maxSurge; facts/openkruise.md §3.9), step by step. The gate's part is played here: at most
//! as many pods are operated at a time as CloneSets' limits say.

use serde_json::{Value, json};

use super::cluster::{Cluster, rest};

fn surging(policy: &str, unavailable: i64) -> Cluster {
    Cluster::running(
        5,
        &json!({"updateStrategy": {"type": policy, "maxSurge": "20%", "maxUnavailable": unavailable, "partition": 3}}),
    )
}

/// Old and new pods, available ones, and all.
fn counts(cluster: &Cluster) -> [usize; 4] {
    [cluster.count("web:v1"), cluster.count("web:v2"), cluster.available(), cluster.pods().len()]
}

/// UPDATED, UPDATED_READY, READY, TOTAL.
fn columns(cluster: &Cluster) -> [i64; 4] {
    ["updatedReplicas", "updatedReadyReplicas", "readyReplicas", "replicas"].map(|field| cluster.status(field))
}

fn partition(cluster: &mut Cluster, kept: i64) {
    cluster.change(|spec| spec["updateStrategy"]["partition"] = json!(kept));
}

/// Runs to the end: one pod is operated whenever one more than `least` is available. Every state that differs in its counts is kept.
fn steps(cluster: &mut Cluster, least: usize) -> Vec<[usize; 4]> {
    let mut seen = vec![counts(cluster)];
    for _ in 0..100 {
        for kubelets in [false, true] {
            let plan = rest(cluster, kubelets);
            let now = counts(cluster);
            if seen.last() != Some(&now) {
                seen.push(now);
            }
            if kubelets && plan.desired.is_empty() {
                return seen;
            }
            if kubelets && cluster.available() > least {
                cluster.operate(&plan, 1);
            }
        }
    }
    panic!("it never comes to its end: {seen:?}");
}

/// A: replicas 5, maxSurge 20%, maxUnavailable 0, partition 3, then 0, by new pods. One pod is always extra, never one missing.
#[test]
fn the_announcements_example_by_new_pods() {
    let mut cluster = surging("ReCreate", 0);
    assert_eq!(columns(&cluster), [5, 5, 5, 5]);
    cluster.image("web:v2");
    rest(&mut cluster, false);
    assert_eq!((counts(&cluster), columns(&cluster)), ([5, 1, 5, 6], [1, 0, 5, 6]), "the extra pod is new");
    let first = steps(&mut cluster, 5);
    assert_eq!((counts(&cluster), columns(&cluster)), ([3, 2, 5, 5], [2, 2, 5, 5]));
    assert!(
        first.iter().all(|[old, new, available, all]| *available >= 5 && old + new == *all && *all <= 6),
        "{first:?}"
    );
    partition(&mut cluster, 0);
    rest(&mut cluster, false);
    assert_eq!((counts(&cluster), columns(&cluster)), ([3, 3, 5, 6], [3, 2, 5, 6]));
    let second = steps(&mut cluster, 5);
    assert_eq!((counts(&cluster), columns(&cluster)), ([0, 5, 5, 5], [5, 5, 5, 5]));
    assert!(second.iter().all(|[_, _, available, all]| *available >= 5 && *all <= 6), "{second:?}");
}

/// B: the same in place.
#[test]
fn the_announcements_example_in_place() {
    let mut cluster = surging("InPlaceIfPossible", 0);
    let before = cluster.uids();
    cluster.image("web:v2");
    let first = steps(&mut cluster, 5);
    assert_eq!(first, [[5, 0, 5, 5], [5, 1, 5, 6], [5, 1, 6, 6], [4, 2, 6, 6], [3, 2, 5, 5]]);
    assert_eq!(columns(&cluster), [2, 2, 5, 5]);
    assert_eq!(
        cluster.uids().intersection(&before).count(),
        4,
        "one of the extra pod's age took the place of one that was there"
    );
    partition(&mut cluster, 0);
    let second = steps(&mut cluster, 5);
    assert_eq!(second.last(), Some(&[0, 5, 5, 5]), "{second:?}");
    assert!(second.iter().all(|[_, _, available, all]| *available >= 5 && *all <= 6), "{second:?}");
}

/// C and D: with maxUnavailable 1 an old pod may go before the extra one is available.
#[test]
fn with_an_unavailable_pod_the_extra_one_is_not_waited_for() {
    for (policy, old) in [("ReCreate", 5), ("InPlaceIfPossible", 5)] {
        let mut cluster = surging(policy, 1);
        cluster.image("web:v2");
        let plan = rest(&mut cluster, false);
        assert_eq!(counts(&cluster), [old, 1, 5, 6], "{policy}");
        // Whether one of the wishes may begin is the gate's to say: four of five are enough, and extra pods make room.
        assert!(!plan.desired.is_empty(), "{policy}");
        let end = steps(&mut cluster, 4);
        assert_eq!(counts(&cluster), [3, 2, 5, 5], "{policy}");
        assert!(end.iter().all(|[_, _, available, all]| *available >= 4 && *all <= 6), "{policy}: {end:?}");
    }
}

/// Without surge: never one more, and with partition as many as are meant.
#[test]
fn phases_by_partition_without_surge() {
    let strategy = json!({"updateStrategy": {"type": "InPlaceIfPossible", "partition": "80%"}});
    let mut cluster = Cluster::running(10, &strategy);
    cluster.image("web:v2");
    let steps_of = |cluster: &mut Cluster| steps(cluster, 8).into_iter().map(|[_, _, _, all]| all).max();
    assert_eq!(steps_of(&mut cluster), Some(10));
    assert_eq!((cluster.count("web:v2"), cluster.status("expectedUpdatedReplicas")), (2, 2));
    for (kept, updated) in [("50%", 5), ("99%", 5), ("0%", 10)] {
        cluster.change(|spec| spec["updateStrategy"]["partition"] = Value::from(kept));
        assert_eq!(steps_of(&mut cluster), Some(10));
        assert_eq!(cluster.count("web:v2"), updated, "{kept}: a larger partition takes nothing back");
    }
}

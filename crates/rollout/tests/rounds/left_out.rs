//! Namespaces about which too little is known.

use std::sync::Arc;

use hitless_api::ledger::CLUSTER;
use hitless_api::pod::PodView;
use hitless_api::{Grant, Reservation, TransitionLedgerSpec};
use hitless_gate::Budget;
use hitless_rollout::round::write::node_content;
use hitless_rollout::round::{Lasting, WaitReason};
use hitless_rollout::snapshot::{LedgerView, LeftOut, NodeTransitionView, Snapshot, Unread, Version};
use hitless_workloads::Write;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::scene::{self, decide, meta, now, snapshot, template, transition, view, written};

const LONG_AGO: &str = scene::LONG_AGO;

fn at(namespace: &str, name: &str) -> Value {
    let mut meta = meta(name);
    (meta["namespace"], meta["uid"]) = (json!(namespace), json!(format!("uid-{namespace}-{name}")));
    meta
}

/// A Deployment and a pod. `held`: the pod is its own, it has opted in, and is to get another image.
fn deployed(namespace: &str, held: bool) -> (Vec<Value>, PodView) {
    let owned = |by: &str, kind: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": by, "uid": format!("uid-{namespace}-{by}"), "controller": true}]);
    let mut web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": at(namespace, "web"),
        "spec": {"replicas": 1, "paused": held, "template": template("r.io/web:v2"), "selector": {"matchLabels": {"app": "web"}}}, "status": {"observedGeneration": 1}});
    if held {
        web["metadata"]["annotations"] =
            json!({"hitless.dev/update": "in-place", "hitless.dev/rollout": "held", "hitless.dev/companion": "Never"});
    }
    let mut set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": at(namespace, "web-1"),
        "spec": {"replicas": 1, "template": template("r.io/web:v1"), "selector": {"matchLabels": {"app": "web"}}},
        "status": {"replicas": 1, "observedGeneration": 1}});
    set["metadata"]["ownerReferences"] = owned("web", "Deployment");
    let mut metadata = at(namespace, "web-1-a");
    metadata["labels"] = json!({"app": "web"});
    if held {
        metadata["ownerReferences"] = owned("web-1", "ReplicaSet");
    }
    (
        vec![web, set],
        view(&scene::pod(&metadata, "r.io/web:v1", &format!("r.io/web@sha256:{}", "1".repeat(64)), LONG_AGO)),
    )
}

fn reservation(grant: &Grant) -> Reservation {
    serde_json::from_value(
        json!({"id": grant.id, "pod": grant.pod.name, "node": "n1", "since": grant.granted, "images": {}}),
    )
    .unwrap()
}

pub(crate) fn ledger(namespace: &str, grants: &[&Grant]) -> (String, Arc<LedgerView>) {
    let reservations = grants.iter().map(|grant| (grant.pod.uid.clone(), reservation(grant))).collect();
    let mut spec = TransitionLedgerSpec { reservations, ..TransitionLedgerSpec::default() };
    (spec.leader.epoch, spec.leader.holder) = (1, "a".to_owned());
    let version = Version { uid: format!("uid-ledger-{namespace}"), resource_version: "1".to_owned() };
    (namespace.to_owned(), Arc::new(LedgerView { namespace: namespace.to_owned(), version, spec }))
}

/// Two namespaces with the same, of which `dark` is not known.
fn both(held: bool) -> Snapshot {
    let (mut objects, light) = deployed("light", held);
    let (more, dark) = deployed("dark", held);
    objects.extend(more);
    let both = snapshot(&objects, light.clone(), &["r.io/web:v1", "r.io/web:v2"]);
    both.with_pods(vec![Arc::new(light), Arc::new(dark)])
}

/// A rollout in each.
fn two() -> Snapshot {
    both(true)
}

fn leave_out(mut snapshot: Snapshot, since: SignedDuration) -> Snapshot {
    let left_out = LeftOut { unread: Unread::Pods, since: now() - since };
    snapshot.left_out.insert("dark".to_owned(), left_out);
    snapshot
}

fn steps(snapshot: &Snapshot) -> Vec<String> {
    decide(snapshot).steps.iter().map(|step| step.write.key()).collect()
}

/// A restart in each, and the grants of it.
pub(crate) fn granted() -> (Snapshot, Vec<Grant>) {
    let snapshot = both(false);
    let asked = snapshot.pods.iter().map(|pod| {
        let mut pod = PodView::clone(pod);
        pod.annotations.insert("hitless.dev/restart".to_owned(), "now".to_owned());
        Arc::new(pod)
    });
    let snapshot = Snapshot { pods: asked.collect(), ..snapshot };
    let round = decide(&snapshot);
    let grants = scene::grants(&round).unwrap_or_default();
    assert_eq!(grants.len(), 2, "both go as long as both are known: {:?}", round.verdicts);
    (snapshot, grants)
}

#[test]
fn nothing_begins_in_a_namespace_that_is_left_out_and_the_others_go_on() {
    let keys = steps(&two());
    assert!(keys.iter().any(|key| key.contains("dark/")) && keys.iter().any(|key| key.contains("light/")), "{keys:?}");
    let keys = steps(&leave_out(two(), SignedDuration::ZERO));
    assert!(keys.iter().all(|key| !key.contains("dark")) && keys.iter().any(|key| key.contains("light/")), "{keys:?}");

    let (asked, _) = granted();
    let round = decide(&leave_out(asked, SignedDuration::ZERO));
    let grants: Vec<_> = scene::grants(&round).unwrap().iter().map(|grant| grant.pod.namespace.clone()).collect();
    assert_eq!(grants, ["light"]);
    let waits: Vec<_> = round.verdicts.iter().filter_map(|verdict| verdict.waiting.as_ref()).collect();
    assert_eq!(waits, [&WaitReason::NamespaceUnread(Unread::Pods)]);
    let ledgers: Vec<_> = written(&round, "ledger").into_iter().map(Write::key).collect();
    assert_eq!(ledgers, ["ledger/light"]);
}

#[test]
fn where_more_is_written_than_can_be_kept_pods_wait_and_their_workload_is_told_what_to_do() {
    let told = LeftOut::TOLD_AFTER;
    let (asked, _) = granted();
    let mut snapshot = leave_out(asked, told);
    snapshot.left_out.insert("dark".to_owned(), LeftOut { unread: Unread::TooMuch, since: now() - told });
    let round = decide(&snapshot);
    let waits: Vec<_> = round.verdicts.iter().filter_map(|verdict| verdict.waiting.as_ref()).collect();
    let [waiting] = waits[..] else { panic!("{waits:?}") };
    assert!(waiting.reason() == "NamespaceTooLarge" && waiting.text().contains("128 MiB"), "{waiting:?}");
    assert_eq!(waiting.lasting(), Lasting::ByChange);
}

#[test]
fn what_is_under_way_there_is_neither_ended_nor_forgotten() {
    let (asked, grants) = granted();
    let reported = |grant: &Grant| {
        json!({"id": grant.id, "granted": grant.granted, "phase": "Returning", "since": grant.granted,
        "message": "", "result": {"outcome": "Cancelled", "reason": "x"}})
    };
    let reports = Value::from(grants.iter().map(reported).collect::<Vec<_>>());
    let ended = NodeTransitionView {
        transitions: serde_json::from_value(reports).unwrap(),
        ..transition(grants.clone(), &json!([]))
    };
    for (stage, node) in [
        ("ended", ended),
        ("running", transition(grants.clone(), &json!([]))),
        ("lost", transition(Vec::new(), &json!([]))),
    ] {
        let mut seen = asked.clone();
        seen.node_transitions.insert("n1".to_owned(), Arc::new(node));
        for grant in &grants {
            seen.ledgers.extend([ledger(&grant.pod.namespace, &[grant])]);
        }
        // Its pods are not known, and neither are the workloads that they belong to.
        let seen = Snapshot {
            pods: seen.pods.iter().filter(|pod| pod.id.namespace != "dark").cloned().collect(),
            objects: seen.objects.iter().filter(|object| object.id.namespace != "dark").cloned().collect(),
            ..seen
        };
        let round = decide(&leave_out(seen, SignedDuration::ZERO));
        for step in &round.steps {
            match step.write.verb {
                "ledger" => assert_eq!(step.write.namespace(), Some("light"), "{stage}: {:?}", round.steps),
                "node-transition" => {
                    let spec = node_content(&step.write).unwrap();
                    let kept: Vec<&Grant> = spec.grants.iter().filter(|grant| grant.pod.namespace == "dark").collect();
                    let before: Vec<&Grant> = if stage == "lost" {
                        Vec::new()
                    } else {
                        grants.iter().filter(|grant| grant.pod.namespace == "dark").collect()
                    };
                    assert_eq!(kept, before, "{stage}");
                }
                // By it agents go on with what is under way.
                "role-binding" => {}
                _ => assert!(!step.write.key().contains("dark"), "{stage}: {}", step.write.key()),
            }
        }
        assert!(round.reads.iter().all(|read| read.pod.namespace != "dark"), "{stage}: {:?}", round.reads);
    }
}

#[test]
fn what_counts_the_whole_cluster_waits_until_all_pods_are_known() {
    let (mut asked, _) = granted();
    let spec = json!({"scope": "Cluster", "selector": {}, "maxUnavailable": 2});
    let budget = Budget {
        name: "all".into(),
        namespace: "hitless-system".into(),
        uid: "all".into(),
        spec: serde_json::from_value(spec).unwrap(),
        unreadable: None,
    };
    asked.budgets = vec![Arc::new(budget)];
    assert_eq!(scene::grants(&decide(&asked)).map(|grants| grants.len()), Some(2));
    asked.uncounted = true;
    let round = decide(&asked);
    assert_eq!(scene::grants(&round), None);
    assert!(round.verdicts.iter().all(|verdict| verdict.waiting == Some(WaitReason::PodNotCached)));
    assert!(round.steps.iter().all(|step| step.write.key() != format!("ledger/{CLUSTER}")));
}

#[test]
fn people_are_told_once_it_takes_longer_than_a_leader_needs() {
    let told = |since| {
        let notes = decide(&leave_out(two(), since)).events;
        assert!(
            notes
                .iter()
                .all(|note| note.reason == "NamespaceUnread" || note.regarding.namespace.as_deref() != Some("dark")),
            "{notes:?}"
        );
        notes.into_iter().find(|note| note.reason == "NamespaceUnread")
    };
    assert_eq!(told(SignedDuration::from_secs(14)), None);
    let note = told(SignedDuration::from_secs(15)).unwrap();
    assert_eq!((note.regarding.kind.as_deref(), note.regarding.name.as_deref()), (Some("Deployment"), Some("web")));
    assert!(note.text.contains("its pods since 2026-01-02T23:59:45Z"), "{}", note.text);
}

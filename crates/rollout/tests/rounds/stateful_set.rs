//! A StatefulSet of which some pods are kept at the version before.

use std::sync::Arc;

use hitless_api::pod::PodView;
use hitless_api::{Grant, TransitionBudget};
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::round::{Lasting, Round, WaitReason, explain};
use hitless_rollout::snapshot::{AgentState, NodeTransitionView, NodeView, Snapshot};
use hitless_workloads::{Body, Object, registry};
use serde_json::{Value, json};

use crate::scene::{self, decide, read, template, transition, view};

fn meta(name: &str, created: &str) -> Value {
    let mut meta = scene::meta(name);
    meta["generation"] = 2.into();
    meta["creationTimestamp"] = created.into();
    meta
}

fn owned(mut object: Value) -> Value {
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web", "controller": true}]);
    object
}

fn revision(name: &str, number: i64, created: &str, image: &str) -> Value {
    let mut object =
        owned(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta(name, created),
        "revision": number, "data": {"spec": {"template": template(image)}}}));
    object["metadata"]["labels"] = json!({"controller-revision-hash": name});
    object
}

pub(crate) fn pod(name: &str, image: &str, revision: &str, created: &str) -> Value {
    let mut object = owned(scene::pod(&meta(name, created), image, "", created));
    object["metadata"]["labels"] = json!({"app": "web", "controller-revision-hash": revision});
    object
}

/// A StatefulSet with `partition: 1` in mid-change. Its only pod was deleted meanwhile and came up at the new version.
pub(crate) fn below_the_partition() -> Snapshot {
    with_revisions([(1, "2026-01-01T00:00:00Z"), (2, "2026-01-02T00:00:00Z")])
}

/// The same; number and time of the old and of the new revision.
fn with_revisions([old, new]: [(i64, &str); 2]) -> Snapshot {
    let (first, third) = ("2026-01-01T00:00:00Z", "2026-01-02T01:00:00Z");
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    let mut set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta("web", first),
        "spec": {"replicas": 1, "template": template("web:v2"), "updateStrategy": strategy},
        "status": {"observedGeneration": 2, "updateRevision": "new", "currentRevision": "old", "updatedReplicas": 1}});
    set["metadata"]["annotations"] = json!({"hitless.dev/update": "in-place"});
    let held = registry::of_workload(&read(&set).id.group_kind).unwrap().held(set);
    let objects = [held, revision("old", old.0, old.1, "web:v1"), revision("new", new.0, new.1, "web:v2")];
    scene::snapshot(&objects, view(&pod("web-0", "web:v2", "new", third)), &["web:v1", "web:v2"])
}

/// The template went back to the old revision once, which has the highest number since.
#[test]
fn a_pod_below_the_partition_goes_back_also_where_both_revisions_are_of_the_same_second() {
    let second = "2026-01-01T00:00:00Z";
    let snapshot = with_revisions([(3, second), (2, second)]);
    let to: Vec<String> = granted(&decide(&snapshot)).iter().map(|grant| grant.containers["web"].to.clone()).collect();
    assert_eq!(to, ["web:v1"]);
}

pub(crate) fn granted(round: &Round) -> Vec<Grant> {
    scene::grants(round).unwrap_or_default()
}

/// The grant's node, whose agent has judged the operation bad.
fn rolled_back(grant: &Grant) -> NodeTransitionView {
    let report = json!({"id": grant.id, "granted": grant.granted, "phase": "Returning", "since": grant.granted,
        "message": "not ready", "result": {"outcome": "RolledBack", "reason": "ProgressDeadline"}});
    transition(vec![grant.clone()], &json!([report]))
}

#[test]
fn a_pod_below_the_partition_whose_way_back_fails_is_not_helped_by_another_image() {
    let mut snapshot = below_the_partition();
    let grants = granted(&decide(&snapshot));
    assert_eq!(grants.iter().map(|grant| grant.containers["web"].to.as_str()).collect::<Vec<_>>(), ["web:v1"]);
    snapshot.node_transitions.insert("n1".to_owned(), Arc::new(rolled_back(&grants[0])));
    let after = decide(&snapshot);
    let Some(halted @ WaitReason::Halted { way_back: true, .. }) = &after.verdicts[0].waiting else {
        panic!("{:?}", after.verdicts)
    };
    assert_eq!(
        halted.text(),
        "the partition keeps pod web-0 at the version before, and its operation back to that ended as \
         RolledBack/ProgressDeadline; delete the pod to try again, or lower the partition so that it keeps the new version"
    );
    let note = after.events.iter().find(|note| note.reason == "PodRolledBack").unwrap();
    assert_eq!(note.regarding.kind.as_deref(), Some("StatefulSet"));
    assert!(note.text.contains("lower the partition"), "{}", note.text);

    // What is advised helps: its owner lowers the partition, and nothing is left to be done.
    let lower = |object: &Arc<Object>| {
        let mut object = Object::clone(object);
        if let Some(kept) = object.annotations.get_mut("hitless.dev/update-strategy") {
            *kept = r#"{"type":"RollingUpdate","rollingUpdate":{"partition":0}}"#.to_owned();
        }
        Arc::new(object)
    };
    snapshot.objects = snapshot.objects.iter().map(lower).collect();
    let lowered = decide(&snapshot);
    assert_eq!(lowered.verdicts, []);
    // Or the pod is another one.
    let mut snapshot = below_the_partition();
    snapshot.node_transitions.insert("n1".to_owned(), Arc::new(rolled_back(&grants[0])));
    let pods = snapshot.pods.iter().map(|pod| {
        let mut pod = PodView::clone(pod);
        "uid-another".clone_into(&mut pod.id.uid);
        Arc::new(pod)
    });
    let pods = pods.collect();
    let again = decide(&snapshot.with_pods(pods));
    assert_eq!(granted(&again).last().map(|grant| grant.pod.uid.as_str()), Some("uid-another"));
}

/// An operation is under way, and then the agent of its node is away: the owner is told on his workload, not only that it goes on.
#[test]
fn an_operation_whose_agent_is_away_is_told_once_that_lasts() {
    let mut snapshot = below_the_partition();
    let grants = granted(&decide(&snapshot));
    snapshot.node_transitions.insert("n1".to_owned(), Arc::new(transition(grants, &json!([]))));
    let told = |since: Option<&str>| {
        let mut snapshot = snapshot.clone();
        let state = since.map_or(AgentState::Ready, |since| AgentState::MissingSince(since.parse().unwrap()));
        snapshot.agents.insert("n1".to_owned(), state);
        let round = decide(&snapshot);
        let note = round.events.into_iter().find(|note| note.reason == "AgentNotReady");
        note.map(|note| (note.regarding.kind.unwrap(), note.text))
    };
    assert_eq!(
        (told(None), told(Some("2026-01-02T23:59:30Z"))),
        (None, None),
        "an agent that is updated is away for a moment"
    );
    let (kind, text) = told(Some("2026-01-02T23:50:00Z")).unwrap();
    assert_eq!(kind, "StatefulSet");
    assert!(
        text.starts_with("pod web-0 is being operated, and does not go on: no Ready hitless-agent is on its node n1"),
        "{text}"
    );
    assert!(text.contains("kubectl -n hitless-system describe pods"), "{text}");
}

/// A StatefulSet of three with `minReadySeconds: 30`, of which web-2 has the new version and is Ready since then.
fn after_the_first(ready_since: &str) -> Snapshot {
    let mut snapshot = below_the_partition();
    let raise = |object: &Arc<Object>| {
        let mut object = Object::clone(object);
        if object.stateful_set().is_some() {
            object.min_ready_seconds = 30;
            if let Body::StatefulSet(set) = &mut object.body {
                set.replicas = 3;
            }
            let strategy = r#"{"type":"RollingUpdate"}"#.to_owned();
            object.annotations.insert("hitless.dev/update-strategy".to_owned(), strategy);
        }
        Arc::new(object)
    };
    snapshot.objects = snapshot.objects.iter().map(raise).collect();
    let first = "2026-01-01T00:00:00Z";
    let pods = [
        pod("web-0", "web:v1", "old", first),
        pod("web-1", "web:v1", "old", first),
        pod("web-2", "web:v2", "new", ready_since),
    ];
    let pods = pods.map(|pod| Arc::new(view(&pod)));
    snapshot.with_pods(pods.to_vec())
}

#[test]
fn the_next_pod_goes_once_the_one_before_has_been_ready_for_min_ready_seconds() {
    let early = decide(&after_the_first("2026-01-02T23:59:40Z"));
    assert_eq!(granted(&early), []);
    let waits: Vec<_> = early.verdicts.iter().map(|verdict| verdict.text().unwrap()).collect();
    assert!(waits.iter().all(|text| text.contains("web-2")), "{waits:?}");
    assert_eq!(early.wake_at, Some("2026-01-03T00:00:10Z".parse().unwrap()));
    let late = decide(&after_the_first("2026-01-02T23:59:30Z"));
    assert_eq!(granted(&late).iter().map(|grant| grant.pod.name.as_str()).collect::<Vec<_>>(), ["web-1"]);
}

#[test]
fn where_the_workloads_cannot_be_read_nothing_begins_and_nothing_that_is_under_way_ends() {
    let unreadable = |snapshot: Snapshot| {
        let kinds = [hitless_api::GroupKind::new("apps", "StatefulSet")].into();
        Snapshot { objects: Vec::new(), unreadable: kinds, ..snapshot }
    };
    let mut snapshot = below_the_partition();
    let grant = granted(&decide(&snapshot)).remove(0);
    let bad = rolled_back(&grant);
    let running = NodeTransitionView { transitions: Vec::new(), ..bad.clone() };
    for known in [running, bad] {
        snapshot.node_transitions.insert("n1".to_owned(), Arc::new(known));
        let round = decide(&unreadable(snapshot.clone()));
        let writes: Vec<_> =
            round.steps.iter().map(|step| step.write.key()).filter(|key| key.starts_with("node")).collect();
        assert_eq!(writes, Vec::<String>::new(), "the grant stays, and what it has shown");
    }
    snapshot.node_transitions.clear();
    let desired = snapshot.pods.iter().map(|pod| {
        let mut pod = PodView::clone(pod);
        pod.annotations.insert("hitless.dev/restart".to_owned(), "now".to_owned());
        Arc::new(pod)
    });
    let desired = desired.collect();
    let round = decide(&unreadable(snapshot).with_pods(desired));
    let reasons: Vec<_> =
        round.verdicts.iter().filter_map(|verdict| verdict.waiting.as_ref()).map(WaitReason::reason).collect();
    assert_eq!(reasons, ["OwnerUnreadable"]);
}

/// Three pods of the old version, under a budget that is paused.
fn closed() -> Snapshot {
    let mut snapshot = after_the_first("2026-01-01T00:00:00Z");
    let first = "2026-01-01T00:00:00Z";
    let pods = ["web-0", "web-1", "web-2"].map(|name| Arc::new(view(&pod(name, "web:v1", "old", first))));
    let budget = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "TransitionBudget",
        "metadata": {"name": "closed", "namespace": "shop"}, "spec": {"selector": {}, "paused": true}});
    let budget: TransitionBudget = serde_json::from_value(budget).unwrap();
    snapshot.budgets = vec![Arc::new(budget.into())];
    snapshot.with_pods(pods.to_vec())
}

#[test]
fn who_waits_for_another_pods_turn_waits_for_what_that_one_does() {
    let snapshot = closed();
    let round = decide(&snapshot);
    let note = round.events.iter().find(|note| note.reason == "RolloutBlocked").unwrap();
    assert_eq!(note.text, "3 pods wait; pod web-2: budget:closed/paused: the budget is paused");
    let known = explain(&snapshot, &mut GateCache::default(), scene::now(), |_| false).pods;
    for name in ["web-0", "web-1", "web-2"] {
        assert_eq!(known[&format!("uid-{name}")].lasting, Some(Lasting::ByChange), "{name}");
    }
    let turn = round.verdicts.iter().find(|verdict| verdict.pod.name == "web-0").unwrap();
    assert_eq!((turn.waiting.as_ref().unwrap().reason(), turn.lasting()), ("NotItsTurn", Lasting::ByItself));
}

/// The first in order waits for its image, and may wait for ever; the last one serves nobody, and waits for nothing but its operation.
#[test]
fn a_pod_that_serves_nobody_goes_whatever_its_turn_is() {
    let of_pods = |change: fn(&mut Value)| {
        let first = "2026-01-01T00:00:00Z";
        let pods = ["web-0", "web-1", "web-2"].map(|name| {
            let mut pod = pod(name, "web:v1", "old", first);
            match name {
                "web-0" => change(&mut pod),
                "web-2" => pod["spec"]["nodeName"] = json!("n2"),
                _ => {}
            }
            Arc::new(view(&pod))
        });
        let mut snapshot = after_the_first(first).with_pods(pods.to_vec());
        let other = NodeView { name: "n2".to_owned(), uid: "uid-n2".to_owned(), ..NodeView::default() };
        snapshot.nodes.insert("n2".to_owned(), Arc::new(other));
        snapshot.agents.insert("n2".to_owned(), AgentState::Ready);
        let round = decide(&snapshot);
        let names: Vec<String> = granted(&round).into_iter().map(|grant| grant.pod.name).collect();
        (names, round)
    };
    let (names, round) = of_pods(|_| {});
    let waits = |round: &Round, name: &str| {
        let verdict = round.verdicts.iter().find(|verdict| verdict.pod.name == name).unwrap();
        verdict.waiting.as_ref().map(WaitReason::reason)
    };
    assert_eq!((names, waits(&round, "web-2")), (Vec::new(), Some("ImagePulling")));
    let (names, round) = of_pods(|pod| pod["status"]["conditions"][0]["status"] = json!("False"));
    assert_eq!(names, ["web-0"], "{:?}", round.verdicts);
}

/// Whether it is being deleted already or not, its turn never comes while its node is away.
#[test]
fn a_pod_behind_one_on_a_node_that_does_not_answer_says_so_and_what_helps() {
    let waits = |is_deleted: bool, away_since: &str| {
        let pods = ["web-0", "web-1", "web-2"].map(|name| {
            let mut pod = pod(name, "web:v1", "old", scene::LONG_AGO);
            if name == "web-2" {
                pod["spec"]["nodeName"] = json!("n2");
                pod["status"]["conditions"][0]["status"] = json!("False");
                pod["metadata"]["deletionTimestamp"] = is_deleted.then_some(away_since).into();
            }
            Arc::new(view(&pod))
        });
        let mut snapshot = after_the_first(scene::LONG_AGO).with_pods(pods.to_vec());
        let not_ready_since = Some(away_since.parse().unwrap());
        let other =
            NodeView { name: "n2".to_owned(), uid: "uid-n2".to_owned(), not_ready_since, ..NodeView::default() };
        snapshot.nodes.insert("n2".to_owned(), Arc::new(other));
        snapshot.agents.insert("n2".to_owned(), AgentState::MissingSince(away_since.parse().unwrap()));
        let round = decide(&snapshot);
        assert_eq!(granted(&round), []);
        let verdict = round.verdicts.into_iter().find(|verdict| verdict.pod.name == "web-1").unwrap();
        (verdict.lasting(), verdict.text().unwrap())
    };
    let expected = "pod web-2 comes before it, and the node n2 of that pod does not answer; it goes on when the node answers; if the \
         node is off for good: kubectl delete node n2";
    for is_deleted in [true, false] {
        let (lasting, text) = waits(is_deleted, "2026-01-02T23:50:00Z");
        assert_eq!((lasting, text.as_str()), (Lasting::BySomebody, expected), "deleted: {is_deleted}");
        let (lasting, text) = waits(is_deleted, "2026-01-02T23:59:50Z");
        assert_eq!(lasting, Lasting::ByItself, "it may be back in a moment: {text}");
        assert!(text.contains("it waits for web-2"), "{text}");
    }
}

/// It was made anew with the next version, which does not run: nothing is to be done to it, and the others wait for it.
#[test]
fn a_pod_behind_one_that_has_the_version_and_does_not_run_says_so_in_the_kubelets_words() {
    let pods = ["web-0", "web-1", "web-2"].map(|name| {
        let mut pod = pod(name, "web:v1", "old", scene::LONG_AGO);
        if name == "web-2" {
            pod = self::pod(name, "web:v2", "new", scene::LONG_AGO);
            pod["status"]["conditions"][0]["status"] = json!("False");
            let waiting = json!({"reason": "ImagePullBackOff", "message": "web:v2: not found"});
            pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": waiting});
        }
        Arc::new(view(&pod))
    });
    let round = decide(&after_the_first(scene::LONG_AGO).with_pods(pods.to_vec()));
    assert_eq!(granted(&round), []);
    let verdict = round.verdicts.iter().find(|verdict| verdict.pod.name == "web-1").unwrap();
    assert_eq!(
        (verdict.lasting(), verdict.text().unwrap().as_str()),
        (
            Lasting::BySomebody,
            "pod web-2 comes before it, has the version already, and does not run: container web: ImagePullBackOff: web:v2: not \
             found; it goes on once that pod is Ready; kubectl describe pod -n shop web-2 says more, or set another image"
        )
    );
}

/// All pods that are there have the version; the one that is missing is neither gone nor comes.
#[test]
fn a_rollout_that_ends_once_a_lost_pod_is_there_again_says_which_and_what_helps() {
    let pods = ["web-0", "web-1", "web-2"].map(|name| {
        let mut pod = pod(name, "web:v2", "new", scene::LONG_AGO);
        if name == "web-2" {
            pod["spec"]["nodeName"] = json!("n2");
            pod["status"]["conditions"][0]["status"] = json!("False");
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T23:55:00Z");
        }
        Arc::new(view(&pod))
    });
    let mut snapshot = after_the_first(scene::LONG_AGO).with_pods(pods.to_vec());
    let not_ready_since = Some("2026-01-02T23:50:00Z".parse().unwrap());
    let other = NodeView { name: "n2".to_owned(), uid: "uid-n2".to_owned(), not_ready_since, ..NodeView::default() };
    snapshot.nodes.insert("n2".to_owned(), Arc::new(other));
    let round = decide(&snapshot);
    let note = round.events.iter().find(|note| note.reason == "NodeLost").unwrap();
    let expected = "pod web-2 is on node n2, which does not answer, and the rollout ends once that pod is there again; it goes on when the \
         node answers; if the node is off for good: kubectl delete node n2";
    assert_eq!((note.text.as_str(), note.regarding.kind.as_deref()), (expected, Some("StatefulSet")));
    let known = explain(&snapshot, &mut GateCache::default(), scene::now(), |_| false);
    let set = known.workloads.iter().find(|known| known.name() == "statefulset/web").unwrap();
    assert_eq!(set.why.as_deref(), Some(expected), "`status` says what the Event says");
}

/// The same where it runs and is not Ready: nobody knows more before it has had the time that its owner allows.
#[test]
fn a_pod_behind_one_that_has_the_version_and_is_late_says_so_and_since_when() {
    let waits = |started: &str| {
        let pods = ["web-0", "web-1", "web-2"].map(|name| {
            let mut pod = pod(name, "web:v1", "old", scene::LONG_AGO);
            if name == "web-2" {
                pod = self::pod(name, "web:v2", "new", scene::LONG_AGO);
                pod["status"]["conditions"][0]["status"] = json!("False");
                pod["status"]["containerStatuses"][0]["state"] = json!({"running": {"startedAt": started}});
            }
            Arc::new(view(&pod))
        });
        let round = decide(&after_the_first(scene::LONG_AGO).with_pods(pods.to_vec()));
        let verdict = round.verdicts.iter().find(|verdict| verdict.pod.name == "web-1").unwrap();
        (verdict.lasting(), verdict.text().unwrap(), round.wake_at)
    };
    let (lasting, text, _) = waits("2026-01-02T23:45:00Z");
    let expected = "pod web-2 comes before it, has the version already, and is not Ready; the time that a start may take was over at \
         2026-01-02T23:55:00Z; it goes on once that pod is Ready; kubectl describe pod -n shop web-2 says more, or set another image";
    assert_eq!((lasting, text.as_str()), (Lasting::BySomebody, expected));
    let (lasting, text, wake_at) = waits("2026-01-02T23:55:00Z");
    assert_eq!(lasting, Lasting::ByItself, "{text}");
    assert_eq!(wake_at, Some("2026-01-03T00:05:00Z".parse().unwrap()), "then it is late");
}

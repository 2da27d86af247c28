//! What objects ask for, as a round decides it; and kinds that are left to KusionStack's own manager.

use std::sync::Arc;

use hitless_api::lifecycle::{self, Step};
use hitless_api::pod::PodView;
use hitless_api::{GrantMode, GrantOp};
use hitless_rollout::foreign_manager::{PresentManager, PresentManagers};
use hitless_rollout::mode::ServiceView;
use hitless_rollout::round::{Round, WaitReason};
use hitless_rollout::snapshot::{Evidence, NodeTransitionView, OperationKey, RuleView, Snapshot, Version};
use hitless_workloads::component::KUSIONSTACK;
use hitless_workloads::{Installed, Switch};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::scene::{self, LONG_AGO, agent, decide, grants, meta, transition, view};

fn job(spec: &Value, status: &Value) -> Value {
    let mut job = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "OperationJob", "metadata": meta("again"),
        "spec": {"action": "Restart", "targets": [{"name": "web"}], "activeDeadlineSeconds": 1_000_000}, "status": status});
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

fn colla_set() -> Value {
    json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "metadata": meta("set"),
        "spec": {"replicas": 1, "selector": {}, "template": {"spec": {"containers": []}}}})
}

fn pod(change: impl FnOnce(&mut Value)) -> PodView {
    let id = format!("r.io/web@sha256:{}", "1".repeat(64));
    let mut pod = scene::pod(&meta("web"), "r.io/web:v1", &id, LONG_AGO);
    pod["metadata"]["annotations"] = json!({});
    change(&mut pod);
    view(&pod)
}

fn snapshot(objects: &[Value], pod: PodView) -> Snapshot {
    scene::snapshot(objects, pod, &["r.io/web:v1"])
}

fn reasons(round: &Round) -> Vec<&'static str> {
    round.verdicts.iter().filter_map(|verdict| verdict.waiting.as_ref()).map(WaitReason::reason).collect()
}

#[test]
fn a_job_is_granted_like_a_restart_and_a_delay_makes_the_pod_leave() {
    let at_once = decide(&snapshot(&[job(&json!({}), &json!({}))], pod(|_| {})));
    let grant = grants(&at_once).unwrap().remove(0);
    assert_eq!(grant.mode, GrantMode::Hold, "it is the only pod");
    assert_eq!(grant.annotations["hitless.dev/restarted"].to.as_deref(), Some("job-uid-again"));
    assert!(at_once.steps.iter().any(|step| step.write.key().starts_with("report-job/")), "the job is taken on");
    let delayed = decide(&snapshot(&[job(&json!({"operationDelaySeconds": 90}), &json!({}))], pod(|_| {})));
    let grant = grants(&delayed).unwrap().remove(0);
    assert_eq!((grant.mode, grant.drain.min_seconds), (GrantMode::Leave, 90));
    assert!(grant.drain.deadline_seconds >= 90);
}

#[test]
fn no_other_restart_begins_before_the_job_says_what_was_done() {
    let both = |pod: &mut Value| {
        pod["metadata"]["annotations"] =
            json!({"hitless.dev/restarted": "job-uid-again", "hitless.dev/restart": "now"});
    };
    let waits = decide(&snapshot(&[job(&json!({}), &json!({}))], pod(both)));
    assert_eq!((reasons(&waits), grants(&waits)), (vec!["RestartNotRecorded"], None));
    let done = json!({"progress": "Succeeded", "targetDetails": [{"name": "web", "progress": "Succeeded"}]});
    let goes = decide(&snapshot(&[job(&json!({}), &done)], pod(both)));
    assert_eq!(grants(&goes).unwrap().len(), 1);
    let gone = decide(&snapshot(&[], pod(both)));
    assert_eq!(grants(&gone).unwrap().len(), 1, "nobody asks for that any more");
}

/// Restarts by annotation are told on the workload, once for each token; a job tells of itself.
#[test]
fn a_restart_that_was_asked_for_is_told_on_the_workload() {
    let asked = |pod: &mut Value| {
        pod["metadata"]["annotations"] = json!({"hitless.dev/restart": "now"});
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "uid-db", "controller": true}]);
    };
    let told = |round: &Round| {
        let events = round.events.iter().filter(|note| note.reason == "RestartRequested");
        events.map(|note| (note.regarding.name.clone().unwrap(), note.text.clone())).collect::<Vec<_>>()
    };
    let text = "its pods are to be restarted in place: hitless.dev/restart on them is now";
    assert_eq!(told(&decide(&snapshot(&[], pod(asked)))), [("db".to_owned(), text.to_owned())]);
    assert!(told(&decide(&snapshot(&[job(&json!({}), &json!({}))], pod(|_| {})))).is_empty());
    let done = |pod: &mut Value| {
        asked(pod);
        pod["metadata"]["annotations"]["hitless.dev/restarted"] = json!("now");
    };
    assert!(told(&decide(&snapshot(&[], pod(done)))).is_empty());
}

/// One pod is restarted, the other one is an operator's, both are allowed to go, and a Service has nobody else.
#[test]
fn a_pod_is_held_where_the_other_one_leaves_for_an_operator_in_the_same_round() {
    let labelled = |pod: &mut Value| pod["metadata"]["labels"] = json!({"app": "web"});
    let operated = pod(|pod| {
        labelled(pod);
        pod["metadata"]["name"] = "web-2".into();
        pod["metadata"]["uid"] = "uid-web-2".into();
        let labels = pod["metadata"]["labels"].as_object_mut().unwrap();
        labels.insert(lifecycle::CONTROL.to_owned(), "true".into());
        for step in [Step::Operating, Step::OperationType, Step::PreCheck] {
            labels.insert(step.key("x"), "1".into());
        }
    });
    let mut all = snapshot(&[job(&json!({}), &json!({}))], pod(labelled));
    all = all.clone().with_pods(all.pods.iter().cloned().chain([Arc::new(operated)]).collect());
    let service: Service = serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web"},
        "spec": {"clusterIP": "10.0.0.1", "selector": {"app": "web"}}}))
    .unwrap();
    all.services = vec![Arc::new(ServiceView::from(&service))];
    let everybody = json!({"selector": {"matchLabels": {"app": "web"}}, "rules": [{"name": "all",
        "availablePolicy": {"maxUnavailableValue": "100%"}}]});
    all.rules = vec![Arc::new(RuleView {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        version: Version { uid: "r".to_owned(), resource_version: "1".to_owned() },
        generation: 1,
        spec: serde_json::from_value(everybody).unwrap(),
        unreadable: None,
        status: None,
    })];
    let mut node = leaving(false);
    node.spec.grants.clear();
    node.agent = Some(agent(&[GrantOp::FOREIGN_FEATURE, "hold"]));
    all.node_transitions.insert("n1".to_owned(), Arc::new(node));
    let round = decide(&all);
    let granted = grants(&round).unwrap_or_default();
    let modes: Vec<_> = granted.iter().map(|grant| (grant.op.clone(), grant.mode.clone())).collect();
    assert!(modes.contains(&(GrantOp::Foreign, GrantMode::Leave)), "{modes:?} {:?}", reasons(&round));
    assert!(!modes.contains(&(GrantOp::Restart, GrantMode::Leave)), "{modes:?}");
}

/// Nobody knows when an operator that died has finished: after an hour its pod says so.
#[test]
fn an_operation_of_others_that_lasts_too_long_is_told_with_the_label_to_remove() {
    let operated = || {
        pod(|pod| {
            let mut labels = json!({lifecycle::CONTROL: "true"});
            // In nanoseconds: 2026-01-02T22:00:00Z.
            labels[Step::Operating.key("backup")] = json!("1767391200000000000");
            labels[Step::OperationType.key("backup")] = json!("snapshot");
            labels[Step::Operate.key("backup")] = json!("1");
            pod["metadata"]["labels"] = labels;
        })
    };
    let told = |granted: &str| {
        let mut all = snapshot(&[], operated());
        let mut node = leaving(false);
        node.spec.grants[0].op = GrantOp::Foreign;
        node.spec.grants[0].granted = hitless_api::MicroTime(granted.parse().unwrap());
        all.node_transitions.insert("n1".to_owned(), Arc::new(node));
        let round = decide(&all);
        let text = round.events.iter().find(|note| note.reason == "OperationOverdue").map(|note| note.text.clone());
        (text, round.wake_at)
    };
    let (text, _) = told("2026-01-02T22:00:00Z");
    let text = text.unwrap();
    for part in [
        "pod web",
        "since 2026-01-02T22:00:00Z",
        "the operator of backup (snapshot)",
        "kubectl label pod -n shop web operating.podopslifecycle.kusionstack.io/backup-",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (text, wake_at) = told("2026-01-02T23:30:00Z");
    assert_eq!(text, None);
    assert!(wake_at.unwrap() <= "2026-01-03T00:30:00Z".parse().unwrap(), "{wake_at:?}");
}

#[test]
fn a_pod_that_is_never_operated_fails_in_its_job() {
    let host = pod(|pod| pod["spec"]["hostNetwork"] = true.into());
    let round = decide(&snapshot(&[job(&json!({}), &json!({}))], host));
    assert_eq!(reasons(&round), ["HostNetwork"]);
    let note = round.events.iter().find(|note| note.reason == "OperationFailed").unwrap();
    assert!(note.text.contains("HostNetwork"), "{}", note.text);
}

/// The node's agent has been told to let the pod leave service for good, and may have done so.
fn leaving(is_done: bool) -> NodeTransitionView {
    let grant = json!({"id": "uid-web.drain", "epoch": 1, "pod": {"namespace": "shop", "name": "web", "uid": "uid-web"},
        "owner": {"group": "apps.kusionstack.io", "kind": "CollaSet", "namespace": "shop", "name": "set", "uid": "uid-set"},
        "op": "Drain", "mode": "Leave", "containers": {}, "before": {}, "drain": {}, "verify": {},
        "granted": "2026-01-02T00:00:00.000000Z", "ttlSeconds": 60});
    let report = json!({"id": "uid-web.drain", "granted": "2026-01-02T00:00:00.000000Z", "phase": "Draining",
        "since": "2026-01-02T00:00:00.000000Z", "result": {"outcome": "Done", "reason": "Done"}});
    let reports = if is_done { json!([report]) } else { json!([]) };
    transition(vec![serde_json::from_value(grant).unwrap()], &reports)
}

#[test]
fn beside_kusionstacks_own_manager_nothing_begins_and_no_pod_is_kept_out_of_service() {
    let all = Installed::with(&[&KUSIONSTACK]);
    let manager = &KUSIONSTACK.manager;
    let webhooks = [manager.mutating.to_owned()];
    let there = PresentManager::seen(manager, None, &webhooks, scene::now()).unwrap();
    let there: PresentManagers = [(&KUSIONSTACK, there)].into_iter().collect();
    let own = |pod: &mut Value| {
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "CollaSet", "name": "set",
            "uid": "uid-set", "controller": true}]);
        pod["metadata"]["annotations"] = json!({"hitless.dev/restart": "now"});
    };
    let objects = [colla_set(), job(&json!({}), &json!({}))];
    let alone = decide(&snapshot(&objects, pod(own)).leaving_alone(&all, there.clone()));
    assert_eq!((reasons(&alone), grants(&alone)), (vec!["LeftToKuperator"], None));
    let said: Vec<_> = alone.events.iter().filter(|note| note.reason == "LeftToKuperator").collect();
    assert_eq!(said.len(), 2, "on the CollaSet and on the job");
    assert!(!alone.steps.iter().any(|step| step.write.key().contains("kusionstack")), "nothing of it is written");
    for is_done in [false, true] {
        let mut snapshot = snapshot(&objects, pod(own)).leaving_alone(&all, there.clone());
        snapshot.node_transitions.insert("n1".to_owned(), Arc::new(leaving(is_done)));
        let grants = grants(&decide(&snapshot)).unwrap();
        // Its agent puts a pod back for which there is no grant.
        assert_eq!(grants.len(), usize::from(!is_done));
        assert!(grants.iter().all(|grant| grant.cancel.is_some()));
    }
    let off = Installed { off: [Switch::of("CollaSet")].into(), ..all };
    let restarts = decide(&snapshot(&objects, pod(own)).leaving_alone(&off, PresentManagers::default()));
    assert_eq!(grants(&restarts).unwrap().len(), 1, "CollaSets are off: its pods are like anybody's");
}

/// Its agent was stopped before its report had arrived, began anew, and gave up in time.
#[test]
fn a_drained_pod_that_is_back_in_service_is_read_and_then_its_operation_is_over() {
    let serving = |is_ready: bool| {
        pod(|pod| {
            let state = if is_ready { "True" } else { "False" };
            pod["spec"]["readinessGates"] = json!([{"conditionType": "hitless.dev/InService"}]);
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": state}]);
        })
    };
    let decided = |is_ready: bool, evidence: Option<Evidence>| {
        let mut snapshot = snapshot(&[colla_set()], serving(is_ready));
        let view = leaving(true);
        let operation = OperationKey::granted(&view.spec.grants[0]);
        snapshot.evidence.extend(evidence.map(|evidence| (operation, evidence)));
        snapshot.node_transitions.insert("n1".to_owned(), Arc::new(view));
        let round = decide(&snapshot);
        (round.reads.len(), grants(&round).map(|grants| grants.len()))
    };
    assert_eq!(decided(false, None), (0, None), "it is out of service, and somebody deletes it");
    assert_eq!(decided(true, None), (1, None), "the cache may be behind");
    assert_eq!(decided(true, Some(Evidence::NotReady)), (1, None));
    assert_eq!(decided(true, Some(Evidence::Ready)), (0, Some(0)), "it serves");
}

/// The node's agent has restarted the pod's container and put the pod back into service.
fn restarted(reason: &str) -> NodeTransitionView {
    let grant = json!({"id": "uid-web.restart", "epoch": 1, "pod": {"namespace": "shop", "name": "web", "uid": "uid-web"},
        "op": "Restart", "mode": "Leave", "containers": {}, "before": {"web": "containerd://0"}, "drain": {}, "verify": {},
        "granted": "2026-01-02T00:00:00.000000Z", "ttlSeconds": 60});
    let report = json!({"id": "uid-web.restart", "granted": "2026-01-02T00:00:00.000000Z", "phase": "Returning",
        "since": "2026-01-02T00:00:00.000000Z", "result": {"outcome": "Done", "reason": reason}});
    transition(vec![serde_json::from_value(grant).unwrap()], &json!([report]))
}

/// Seed 1937 of the simulation: what the readiness probe asks went away just after the agent had put the pod back.
#[test]
fn an_operation_whose_pod_nobody_has_seen_ready_since_keeps_its_place_until_it_is() {
    let left = |reason: &str, ready: &str| {
        let pod = pod(|pod| pod["status"]["conditions"][0]["status"] = ready.into());
        let mut snapshot = snapshot(&[], pod);
        snapshot.node_transitions.insert("n1".to_owned(), Arc::new(restarted(reason)));
        let round = decide(&snapshot);
        (grants(&round).map(|grants| grants.len()), round.reads.len())
    };
    assert_eq!(left("Done", "False"), (Some(0), 0), "its agent has seen it Ready");
    assert_eq!(left("ReadyPending", "False"), (None, 0), "nothing is known");
    assert_eq!(left("ReadyPending", "True"), (None, 1), "the pod is asked");
}

//! Updates in place, and those that can't be.

use hitless_api::{Change, GrantOp};
use hitless_workloads::{Obstacle, Plan, Stage};
use serde_json::json;

use super::cluster::{Cluster, rest, settle};

fn operations(plan: &Plan) -> Vec<GrantOp> {
    plan.desired.iter().filter_map(|wanted| Some(wanted.intent.as_ref().ok()?.operation.op.clone())).collect()
}

fn with(policy: &str) -> Cluster {
    Cluster::running(3, &json!({"updateStrategy": {"type": policy}}))
}

#[test]
fn images_are_changed_in_the_pods_that_are_there() {
    let shapes = [
        json!({"updateStrategy": {"type": "InPlaceIfPossible"}}),
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}}}),
    ];
    for shape in shapes {
        let mut cluster = Cluster::running(3, &shape);
        let before = cluster.uids();
        cluster.image("web:v2");
        assert_eq!(operations(&rest(&mut cluster, true)), [GrantOp::Update, GrantOp::Update, GrantOp::Update]);
        let plan = settle(&mut cluster);
        assert_eq!((plan.stage, cluster.images()), (Stage::Idle, vec!["web:v2".to_owned(); 3]));
        assert_eq!(cluster.uids(), before, "no pod was made anew");
        let status = &cluster.set()["status"];
        assert_eq!(status["currentRevision"], status["updateRevision"]);
        // And back, to the revision that was there before.
        cluster.image("web:v1");
        settle(&mut cluster);
        assert_eq!((cluster.uids(), cluster.names("ControllerRevision").len()), (before, 2));
    }
}

/// A label alone restarts nothing; what reads it by its environment starts again in the same operation as the image's.
#[test]
fn labels_are_changed_in_the_pods_that_are_there() {
    let mut cluster = with("InPlaceOnly");
    let before = cluster.uids();
    cluster.change(|spec| spec["template"]["metadata"]["labels"]["release"] = json!("two"));
    let plan = rest(&mut cluster, true);
    let intent = plan.desired[0].intent.as_ref().unwrap();
    assert!(intent.operation.containers.is_empty() && intent.operation.labels.contains_key("release"), "{intent:?}");
    settle(&mut cluster);
    assert_eq!(cluster.uids(), before);
    assert!(cluster.pods().iter().all(|pod| pod["metadata"]["labels"]["release"] == "two"));
}

/// The pods follow all annotations of the template but those that only say "start again".
#[test]
fn annotations_are_changed_in_the_pods_that_are_there() {
    let mut cluster = with("InPlaceOnly");
    let before = cluster.uids();
    cluster.change(|spec| spec["template"]["metadata"]["annotations"] = json!({"release": "one", "gone": "x"}));
    settle(&mut cluster);
    cluster.change(|spec| spec["template"]["metadata"]["annotations"] = json!({"release": "two"}));
    let plan = rest(&mut cluster, true);
    let operation = &plan.desired[0].intent.as_ref().unwrap().operation;
    assert_eq!((&operation.op, operation.containers.len()), (&GrantOp::Relabel, 0));
    let changes: Vec<_> = operation.template_annotations().collect();
    let change = |from: &str, to: Option<&str>| Change { from: Some(from.to_owned()), to: to.map(ToOwned::to_owned) };
    assert_eq!(
        changes,
        [(&"gone".to_owned(), &change("x", None)), (&"release".to_owned(), &change("one", Some("two")))]
    );
    settle(&mut cluster);
    let has = |cluster: &Cluster, key: &str, value: serde_json::Value| {
        cluster.pods().iter().all(|pod| pod["metadata"]["annotations"][key] == value)
    };
    assert_eq!(cluster.uids(), before);
    assert!(has(&cluster, "release", json!("two")) && has(&cluster, "gone", json!(null)));
    // A restart is one, and goes with the others in one operation.
    let restart = json!({"release": "three", "kubectl.kubernetes.io/restartedAt": "now"});
    cluster.change(|spec| spec["template"]["metadata"]["annotations"] = restart);
    assert_eq!(operations(&rest(&mut cluster, true)), vec![GrantOp::Restart; 3]);
    settle(&mut cluster);
    assert_eq!(cluster.uids(), before);
    assert!(has(&cluster, "release", json!("three")));
}

/// Reports of users #1154, #1239, #1942: a container that reads an annotation by its environment starts again once, with the image's.
#[test]
fn what_reads_an_annotation_when_it_starts_is_started_again_in_the_same_operation() {
    let env = json!([{"name": "RELEASE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['release']"}}}]);
    let mut cluster = with("InPlaceOnly");
    cluster.change(|spec| {
        spec["template"]["metadata"]["annotations"] = json!({"release": "one", "other": "1"});
        spec["template"]["spec"]["containers"][0]["env"] = env;
        spec["updateStrategy"] = json!({"type": "ReCreate"});
    });
    settle(&mut cluster);
    cluster.change(|spec| spec["updateStrategy"] = json!({"type": "InPlaceOnly"}));
    let before = cluster.uids();
    cluster.change(|spec| spec["template"]["metadata"]["annotations"]["other"] = json!("2"));
    assert_eq!(operations(&rest(&mut cluster, true)), vec![GrantOp::Relabel; 3], "nobody reads it");
    settle(&mut cluster);
    cluster.change(|spec| spec["template"]["metadata"]["annotations"]["release"] = json!("two"));
    assert_eq!(operations(&rest(&mut cluster, true)), vec![GrantOp::Restart; 3]);
    settle(&mut cluster);
    cluster.change(|spec| {
        spec["template"]["metadata"]["annotations"]["release"] = json!("three");
        spec["template"]["spec"]["containers"][0]["image"] = json!("web:v2");
    });
    let plan = rest(&mut cluster, true);
    let operation = &plan.desired[0].intent.as_ref().unwrap().operation;
    assert_eq!((&operation.op, operation.containers.len()), (&GrantOp::Update, 1), "once");
    assert_eq!(operation.template_annotations().count(), 1);
    settle(&mut cluster);
    assert_eq!((cluster.uids(), cluster.count("web:v2")), (before, 3));
}

#[test]
fn annotations_that_only_new_pods_follow_are_named() {
    let table = [
        ("sidecar.istio.io/proxyCPU", "1".to_owned(), "because it is read when a pod is made"),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true".to_owned(), "because Kubernetes"),
        ("hitless.dev/mode", "Hold".to_owned(), "because hitless reads it"),
        ("long", "x".repeat(5000), "longer than 4096 bytes"),
    ];
    for (key, value, words) in table {
        let mut cluster = with("InPlaceOnly");
        cluster.change(|spec| spec["template"]["metadata"]["annotations"] = json!({key: value}));
        let Stage::Refused(because) = rest(&mut cluster, true).stage else { panic!("{key} is changed in place") };
        assert!(because.text.contains(words), "{key}: {}", because.text);
    }
}

#[test]
fn what_can_not_be_done_in_place_waits_or_makes_new_pods() {
    let mut only = with("InPlaceOnly");
    only.change(|spec| spec["template"]["spec"]["hostPID"] = json!(true));
    let plan = rest(&mut only, true);
    assert!(matches!(plan.stage, Stage::Refused(_)) && plan.desired.is_empty(), "{:?}", plan.stage);
    let conditions = only.set()["status"]["conditions"].clone();
    assert_eq!(
        (&conditions[0]["type"], &conditions[0]["status"], &conditions[0]["reason"]),
        (&json!("FailedUpdate"), &json!("True"), &json!("UpdateRefused"))
    );
    // Mended, the condition goes back.
    only.change(|spec| spec["template"]["spec"] = json!({"containers": [{"name": "web", "image": "web:v1"}]}));
    settle(&mut only);
    assert_eq!(only.set()["status"]["conditions"][0]["status"], "False");
    let mut possible = with("InPlaceIfPossible");
    let before = possible.uids();
    possible.change(|spec| spec["template"]["spec"]["hostPID"] = json!(true));
    settle(&mut possible);
    assert!(possible.uids().is_disjoint(&before) && possible.pods().len() == 3);
}

#[test]
fn paused_and_on_delete_update_no_pod_and_new_ones_are_new() {
    for strategy in [
        json!({"type": "InPlaceIfPossible", "paused": true}),
        json!({"type": "OnDelete"}),
        json!({"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}),
    ] {
        let mut cluster = Cluster::running(3, &json!({"updateStrategy": strategy}));
        cluster.image("web:v2");
        let plan = settle(&mut cluster);
        assert_eq!((plan.desired.len(), plan.behind.len(), cluster.count("web:v1")), (0, 3, 3), "{strategy}");
        let first = cluster.pod_names().into_iter().next().unwrap();
        cluster.delete_pod(&first);
        settle(&mut cluster);
        assert_eq!((cluster.count("web:v1"), cluster.count("web:v2")), (2, 1), "{strategy}");
    }
}

#[test]
fn a_pod_that_does_not_serve_is_updated_within_the_limit() {
    let mut cluster =
        Cluster::running(5, &json!({"updateStrategy": {"type": "InPlaceIfPossible", "maxUnavailable": 2}}));
    for pod in cluster.pod_names() {
        cluster.breaks(&pod);
    }
    cluster.image("web:v2");
    let (goes, waits): (Vec<_>, Vec<_>) =
        rest(&mut cluster, true).desired.into_iter().partition(|wanted| wanted.intent.is_ok());
    assert_eq!((goes.len(), waits.len()), (2, 3), "a version that does not start takes no more than two");
    for wanted in waits {
        let why = wanted.intent.err();
        let first = |first: &str| goes.iter().any(|other| other.pod.name == first);
        assert!(matches!(&why, Some(Obstacle::NewPodsUnavailable { first: name }) if first(name)), "{why:?}");
    }
}

#[test]
fn grace_is_a_least_time_between_leaving_service_and_the_change() {
    let strategy = json!({"type": "InPlaceIfPossible", "inPlaceUpdateStrategy": {"gracePeriodSeconds": 7}});
    let mut cluster = Cluster::running(1, &json!({"updateStrategy": strategy}));
    cluster.image("web:v2");
    assert_eq!(rest(&mut cluster, true).desired[0].delay_seconds, 7);
}

#[test]
fn pods_go_in_the_order_of_priorities() {
    let priority = json!({"weightPriority": [{"weight": 50, "matchSelector": {"matchLabels": {"canary": "yes"}}}]});
    let strategy = json!({"type": "InPlaceIfPossible", "partition": 4, "priorityStrategy": priority});
    let mut cluster = Cluster::running(5, &json!({"updateStrategy": strategy}));
    let names: Vec<String> = cluster.pod_names().into_iter().collect();
    cluster.label(&names[3], "canary", "yes");
    cluster.image("web:v2");
    let plan = rest(&mut cluster, true);
    assert_eq!(plan.desired.iter().map(|wanted| wanted.pod.name.as_str()).collect::<Vec<_>>(), [names[3].as_str()]);
}

/// Report 2 of users: pods that Kruise's manager has made have its gates, and stay Ready whatever the set does.
#[test]
fn gates_of_kruises_are_kept_open_whatever_the_set_does() {
    for strategy in [
        json!({"type": "InPlaceIfPossible"}),
        json!({"paused": true}),
        json!({"type": "OnDelete"}),
        json!({"type": "Sideways"}),
    ] {
        let mut cluster = Cluster::running(2, &json!({}));
        cluster.change(|spec| spec["updateStrategy"] = strategy.clone());
        for (index, name) in cluster.pod_names().into_iter().enumerate() {
            let pod = cluster.objects.get_mut(&("Pod".to_owned(), name)).unwrap();
            pod["spec"]["readinessGates"] =
                json!([{"conditionType": "InPlaceUpdateReady"}, {"conditionType": "KruisePodReady"}]);
            if index == 0 {
                let shut = json!({"type": "InPlaceUpdateReady", "status": "False", "reason": "StartInPlaceUpdate"});
                pod["status"]["conditions"].as_array_mut().unwrap().push(shut);
            }
        }
        rest(&mut cluster, true);
        for pod in cluster.pods() {
            let is_open = |gate: &str| {
                let all = pod["status"]["conditions"].as_array().unwrap();
                let own: Vec<_> = all.iter().filter(|condition| condition["type"] == gate).collect();
                own.len() == 1 && own[0]["status"] == "True"
            };
            assert!(is_open("InPlaceUpdateReady") && is_open("KruisePodReady"), "{strategy}: {}", pod["status"]);
        }
    }
}

#[test]
fn an_earlier_template_comes_back_whole() {
    let mut cluster = with("InPlaceIfPossible");
    cluster.change(|spec| spec["template"]["spec"]["hostPID"] = json!(true));
    cluster.image("web:v2");
    settle(&mut cluster);
    let undo = super::cluster::Seen::of(&cluster).undo(None).unwrap();
    assert_eq!(undo.to.to_string(), "revision 1 (web:v1)");
    let template = undo.write.content::<serde_json::Value>("/spec/template").unwrap();
    assert!(template["spec"]["hostPID"].is_null() && template["metadata"]["labels"]["app"] == "web");
    let unknown = super::cluster::Seen::of(&cluster).undo(Some(9)).unwrap_err();
    assert!(unknown.contains('9'), "{unknown}");
}

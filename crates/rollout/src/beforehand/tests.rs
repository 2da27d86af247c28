use std::sync::Arc;

use hitless_workloads::Object;
use hitless_world::objects::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use super::*;

fn workload(kind: &str, replicas: u32, annotations: &Value) -> Object {
    let object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": "shop", "uid": "w",
        "annotations": annotations}, "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"app": "web", "team": "a"}},
        "spec": {"containers": [{"name": "web", "image": "web:v2"}, {"name": "log", "image": "log:v1"}]}}}});
    registry::read(object).unwrap().unwrap()
}

fn pod(name: &str, node: Option<&str>) -> PodView {
    let resources = json!({"resources": {"requests": {"cpu": "1"}}});
    let pod = Pod::new("shop", name).uid(name).container_with("web", "web:v1", &resources).container("log", "log:v1");
    if let Some(node) = node { pod.on(node).view() } else { pod.view() }
}

fn helpers(snapshot: &Snapshot, workload: &Object) -> Vec<Helper> {
    let all = [pod("a", Some("n1"))];
    trials(snapshot, workload, &all.iter().collect::<Vec<_>>()).iter().map(|trial| trial.helper).collect()
}

#[test]
fn what_is_tried_is_what_the_controller_makes() {
    let settings = prefetch::Settings { labels: "team".parse().unwrap(), ..prefetch::Settings::default() };
    let snapshot = Snapshot { prefetch_settings: Arc::new(settings), ..Snapshot::default() };
    let (deployment, all) =
        (workload("Deployment", 1, &json!({})), [pod("a", Some("n1")), pod("b", Some("n2")), pod("c", None)]);
    let found = trials(&snapshot, &deployment, &all.iter().collect::<Vec<_>>());
    let [log, web, companion] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((log.helper, web.helper, companion.helper), (Helper::Prefetch, Helper::Prefetch, Helper::Companion));
    assert_eq!(web.pods.len(), 2, "the second has the container's own requests");
    assert_eq!(web.pods[1]["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
    assert_eq!(
        (&web.pods[0]["spec"]["containers"][0]["image"], &web.pods[0]["metadata"]["labels"]["team"]),
        (&json!("web:v2"), &json!("a"))
    );
    assert!(companion.pods[0]["metadata"]["name"].as_str().unwrap().starts_with("web-companion-"));
    assert_eq!(web.keys.len(), 2, "one for each node");
    assert_eq!(log.image, Some(("shop".to_owned(), "log:v1".to_owned())));
    assert!(trials(&snapshot, &deployment, &[]).is_empty(), "where there is no pod nothing is fetched");
}

#[test]
fn a_companion_is_tried_where_one_is_made() {
    let none = Snapshot::default();
    assert!(helpers(&none, &workload("Deployment", 1, &json!({}))).contains(&Helper::Companion));
    assert!(
        !helpers(&none, &workload("Deployment", 1, &json!({"hitless.dev/companion": "Never"})))
            .contains(&Helper::Companion)
    );
    let three = workload("Deployment", 3, &json!({}));
    assert!(!helpers(&none, &three).contains(&Helper::Companion));
    assert!(
        helpers(&none, &workload("Deployment", 3, &json!({"hitless.dev/companion": "Always"})))
            .contains(&Helper::Companion)
    );
    assert!(
        !helpers(&none, &workload("StatefulSet", 1, &json!({}))).contains(&Helper::Companion),
        "nothing may run beside it"
    );
    let budget: PodDisruptionBudget = serde_json::from_value(json!({"metadata": {"name": "all", "namespace": "shop"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}}))
    .unwrap();
    let snapshot = Snapshot { disruption_budgets: vec![Arc::new(budget.into())], ..Snapshot::default() };
    assert!(helpers(&snapshot, &three).contains(&Helper::Companion));
    let never = workload("Deployment", 3, &json!({"hitless.dev/companion": "Never"}));
    assert!(!helpers(&snapshot, &never).contains(&Helper::Companion));
}

#[test]
fn none_is_tried_where_the_round_would_make_none() {
    let service: k8s_openapi::api::core::v1::Service =
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop"},
            "spec": {"selector": {"app": "web"}, "publishNotReadyAddresses": true}}))
        .unwrap();
    let published = Snapshot { services: vec![Arc::new((&service).into())], ..Snapshot::default() };
    let mut labelled = pod("a", Some("n1"));
    labelled.labels.insert("app".to_owned(), "web".to_owned());
    let helpers = |snapshot: &Snapshot, workload: &Object| -> Vec<Helper> {
        trials(snapshot, workload, &[&labelled]).iter().map(|trial| trial.helper).collect()
    };
    let single = workload("Deployment", 1, &json!({}));
    assert!(helpers(&Snapshot::default(), &single).contains(&Helper::Companion));
    assert!(!helpers(&published, &single).contains(&Helper::Companion), "it would get clients before it is ready");
    let gated = |replicas: u32| {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop",
            "uid": "w", "annotations": {"hitless.dev/companion": "Always"}}, "spec": {"replicas": replicas, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"readinessGates": [{"conditionType": "example.com/registered"}],
            "containers": [{"name": "web", "image": "web:v2"}]}}}});
        registry::read(object).unwrap().unwrap()
    };
    assert!(!helpers(&Snapshot::default(), &gated(1)).contains(&Helper::Companion), "it could never serve");
    assert!(helpers(&Snapshot::default(), &gated(3)).contains(&Helper::Companion), "it only tries the version");
}

#[test]
fn what_follows_is_what_the_controller_does_then() {
    let quota = "exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4";
    let policy = "admission webhook \"policy\" denied the request";
    let in_place = json!({"hitless.dev/update": "in-place"});
    let only = json!({"hitless.dev/update": "in-place-only"});
    for (kind, annotations, words, follows) in [
        ("Deployment", &in_place, quota, "the kubelet pulls"),
        ("StatefulSet", &only, quota, "the kubelet pulls"),
        ("Deployment", &in_place, policy, "go natively"),
        ("Deployment", &only, policy, "are refused"),
        ("StatefulSet", &in_place, policy, "ends with 3"),
        ("DaemonSet", &only, policy, "ends with 3"),
    ] {
        let said = instead(Helper::Prefetch, &workload(kind, 1, annotations), words);
        assert!(said.contains(follows), "{kind}: {said}");
    }
    assert!(instead(Helper::Companion, &workload("Deployment", 1, &in_place), policy).contains("goes natively"));
    assert!(instead(Helper::Companion, &workload("Deployment", 1, &only), policy).contains("LossExpected"));
}

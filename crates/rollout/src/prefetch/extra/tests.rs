use std::sync::Arc;

use hitless_api::{PullIdentity, PullPolicy};
use hitless_gate::DisruptionBudget;
use hitless_workloads::registry;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use super::*;

fn pull() -> Pull {
    Pull {
        namespace: "shop".to_owned(),
        node: "n1".to_owned(),
        image: "web:v2".to_owned(),
        policy: PullPolicy::IfNotPresent,
        identity: PullIdentity::default(),
        resources: None,
        extra: Extra::default(),
        is_other_repository: false,
    }
}

fn template() -> Template {
    Template::new(
        json!({"metadata": {"labels": {"app": "web", "team": "a"}, "annotations": {"owner": "a@example.com"}},
        "spec": {"containers": [{"name": "web", "image": "web:v2"}]}}),
    )
}

/// A namespace in which the controller has these labels for prefetch pods.
fn with(labels: &str) -> Snapshot {
    let settings = Settings { labels: labels.parse().unwrap(), annotations: "owner,cost=42".parse().unwrap() };
    Snapshot { prefetch_settings: Arc::new(settings), ..Snapshot::default() }
}

fn service(namespace: &str, selector: &Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": namespace}, "spec": {"selector": selector}}))
        .unwrap()
}

fn with_service(labels: &str, namespace: &str, selector: &Value) -> Snapshot {
    Snapshot { services: vec![Arc::new((&service(namespace, selector)).into())], ..with(labels) }
}

fn chosen(snapshot: &Snapshot) -> Chosen {
    choose(snapshot, &pull(), Some(&template()))
}

fn labels(snapshot: &Snapshot) -> Vec<String> {
    chosen(snapshot).extra.labels.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}

#[test]
fn a_name_alone_is_what_the_template_says_and_a_value_holds_for_all() {
    let snapshot = with("team, cost-center=42,, tier");
    assert_eq!(labels(&snapshot), ["cost-center=42", "team=a"], "the template has no tier");
    let annotations: Vec<(String, String)> = chosen(&snapshot).extra.annotations.into_iter().collect();
    assert_eq!(annotations, [("cost", "42"), ("owner", "a@example.com")].map(|(k, v)| (k.to_owned(), v.to_owned())));
    let of_none = choose(&snapshot, &pull(), None).extra.labels;
    assert_eq!(of_none.into_keys().collect::<Vec<_>>(), ["cost-center"], "a pod that nobody owns has no template");
    assert_eq!(choose(&Snapshot::default(), &pull(), Some(&template())), Chosen::default());
}

#[test]
fn what_kubernetes_or_hitless_reads_from_pods_can_not_be_set() {
    for text in [
        "hitless.dev/companion=x",
        "kusionstack.io/control=true",
        "pod-template-hash",
        "batch.kubernetes.io/job-name",
        "sidecar.istio.io/inject=true",
        "app.kubernetes.io/managed-by=helm",
    ] {
        let error = text.parse::<Labels>().unwrap_err();
        assert!(error.contains("take it out") && error.contains(text.split('=').next().unwrap()), "{error}");
    }
    assert!("team=a b".parse::<Labels>().is_err() && "a/b/c".parse::<Labels>().is_err());
    assert!("app.kubernetes.io/part-of,networking.example.com/x=1".parse::<Labels>().is_ok());
    assert!("hitless.dev/image=x".parse::<Annotations>().is_err());
    assert!("sidecar.istio.io/inject=false".parse::<Annotations>().is_ok());
}

#[test]
fn a_label_by_which_somebody_would_select_the_pod_is_left_out_and_that_is_said() {
    let by_app = with_service("app,team", "shop", &json!({"app": "web"}));
    assert_eq!(labels(&by_app), ["team=a"]);
    let text = chosen(&by_app).text().unwrap();
    assert!(text.contains("app, by which Service web would select them") && text.contains("HITLESS_PREFETCH_LABELS"));
    let by_both = with_service("app,team", "shop", &json!({"app": "web", "tier": "front"}));
    assert_eq!((labels(&by_both), chosen(&by_both).text()), (vec!["app=web".to_owned(), "team=a".to_owned()], None));
    let elsewhere = with_service("app,team", "other", &json!({"app": "web"}));
    assert_eq!(labels(&elsewhere).len(), 2);
}

#[test]
fn whatever_is_left_out_no_selector_is_met_then_by_what_is_missing() {
    let expression = |key: &str, operator: &str| json!({"key": key, "operator": operator});
    let budget = |expressions: &[Value]| -> Arc<DisruptionBudget> {
        let budget: PodDisruptionBudget =
            serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop"},
            "spec": {"selector": {"matchExpressions": expressions}}}))
            .unwrap();
        Arc::new(budget.into())
    };
    let all = [
        budget(&[expression("app", "Exists")]),
        budget(&[expression("app", "DoesNotExist"), expression("team", "Exists")]),
        // All pods, ours as any.
        budget(&[]),
    ];
    let snapshot = Snapshot { disruption_budgets: all.to_vec(), ..with("app,team,cost=1") };
    assert_eq!(labels(&snapshot), ["cost=1"]);
    assert_eq!(chosen(&snapshot).left_out.len(), 2);
}

#[test]
fn no_controller_takes_the_pod_for_one_of_its_own() {
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log", "namespace": "shop", "uid": "d"},
        "spec": {"selector": {"matchLabels": {"team": "a"}}, "template": {"spec": {"containers": []}}}});
    let objects = vec![Arc::new(registry::read(set).unwrap().unwrap())];
    let snapshot = Snapshot { objects, ..with("team,cost=1") };
    assert_eq!(labels(&snapshot), ["cost=1"]);
    assert!(chosen(&snapshot).text().unwrap().contains("DaemonSet log"));
    let pod = |kind: &str, hash: &str| -> Arc<PodView> {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "shop", "uid": "p",
            "labels": {"team": "a", "cost": "2", hash: "h"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": "bare", "uid": "o", "controller": true}]},
            "spec": {"containers": []}}))
        .unwrap();
        Arc::new(PodView::from(&pod))
    };
    let of = |pod: Arc<PodView>| labels(&Snapshot { pods: vec![pod], ..with("team,cost=1") });
    assert_eq!(of(pod("ReplicaSet", "x")), ["cost=1"], "its selector may be that label");
    assert_eq!(of(pod("ReplicaSet", "pod-template-hash")).len(), 2, "it selects by the hash, too");
    assert_eq!(of(pod("StatefulSet", "x")).len(), 2, "it takes on pods of its own names only");
}

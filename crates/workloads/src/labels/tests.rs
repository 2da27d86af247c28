use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::*;
use crate::labels::{AllSelections, By, Selection};

fn template(labels: &Value, spec: &Value) -> Template {
    Template::new(json!({"metadata": {"labels": labels}, "spec": spec}))
}

fn chart(labels: &Value) -> Template {
    template(labels, &json!({"containers": [{"name": "web", "image": "web:v1"}]}))
}

fn pod(labels: &Value) -> PodView {
    let pod = json!({"metadata": {"name": "p", "labels": labels}, "spec": {"containers": []}});
    PodView::from(&serde_json::from_value::<Pod>(pod).unwrap())
}

fn why(from: &Value, to: &Value, selections: &Selections<'_>) -> Option<String> {
    first_native_change(chart(from).shape(), &chart(to), selections).map(|because| because.text)
}

#[test]
fn labels_that_only_tell_what_a_pod_is_are_changed_and_those_that_somebody_acts_on_are_not() {
    for key in [
        "helm.sh/chart",
        "app.kubernetes.io/version",
        "version",
        "tags.datadoghq.com/version",
        "example.com/kubernetes.io",
    ] {
        for (from, to) in
            [(json!({key: "1"}), json!({key: "2"})), (json!({}), json!({key: "2"})), (json!({key: "1"}), json!({}))]
        {
            assert_eq!(why(&from, &to, &Selections::default()), None, "{key}");
        }
    }
    for (key, reason) in [
        ("pod-template-generation", "Kubernetes sets it on pods or reads it from them"),
        ("topology.kubernetes.io/zone", "Kubernetes sets it on pods or reads it from them"),
        ("kueue.x-k8s.io/queue-name", "Kubernetes sets it on pods or reads it from them"),
        ("hitless.dev/gate", "hitless reads it from the pods"),
        ("operate.podopslifecycle.kusionstack.io/a", "hitless reads it from the pods"),
        ("istio.io/rev", "it is read when a pod is made"),
        ("sidecar.istio.io/inject", "it is read when a pod is made"),
        ("example.com/inject-me", "it is read when a pod is made"),
    ] {
        // `x-k8s.io` is a domain of its own.
        let expected = if key.contains("x-k8s") { None } else { Some(reason) };
        let said = why(&json!({key: "1"}), &json!({key: "2"}), &Selections::default());
        let text = expected.map(|reason| {
            format!("a change of spec.template.metadata.labels[{key}] can't be made to running pods, because {reason}")
        });
        assert_eq!(said, text, "{key}");
    }
}

/// By which label somebody with this selector loses or finds the pods.
fn moved(selector: &Value, from: &Value, to: &Value) -> Option<String> {
    let selector: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
    let selection = Selection { kind: "PodDisruptionBudget", name: "one", by: By::Selector(&selector) };
    let own = AllSelections::new([(Some("shop"), selection)].into_iter()).of("shop");
    let everywhere = AllSelections::new([(None, selection)].into_iter()).of("other");
    let said = why(from, to, &own);
    assert_eq!(said, why(from, to, &everywhere));
    assert_eq!(said.is_some(), why(to, from, &own).is_some(), "it is the same way back");
    assert_eq!(why(from, to, &AllSelections::new([(Some("shop"), selection)].into_iter()).of("other")), None);
    said
}

#[test]
fn whoever_would_lose_or_find_the_pods_is_named() {
    let (from, to) = (json!({"app": "web", "version": "1"}), json!({"app": "web", "version": "2"}));
    let text = "a change of spec.template.metadata.labels[version] can't be made to running pods, because PodDisruptionBudget one selects \
                pods by it";
    for (selector, is_moved) in [
        (json!({"matchLabels": {"app": "web", "version": "1"}}), true),
        (json!({"matchLabels": {"version": "2"}}), true),
        (json!({"matchLabels": {"app": "web"}}), false),
        (json!({"matchLabels": {"version": "3"}}), false),
        (json!({"matchLabels": {"app": "other", "version": "1"}}), false),
        (json!({"matchLabels": {"version": "1", "track": "stable"}}), false),
        (json!({"matchLabels": {"version": "1", "statefulset.kubernetes.io/pod-name": "web-0"}}), true),
        (json!({"matchExpressions": [{"key": "version", "operator": "In", "values": ["1", "2"]}]}), false),
        (json!({"matchExpressions": [{"key": "version", "operator": "NotIn", "values": ["1"]}]}), true),
        (json!({"matchExpressions": [{"key": "version", "operator": "Exists"}]}), false),
        (json!({"matchExpressions": [{"key": "version", "operator": "What"}]}), false),
        (json!({}), false),
    ] {
        assert_eq!(moved(&selector, &from, &to), is_moved.then(|| text.to_owned()), "{selector}");
    }
    let exists = json!({"matchExpressions": [{"key": "version", "operator": "Exists"}]});
    assert!(moved(&exists, &from, &json!({"app": "web"})).is_some(), "it goes");
    let service = BTreeMap::from([("version".to_owned(), "1".to_owned())]);
    let selection = Selection { kind: "Service", name: "web", by: By::Labels(&service) };
    let own = AllSelections::new([(Some("shop"), selection)].into_iter()).of("shop");
    assert!(why(&from, &to, &own).unwrap().ends_with("because Service web selects pods by it"));
    let nobody = BTreeMap::new();
    let selection = Selection { by: By::Labels(&nobody), ..selection };
    assert_eq!(why(&from, &to, &AllSelections::new([(Some("shop"), selection)].into_iter()).of("shop")), None);
}

#[test]
fn what_the_template_has_changed_is_changed_and_nothing_else() {
    let (from, to) = (
        chart(&json!({"app": "web", "chart": "1", "old": "a"})),
        chart(&json!({"app": "web", "chart": "2", "new": "b"})),
    );
    let changed =
        |pod: &PodView, base: Option<&Shape>| changes(pod, to.shape(), base, [from.shape(), to.shape()].into_iter());
    let change = |from: Option<&str>, to: Option<&str>| Change { from: from.map(Into::into), to: to.map(Into::into) };
    let all = BTreeMap::from([
        ("chart".to_owned(), change(Some("1"), Some("2"))),
        ("new".to_owned(), change(None, Some("b"))),
        ("old".to_owned(), change(Some("a"), None)),
    ]);
    let pod_before = pod(&json!({"app": "mine", "chart": "1", "old": "a", "theirs": "x"}));
    assert_eq!(changed(&pod_before, Some(from.shape())), all);
    let mut more = all.clone();
    more.insert("app".to_owned(), change(Some("mine"), Some("web")));
    assert_eq!(changed(&pod_before, None), more, "all that the templates have that are known");
    assert_eq!(changed(&pod_before, Some(to.shape())), BTreeMap::new(), "others have changed it since");
    let by_hand = pod(&json!({"chart": "9", "new": "b"}));
    let only = BTreeMap::from([("chart".to_owned(), change(Some("9"), Some("2")))]);
    assert_eq!(changed(&by_hand, Some(from.shape())), only);
    assert_eq!(
        changed(&pod(&json!({"app": "web", "chart": "2"})), None),
        BTreeMap::from([("new".to_owned(), change(None, Some("b")))])
    );
}

#[test]
fn who_reads_a_label_at_its_start_is_started_again_and_who_is_started_once_keeps_it_native() {
    let env = |key: &str| json!([{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.labels['{key}']")}}}]);
    let items = json!([{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]);
    let mount = |path: Option<&str>| json!([{"name": "info", "mountPath": "/info", "subPath": path}]);
    let spec = json!({"containers": [
        {"name": "env", "env": env("version")}, {"name": "other", "env": env("team")},
        {"name": "file", "volumeMounts": mount(None)}, {"name": "part", "volumeMounts": mount(Some("labels"))}],
        "initContainers": [{"name": "proxy", "restartPolicy": "Always", "env": env("version")}],
        "volumes": [{"name": "info", "projected": {"sources": [{"downwardAPI": {"items": items}}]}}]});
    let to = template(&json!({"version": "2"}), &spec);
    let changes = BTreeMap::from([("version".to_owned(), Change { from: Some("1".into()), to: Some("2".into()) })]);
    assert_eq!(
        downward::stale(to.content(), Metadata::Labels, &changes),
        BTreeSet::from(["env", "part", "proxy"]),
        "the kubelet writes the others' files anew"
    );
    assert!(downward::stale(to.content(), Metadata::Labels, &BTreeMap::new()).is_empty());
    let from = template(&json!({"version": "1"}), &spec);
    assert_eq!(first_native_change(from.shape(), &to, &Selections::default()), None);
    for once in [json!({"name": "once", "env": env("version")}), json!({"name": "once", "volumeMounts": mount(None)})] {
        let mut spec = spec.clone();
        spec["initContainers"].as_array_mut().unwrap().push(once);
        let (from, to) = (template(&json!({"version": "1"}), &spec), template(&json!({"version": "2"}), &spec));
        let because = first_native_change(from.shape(), &to, &Selections::default()).unwrap();
        assert!(
            because.text.ends_with("because init container once reads it, and runs only when a pod is started"),
            "{because:?}"
        );
    }
}

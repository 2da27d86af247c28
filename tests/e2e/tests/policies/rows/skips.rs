//! Who may excuse pods from rules: `policies/skips.yaml`.

use serde_json::{Value, json};

use super::{allowed, denied};
use crate::Row;
use crate::fixture::{NAMESPACE, NODE, annotated_workload, apps, colla_sets, pod, pods};
use crate::request::{Call, Who};

const KEY: &str = "podtransitionrule.kusionstack.io/skip-rule-conditions";
const NOT: &str = "joe may not update podtransitionrules in namespace policy-test;";

fn annotations(rules: &str) -> Value {
    json!({KEY: format!("{{\"skipRules\": [{rules}]}}")})
}

/// A workload whose pods are excused.
fn excused(kind: &str) -> Value {
    annotated_workload(kind, annotations("\"a\""))
}

pub(super) fn rows() -> Vec<Row> {
    let kinds = [
        ("Deployment", apps("deployments")),
        ("StatefulSet", apps("statefulsets")),
        ("DaemonSet", apps("daemonsets")),
        ("ReplicaSet", apps("replicasets")),
        ("CollaSet", colla_sets()),
        ("ReplicationController", format!("/api/v1/namespaces/{NAMESPACE}/replicationcontrollers")),
    ];
    let owned = || {
        let mut body = excused("ReplicaSet");
        body["metadata"]["ownerReferences"] = json!([{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "r", "uid": "u",
            "controller": true}]);
        Call::create(apps("replicasets"), body)
    };
    let decoration = |key: &str| {
        let template = json!({"metadata": [{"annotations": {key: "{}"}}]});
        let body = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodDecoration", "metadata": {"name": "new"},
            "spec": {"template": template}});
        Call::create(format!("/apis/apps.kusionstack.io/v1alpha1/namespaces/{NAMESPACE}/poddecorations"), body)
    };
    let make = |(kind, path): &(&str, String)| Call::create(path.as_str(), excused(kind));
    let change = |annotations: Value| {
        let template = json!({"metadata": {"annotations": annotations}});
        Call::merge(format!("{}/commands", apps("deployments")), json!({"spec": {"template": template}}))
    };
    let of_pod = |path: &str| {
        Call::merge(
            format!("{}/free{path}", pods(NAMESPACE)),
            json!({"metadata": {"annotations": annotations("\"a\"")}}),
        )
    };
    let mut rows: Vec<Row> = kinds
        .iter()
        .map(|kind| {
            denied(
                Who::Deployer,
                "a template excuses no pods from rules that its author may not change",
                NOT,
                make(kind),
            )
        })
        .collect();
    rows.extend([
        denied(Who::Deployer, "nor by a change", NOT, change(annotations("\"a\""))),
        allowed(Who::Deployer, "other annotations are free", change(json!({"example.com/a": "b"}))),
        allowed(Who::User, "whoever may change rules excuses pods from them", make(&kinds[0])),
        allowed(Who::ReplicaSetController, "native controllers are not asked", make(&kinds[3])),
        allowed(Who::Deployer, "nor is another controller, which copies a template", owned()),
        denied(Who::Deployer, "a PodDecoration excuses none either", NOT, decoration(KEY)),
        allowed(Who::Deployer, "but has other annotations", decoration("example.com/note")),
        allowed(Who::User, "one by who may change rules does", decoration(KEY)),
        denied(Who::Deployer, "nor is a pod excused later", NOT, of_pod("")),
        denied(Who::Deployer, "nor by its status", NOT, of_pod("/status")),
        allowed(Who::User, "but by one who may change rules", of_pod("")),
        allowed(
            Who::Deployer,
            "a pod that is made is nobody's to refuse",
            Call::create(pods(NAMESPACE), pod("new", NODE, &json!({"annotations": annotations("\"a\"")}))),
        ),
    ]);
    rows
}

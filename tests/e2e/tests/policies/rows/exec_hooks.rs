//! Who may write hooks that run commands: `exec-hooks/policies.yaml`.

use serde_json::{Value, json};

use super::{allowed, denied};
use crate::Row;
use crate::fixture::{
    GATED, NAMESPACE, NODE, annotated_workload, apps, colla_sets, command, drain_policies, drain_policy, pod, pods,
};
use crate::request::{Call, Who};

pub(super) fn rows() -> Vec<Row> {
    [policies(), templates(), single_pods(), decorations()].into_iter().flatten().collect()
}

const NOT: &str = "joe may not create pods/exec in namespace policy-test;";

fn http() -> Value {
    json!([{"name": "ask", "when": "BeforeDrain", "http": {"port": 8080, "path": "/exec"}}])
}

fn policies() -> Vec<Row> {
    let make = |namespace: &str, name: &str, hooks: &Value| {
        Call::create(drain_policies(namespace), drain_policy(name, "web", hooks))
    };
    let change = |body: Value| Call::merge(format!("{}/commands", drain_policies(NAMESPACE)), body);
    let more = json!({"spec": {"hooks": [{"name": "flush", "when": "AfterDrain", "exec": {"container": "web", "command": ["/other"]}}]}});
    let others = json!({"spec": {"selector": {"matchLabels": {"app": "others"}}}});
    let everywhere = "joe may not create pods/exec in all namespaces;";
    vec![
        denied(Who::Deployer, "who may not exec writes no command", NOT, make(NAMESPACE, "new", &command())),
        allowed(Who::Deployer, "but other hooks", make(NAMESPACE, "new", &http())),
        allowed(Who::Deployer, "and commands where he may", make(GATED, "new", &command())),
        allowed(Who::User, "who may exec writes commands", make(NAMESPACE, "new", &command())),
        denied(Who::Deployer, "a command is not changed", NOT, change(more)),
        denied(Who::Deployer, "nor whom it is for", NOT, change(others)),
        allowed(Who::Deployer, "all else is", change(json!({"spec": {"drain": {"deadlineSeconds": 30}}}))),
        allowed(Who::Deployer, "and it may go", change(json!({"spec": {"hooks": []}}))),
        denied(
            Who::Deployer,
            "a command for all pods needs the right everywhere",
            everywhere,
            make("hitless-system", "default", &command()),
        ),
        allowed(Who::Deployer, "one for our own pods does not", make("hitless-system", "policy-test", &command())),
        allowed(Who::User, "who may exec everywhere writes that", make("hitless-system", "default", &command())),
    ]
}

/// A workload whose pods have these hooks.
fn with_hooks(kind: &str, hooks: &str) -> Value {
    annotated_workload(kind, json!({"hitless.dev/hooks": hooks}))
}

fn templates() -> Vec<Row> {
    let command = command().to_string();
    let core = format!("/api/v1/namespaces/{NAMESPACE}/replicationcontrollers");
    let kinds = [
        ("Deployment", apps("deployments")),
        ("StatefulSet", apps("statefulsets")),
        ("DaemonSet", apps("daemonsets")),
        ("ReplicaSet", apps("replicasets")),
        ("ReplicationController", core),
        ("CollaSet", colla_sets()),
    ];
    let make = |(kind, path): &(&str, String), hooks: &str| Call::create(path.as_str(), with_hooks(kind, hooks));
    let mut rows: Vec<Row> = kinds
        .iter()
        .map(|kind| {
            denied(Who::Deployer, "a template has no command of one who may not exec", NOT, make(kind, &command))
        })
        .collect();
    let deployment = &kinds[0];
    let change = |hooks: Value| {
        let template = json!({"metadata": {"annotations": {"hitless.dev/hooks": hooks, "a": "b"}}});
        Call::merge(format!("{}/commands", apps("deployments")), json!({"spec": {"template": template}}))
    };
    let escaped = command.replace("exec", "\\u0065xec");
    rows.extend([
        denied(Who::Deployer, "nor one in disguise", NOT, make(deployment, &escaped)),
        allowed(Who::Deployer, "but other hooks", make(deployment, &http().to_string())),
        allowed(Who::User, "one who may exec has commands", make(deployment, &command)),
        denied(Who::Deployer, "they are not changed", NOT, change(json!(command.replace("/flush", "/other")))),
        allowed(Who::Deployer, "all else is", change(json!(command))),
        allowed(Who::Deployer, "and they may go", change(Value::Null)),
        allowed(Who::ReplicaSetController, "native controllers are not asked", make(&kinds[3], &command)),
    ]);
    rows
}

fn single_pods() -> Vec<Row> {
    let annotations = || json!({"annotations": {"hitless.dev/hooks": command().to_string()}});
    let make = || Call::create(pods(NAMESPACE), pod("new", NODE, &annotations()));
    let change = || Call::merge(format!("{}/free", pods(NAMESPACE)), json!({"metadata": annotations()}));
    let status = || Call::merge(format!("{}/free/status", pods(NAMESPACE)), json!({"metadata": annotations()}));
    vec![
        denied(Who::Deployer, "a pod has no command of one who may not exec", NOT, make()),
        denied(Who::Deployer, "nor does it get one", NOT, change()),
        denied(Who::Deployer, "nor by its status", NOT, status()),
        allowed(Who::User, "but of one who may", change()),
        allowed(Who::ReplicaSetController, "and of its template", make()),
    ]
}

fn decorations() -> Vec<Row> {
    let path = format!("/apis/apps.kusionstack.io/v1alpha1/namespaces/{NAMESPACE}/poddecorations");
    let make = |key: &str| {
        let template = json!({"metadata": [{"annotations": {key: "[]"}}]});
        let body = json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "PodDecoration", "metadata": {"name": "new"},
            "spec": {"template": template}});
        Call::create(path.as_str(), body)
    };
    vec![
        denied(
            Who::Deployer,
            "a PodDecoration brings no hooks of one who may not exec",
            NOT,
            make("hitless.dev/hooks"),
        ),
        allowed(Who::Deployer, "but other annotations", make("example.com/note")),
        allowed(Who::User, "one who may exec brings hooks", make("hitless.dev/hooks")),
    ]
}

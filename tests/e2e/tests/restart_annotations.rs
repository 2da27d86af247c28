//! A change of a template that only says "start again", as charts, Reloader and Keel make it; and labels of a chart, which say less.

use anyhow::ensure;
use hitless_e2e::app::{PATIENCE, Shape, Workload, container_ids, restarts};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Stack, Traffic};
use serde_json::{Value, json};

const LIST: &str = "hitless.dev/restart-annotations";

/// Three pods whose template has a checksum.
fn annotated(workload: Workload, template: &Value) -> Shape {
    let mut patch =
        json!({"metadata": {"annotations": {LIST: "example.com/config-*"}}, "spec": {"template": template}});
    patch["spec"]["template"]["metadata"]["annotations"] = json!({"checksum/config": "one"});
    Shape { workload, patch, ..Shape::default() }
}

fn annotate(app: &App, annotations: &Value) -> anyhow::Result<()> {
    let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}}).to_string();
    app.kubectl.run(&["patch", app.workload.web(), "--type=merge", "-p", &patch]).map(drop)
}

fn restarts_the_same_pods(namespace: &str, workload: Workload) -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, namespace, &annotated(workload, &json!({})))?;
    let before = app.identities();
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
    traffic.wait_for_requests(200, PATIENCE)?;
    // Another value, none, and one of the workload's own list.
    for annotations in
        [json!({"checksum/config": "two"}), json!({"checksum/config": null}), json!({"example.com/config-a": "one"})]
    {
        let containers = container_ids(&app.pods_now()?);
        app.roll(|| annotate(&app, &annotations))?;
        app.wait_ready(3)?;
        ensure!(app.identities() == before, "{annotations}: pods were replaced: {before:?} {:?}", app.identities());
        let after = container_ids(&app.pods_now()?);
        ensure!(
            after.iter().all(|id| !containers.contains(id)),
            "{annotations}: not every container was restarted: {containers:?} {after:?}"
        );
    }
    let report = traffic.stop()?;
    ensure!(report.fresh.failed == 0 && report.keepalive.failed == 0, "requests failed: {report:?}");
    let restarts = restarts(&app.pods_now()?);
    ensure!(restarts == [3; 3], "restarted other than once for each change: {restarts:?}");
    Ok(())
}

#[test]
fn a_changed_checksum_restarts_the_same_pods_without_a_failed_request() -> anyhow::Result<()> {
    restarts_the_same_pods("t-checksum", Workload::Deployment)
}

#[test]
fn and_those_of_a_stateful_set() -> anyhow::Result<()> {
    restarts_the_same_pods("t-checksum-sts", Workload::StatefulSet)
}

#[test]
fn where_the_pods_read_their_annotations_a_changed_checksum_rolls_natively() -> anyhow::Result<()> {
    let items = json!([{"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}]);
    let template = json!({"spec": {"volumes": [{"name": "info", "downwardAPI": {"items": items}}]}});
    let shape = annotated(Workload::Deployment, &template);
    let app = App::start(&Stack::attach()?.cluster, "t-checksum-read", &shape)?;
    let before = app.identities();
    annotate(&app, &json!({"checksum/config": "two"}))?;
    let note = app.wait_event("NativeRollout")?;
    for words in ["annotations[checksum/config]", "volumes[info].downwardAPI.items[annotations]"] {
        ensure!(note.contains(words), "the Event does not name {words}: {note}");
    }
    app.rollout_status()?;
    app.wait_ready(3)?;
    app.wait_replaced(&before)
}

#[test]
fn what_only_new_pods_bring_is_native_and_new_pods_come_in_one_word() -> anyhow::Result<()> {
    let from = json!({"configMapKeyRef": {"name": "kube-root-ca.crt", "key": "ca.crt"}});
    let render = json!({"name": "render", "image": hitless_e2e::stack::echo_image("v1"), "args": ["whoami"],
        "env": [{"name": "CA", "valueFrom": from}]});
    let shape = annotated(Workload::Deployment, &json!({"spec": {"initContainers": [render]}}));
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-new-pods", &shape)?;
    let before = app.identities();
    annotate(&app, &json!({"checksum/config": "two"}))?;
    let note = app.wait_event("NativeRollout")?;
    ensure!(note.contains("init container render reads ConfigMap kube-root-ca.crt"), "the Event says: {note}");
    app.rollout_status()?;
    app.wait_ready(3)?;
    app.wait_replaced(&before)?;
    let before = app.identities();
    stack.hitless(&app, &["restart", "--new-pods", app.workload.web()])?;
    app.wait_replaced(&before)?;
    app.wait_ready(3)
}

const CHART: &str = "helm.sh/chart";
const VERSION: &str = "app.kubernetes.io/version";

/// Both labels of every pod; all pods have to agree.
fn labels_of(app: &App) -> anyhow::Result<Vec<(Value, Value)>> {
    let mut all: Vec<(Value, Value)> = app
        .pods_now()?
        .values()
        .map(|pod| (pod["metadata"]["labels"][CHART].clone(), pod["metadata"]["labels"][VERSION].clone()))
        .collect();
    all.dedup();
    Ok(all)
}

/// When each pod was taken out of service, put back, and became Ready last.
fn service_times(app: &App) -> anyhow::Result<Vec<Value>> {
    let pods = app.pods_now()?;
    let of = |pod: &Value| {
        let all = pod["status"]["conditions"].as_array().into_iter().flatten();
        let is_meant = |each: &&Value| each["type"] == "Ready" || each["type"] == "hitless.dev/InService";
        all.filter(is_meant).map(|each| each["lastTransitionTime"].clone()).collect::<Value>()
    };
    Ok(pods.values().map(of).collect())
}

#[test]
fn labels_of_a_chart_go_with_the_image_and_alone_without_a_restart() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let labels = |chart: &str, version: &str| json!({CHART: chart, VERSION: version});
    let patch = json!({"spec": {"template": {"metadata": {"labels": labels("web-1.0.0", "1")}}}});
    let app = App::start(&stack.cluster, "t-chart", &Shape { patch, ..Shape::default() })?;
    let (before, containers) = (app.identities(), container_ids(&app.pods_now()?));
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
    traffic.wait_for_requests(200, PATIENCE)?;
    let change = |template: Value| {
        let patch = json!({"spec": {"template": template}}).to_string();
        app.kubectl.run(&["patch", app.workload.web(), "-p", &patch]).map(drop)
    };
    // As `helm upgrade` does it: one write.
    let containers_of_v2 = json!([{"name": "web", "image": app.image("v2")}]);
    let upgrade = json!({"metadata": {"labels": labels("web-1.1.0", "2")}, "spec": {"containers": containers_of_v2}});
    app.roll(|| change(upgrade))?;
    app.wait_ready(3)?;
    ensure!(app.identities() == before, "pods were replaced: {before:?} {:?}", app.identities());
    ensure!(labels_of(&app)? == [(json!("web-1.1.0"), json!("2"))], "the pods have {:?}", labels_of(&app)?);
    let upgraded = app.pods_now()?;
    ensure!(restarts(&upgraded) == [1; 3], "restarted other than once: {:?}", restarts(&upgraded));
    ensure!(container_ids(&upgraded).iter().all(|id| !containers.contains(id)), "not every container is new");

    let (containers, times) = (container_ids(&upgraded), service_times(&app)?);
    app.roll(|| change(json!({"metadata": {"labels": labels("web-1.1.1", "2")}})))?;
    ensure!(app.identities() == before, "pods were replaced: {before:?} {:?}", app.identities());
    ensure!(labels_of(&app)? == [(json!("web-1.1.1"), json!("2"))], "the pods have {:?}", labels_of(&app)?);
    ensure!(container_ids(&app.pods_now()?) == containers, "a container was restarted");
    ensure!(service_times(&app)? == times, "a pod was out of service: {times:?} {:?}", service_times(&app)?);

    app.roll(|| app.kubectl.run(&["rollout", "undo", "deployment/web"]).map(drop))?;
    ensure!(labels_of(&app)? == [(json!("web-1.1.0"), json!("2"))], "undo left {:?}", labels_of(&app)?);
    let report = traffic.stop()?;
    ensure!(report.fresh.failed == 0 && report.keepalive.failed == 0, "requests failed: {report:?}");
    Ok(())
}

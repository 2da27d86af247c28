//! A change of a template that only says "start again", as charts, Reloader and Keel make it.

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

//! What a user sees when an opted-in StatefulSet changes.

use anyhow::ensure;
use hitless_e2e::app::{self, PATIENCE, Shape, Workload, image_of};
use hitless_e2e::stack::echo_image;
use hitless_e2e::traffic::Rate;
use hitless_e2e::until::until_answered;
use hitless_e2e::{App, Stack, Traffic};
use serde_json::{Value, json};

/// Three pods of a StatefulSet without volumes.
fn stateful() -> Shape {
    Shape { workload: Workload::StatefulSet, ..Shape::default() }
}

fn start(namespace: &str, patch: Value) -> anyhow::Result<App> {
    App::start(&Stack::attach()?.cluster, namespace, &Shape { patch, ..stateful() })
}

/// Finished: the owner's strategy is back, all pods are ready, those from `partition` on with `version`, `rollout status` says so.
fn assert_finished(app: &App, version: &str, replicas: usize, partition: usize) -> anyhow::Result<()> {
    app.wait_version(version, replicas - partition)?;
    app.wait_ready(replicas)?;
    app.rollout_status()?;
    let web = app.wait_unheld()?;
    let strategy = &web["spec"]["updateStrategy"];
    ensure!(
        strategy["type"] == "RollingUpdate" && strategy["rollingUpdate"]["partition"] == partition,
        "the strategy that is left is {strategy}"
    );
    let memory = &web["metadata"]["annotations"]["hitless.dev/update-strategy"];
    ensure!(memory.is_null(), "the memory of the strategy is left over: {memory}");
    Ok(())
}

fn version_of(app: &App, pod: &str) -> String {
    app.pods.objects().get(pod).map(image_of).unwrap_or_default()
}

#[test]
fn an_image_and_its_undo_reach_the_same_pods_last_ordinal_first_without_a_failed_request() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-sts", &stateful())?;
    let before = app.identities();
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
    traffic.wait_for_requests(200, PATIENCE)?;
    let order = app.roll_one_by_one("v2", 3, || app.set_version("v2"))?;
    assert_finished(&app, "v2", 3, 0)?;
    let history = app.kubectl.run(&["rollout", "history", "statefulset/web"])?;
    let revisions = history.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
    let undo = || app.kubectl.run(&["rollout", "undo", "statefulset/web"]).map(drop);
    let back = app.roll_one_by_one("v1", 3, undo)?;
    assert_finished(&app, "v1", 3, 0)?;
    traffic.wait_for_more(200, PATIENCE)?;
    let report = traffic.stop()?;
    ensure!(report.fresh.failed == 0 && report.keepalive.failed == 0, "requests failed: {report:?}");
    ensure!(app.identities() == before, "pods were replaced: {before:?} became {:?}", app.identities());
    for order in [order, back] {
        ensure!(order == ["web-2", "web-1", "web-0"], "the pods went in the order {order:?}");
    }
    ensure!(revisions == 2, "history shows: {history}");
    Ok(())
}

#[test]
fn a_pod_that_is_scaled_up_or_deleted_in_mid_rollout_comes_up_new() -> anyhow::Result<()> {
    let app = App::start(&Stack::attach()?.cluster, "t-sts-mid", &stateful().out_for(3))?;
    let before = app.identities();
    app.set_version("v2")?;
    app.wait_version("v2", 1)?;
    ensure!(version_of(&app, "web-0") == echo_image("v1"), "the rollout was over before the test could interfere");
    app.kubectl.run(&["scale", "statefulset/web", "--replicas=4"])?;
    app.kubectl.run(&["delete", "pod", "web-0", "--wait=false"])?;
    assert_finished(&app, "v2", 4, 0)?;
    let after = app.identities();
    let kept: Vec<&str> = before.iter().filter(|pod| after.contains(pod)).map(|pod| pod.name.as_str()).collect();
    ensure!(kept == ["web-1", "web-2"], "these pods were kept: {kept:?}");
    Ok(())
}

#[test]
fn a_partition_is_honoured_and_what_it_kept_old_goes_in_place_when_it_goes_down() -> anyhow::Result<()> {
    let partition = |from: i64| json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": from}}}});
    let app = start("t-sts-partition", partition(2))?;
    let before = app.identities();
    app.set_version("v2")?;
    assert_finished(&app, "v2", 3, 2)?;
    for (pod, version) in [("web-0", "v1"), ("web-1", "v1"), ("web-2", "v2")] {
        let image = version_of(&app, pod);
        ensure!(image == echo_image(version), "behind a partition of 2 {pod} has {image}");
    }
    app.kubectl.run(&["patch", "statefulset", "web", "--type=merge", "-p", &partition(0).to_string()])?;
    assert_finished(&app, "v2", 3, 0)?;
    ensure!(app.identities() == before, "pods were replaced: {before:?} became {:?}", app.identities());
    Ok(())
}

#[test]
fn after_a_rollout_the_strategy_belongs_to_nobody_but_its_owner() -> anyhow::Result<()> {
    let app = App::start(&Stack::attach()?.cluster, "t-sts-owner", &stateful())?;
    let applied = |version: &str, partition: usize| {
        let mut web = app::manifest(&stateful());
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!(echo_image(version));
        web["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        web
    };
    let apply = ["apply", "--server-side", "--field-manager=gitops"];
    app.kubectl.feed(&[&apply[..], &["--force-conflicts"]].concat(), &applied("v1", 0))?;
    app.kubectl.feed(&apply, &applied("v2", 0))?;
    assert_finished(&app, "v2", 3, 0)?;
    // Without a conflict with us, who have put the strategy back. The field is given up a moment after that.
    until_answered(|| app.kubectl.feed(&apply, &applied("v2", 1)).map(drop))?;
    let web = app.kubectl.get(&["statefulset", "web"])?;
    ensure!(web["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 1, "it became: {web}");
    Ok(())
}

#[test]
fn an_owners_on_delete_is_driven_and_stays() -> anyhow::Result<()> {
    let app = start("t-sts-on-delete", json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}))?;
    let before = app.identities();
    app.set_version("v2")?;
    app.wait_version("v2", 3)?;
    ensure!(app.identities() == before, "pods were replaced");
    let web = app.kubectl.get(&["statefulset", "web"])?;
    ensure!(!app::is_held(&web) && web["spec"]["updateStrategy"] == json!({"type": "OnDelete"}), "it became: {web}");
    Ok(())
}

#[test]
fn a_bad_image_is_rolled_back_and_its_template_put_back() -> anyhow::Result<()> {
    let app = start("t-sts-bad", json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}))?;
    let policy = json!({"apiVersion": "hitless.dev/v1alpha1", "kind": "DrainPolicy", "metadata": {"name": "impatient"},
        "spec": {"selector": {}, "verify": {"progressSeconds": 15}}});
    app.kubectl.feed(&["apply"], &policy)?;
    let before = app.identities();
    app.set_version("unready")?;
    let restored = app.workloads.wait("the template to be put back", PATIENCE, |workloads| {
        let web = workloads.get("web")?;
        let halted = web["metadata"]["annotations"]["hitless.dev/halted"].is_string();
        (halted && image_of(&web["spec"]["template"]) == echo_image("v1")).then(|| web.clone())
    })?;
    assert_finished(&app, "v1", 3, 0)?;
    ensure!(app.identities() == before, "pods were replaced after {}", restored["metadata"]["annotations"]);
    app.set_version("v2")?;
    assert_finished(&app, "v2", 3, 0)?;
    app.wait_not_halted()
}

//! What a user sees when an opted-in Deployment changes.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use hitless_cluster::Cluster;
use hitless_e2e::app::{self, PATIENCE, Shape, container_ids, image_of, is_ready, restarts};
use hitless_e2e::stack::echo_image;
use hitless_e2e::traffic::Rate;
use hitless_e2e::until::until_answered;
use hitless_e2e::watch::Objects;
use hitless_e2e::{App, Stack, Traffic, Watch, endpoint, measure};
use serde_json::{Value, json};

fn cluster() -> anyhow::Result<Arc<Cluster>> {
    Ok(Stack::attach()?.cluster)
}

/// Three pods that take at least three seconds each: long enough to interfere in mid-rollout.
fn slow() -> Shape {
    Shape::default().out_for(3)
}

/// A started rollout v1 → v2 of which at least one pod is done and at least one is not.
fn in_mid_rollout(namespace: &str) -> anyhow::Result<App> {
    let app = App::start(&cluster()?, namespace, &slow())?;
    app.set_version("v2")?;
    app.wait_version("v2", 1)?;
    let old = app.pods.objects().values().filter(|pod| image_of(pod) == echo_image("v1")).count();
    ensure!(old > 0, "the rollout was over before the test could interfere");
    Ok(app)
}

/// Finished: lifted, one ReplicaSet with pods, all pods ready with `version`, `rollout status` says so.
fn assert_finished(app: &App, version: &str, replicas: usize) -> anyhow::Result<()> {
    app.rollout_status()?;
    app.wait_unheld()?;
    app.wait_version(version, replicas)?;
    app.wait_ready(replicas)?;
    let live = app.live_replica_sets()?;
    ensure!(live.len() == 1, "{} ReplicaSets have pods: {live:?}", live.len());
    ensure!(
        live[0]["spec"]["template"]["metadata"]["annotations"]["hitless.dev/mixed"].is_null(),
        "the mark 'mixed' is left over"
    );
    Ok(())
}

#[test]
fn an_image_change_reaches_the_same_pods_without_a_failed_request() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-upgrade", &Shape::default())?;
    let before = app.identities();
    let replica_sets = app.live_replica_sets()?;
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
    traffic.wait_for_requests(200, PATIENCE)?;
    app.set_version("v2")?;
    app.wait_held()?;
    app.rollout_status()?;
    let images: Vec<String> = app.pods_now()?.values().map(image_of).collect();
    ensure!(images.iter().all(|image| *image == echo_image("v2")), "rollout status said done too early: {images:?}");
    let report = traffic.stop()?;
    ensure!(report.fresh.failed == 0 && report.keepalive.failed == 0, "requests failed: {report:?}");
    ensure!(
        report.versions.contains_key("v1") && report.versions.contains_key("v2"),
        "answers came from {:?}",
        report.versions
    );
    ensure!(app.identities() == before, "pods were replaced: {before:?} became {:?}", app.identities());
    let after = app.live_replica_sets()?;
    ensure!(
        after.len() == 1 && after[0]["metadata"]["uid"] == replica_sets[0]["metadata"]["uid"],
        "another ReplicaSet owns the pods: {after:?}"
    );
    Ok(())
}

/// Proof that the instrument sees what it should: the same server, load and change without hitless.
#[test]
fn the_reference_a_native_rollout_of_the_same_server_loses_requests() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-reference", &Shape { update: None, gate: false, ..Shape::default() })?;
    let measured = measure::rollout(&stack, &app, "v2", Rate::default(), 0, &mut |_, _| {})?;
    ensure!(measured.failed > 0, "a native rollout of a server that exits at once lost nothing: {measured:?}");
    ensure!(measured.pods_recreated == 3, "a native rollout kept pods: {measured:?}");
    Ok(())
}

#[test]
fn history_and_undo_work_between_rollouts() -> anyhow::Result<()> {
    let app = App::start(&cluster()?, "t-undo", &Shape::default())?;
    let before = app.identities();
    app.set_version("v2")?;
    assert_finished(&app, "v2", 3)?;
    let history = app.kubectl.run(&["rollout", "history", "deployment/web"])?;
    ensure!(
        history.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count() == 2,
        "history shows: {history}"
    );
    app.kubectl.run(&["rollout", "undo", "deployment/web"])?;
    assert_finished(&app, "v1", 3)?;
    ensure!(app.identities() == before, "undo replaced pods");
    Ok(())
}

#[test]
fn undo_is_refused_while_held_and_works_after() -> anyhow::Result<()> {
    let app = in_mid_rollout("t-undo-held")?;
    let said = app.kubectl.refused(&["rollout", "undo", "deployment/web"])?;
    ensure!(said.contains("paused"), "kubectl said: {said}");
    assert_finished(&app, "v2", 3)?;
    app.kubectl.run(&["rollout", "undo", "deployment/web"])?;
    assert_finished(&app, "v1", 3)
}

#[test]
fn a_second_change_in_mid_rollout_wins() -> anyhow::Result<()> {
    let app = in_mid_rollout("t-second")?;
    let before = app.identities();
    app.set_version("v3")?;
    assert_finished(&app, "v3", 3)?;
    ensure!(app.identities() == before, "pods were replaced");
    Ok(())
}

#[test]
fn a_change_back_in_mid_rollout_ends_on_the_old_image() -> anyhow::Result<()> {
    let app = in_mid_rollout("t-back")?;
    let before = app.identities();
    app.set_version("v1")?;
    assert_finished(&app, "v1", 3)?;
    ensure!(app.identities() == before, "pods were replaced");
    Ok(())
}

#[test]
fn scaling_up_and_down_goes_on_in_mid_rollout() -> anyhow::Result<()> {
    let app = in_mid_rollout("t-scale")?;
    app.kubectl.run(&["scale", "deployment/web", "--replicas=5"])?;
    app.wait_ready(5)?;
    app.kubectl.run(&["scale", "deployment/web", "--replicas=2"])?;
    assert_finished(&app, "v2", 2)
}

#[test]
fn scaling_to_zero_and_back_comes_up_on_the_new_image() -> anyhow::Result<()> {
    let app = in_mid_rollout("t-zero")?;
    app.kubectl.run(&["scale", "deployment/web", "--replicas=0"])?;
    app.pods.wait("all pods to be gone", PATIENCE, |pods| pods.is_empty().then_some(()))?;
    app.wait_unheld()?;
    app.kubectl.run(&["scale", "deployment/web", "--replicas=2"])?;
    assert_finished(&app, "v2", 2)
}

#[test]
fn a_pod_deleted_in_mid_rollout_comes_back_new() -> anyhow::Result<()> {
    let app = in_mid_rollout("t-deleted-pod")?;
    let old = app.pods.objects().into_iter().find(|(_, pod)| image_of(pod) == echo_image("v1") && is_ready(pod));
    let (name, _) = old.ok_or_else(|| anyhow::anyhow!("no pod of v1 is left"))?;
    app.kubectl.run(&["delete", "pod", &name, "--wait=false"])?;
    assert_finished(&app, "v2", 3)
}

#[test]
fn resume_and_every_kind_of_reapply_keep_the_rollout_held() -> anyhow::Result<()> {
    let app = in_mid_rollout("t-reapply")?;
    let mut manifest = app::manifest(&slow());
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = json!(echo_image("v2"));
    let mut unpaused = manifest.clone();
    unpaused["spec"]["paused"] = json!(false);
    let _ = app.kubectl.output(&["rollout", "resume", "deployment/web"])?;
    for object in [&manifest, &unpaused] {
        app.kubectl.feed(&["apply"], object)?;
        app.kubectl.feed(&["apply", "--server-side", "--force-conflicts"], object)?;
    }
    let web = app.kubectl.get(&["deployment", "web"])?;
    // In this order: whoever lets the Deployment go has seen that all pods are done.
    let done = app.pods_now()?.values().all(|pod| image_of(pod) == echo_image("v2"));
    ensure!(done || (web["spec"]["paused"] == true && app::is_held(&web)), "the rollout got loose: {web}");
    assert_finished(&app, "v2", 3)
}

#[test]
fn rollout_restart_restarts_the_same_pods() -> anyhow::Result<()> {
    let app = App::start(&cluster()?, "t-rollout-restart", &Shape::default())?;
    let (before, containers) = (app.identities(), container_ids(&app.pods_now()?));
    // Not assert_finished: the images have another equal name since they were restarted.
    app.roll(|| app.kubectl.run(&["rollout", "restart", "deployment/web"]).map(drop))?;
    app.wait_ready(3)?;
    ensure!(app.identities() == before, "pods were replaced");
    ensure_all_restarted(&containers, &app.pods_now()?)
}

#[test]
fn the_strategy_recreate_does_not_matter_in_place() -> anyhow::Result<()> {
    let shape =
        Shape { patch: json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}), ..Shape::default() };
    let app = App::start(&cluster()?, "t-recreate", &shape)?;
    let before = app.identities();
    app.set_version("v2")?;
    assert_finished(&app, "v2", 3)?;
    ensure!(app.identities() == before, "pods were replaced");
    Ok(())
}

#[test]
fn the_live_replica_set_of_a_held_deployment_cannot_be_deleted() -> anyhow::Result<()> {
    let app = in_mid_rollout("t-live-rs")?;
    let live = app.live_replica_sets()?;
    let name = live[0]["metadata"]["name"].as_str().unwrap_or_default();
    let said = app.kubectl.refused(&["delete", "replicaset", name])?;
    ensure!(said.contains("hitless"), "kubectl said: {said}");
    assert_finished(&app, "v2", 3)
}

#[test]
fn a_change_that_cannot_be_made_in_place_rolls_natively() -> anyhow::Result<()> {
    let app = App::start(&cluster()?, "t-native", &Shape::default())?;
    let before = app.identities();
    app.kubectl.run(&["set", "env", "deployment/web", "MODE=graceful"])?;
    let note = app.wait_event("NativeRollout")?;
    ensure!(note.contains("env"), "the Event does not name the field: {note}");
    app.rollout_status()?;
    app.wait_ready(3)?;
    app.wait_replaced(&before)?;
    app.set_version("v2")?;
    assert_finished(&app, "v2", 3)
}

#[test]
fn a_deployment_that_did_not_opt_in_rolls_natively() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-not-opted-in", &Shape { update: None, ..Shape::default() })?;
    let before = app.identities();
    app.set_version("v2")?;
    app.rollout_status()?;
    app.wait_replaced(&before)?;
    // Adopted, its next change goes in place.
    let said = stack.hitless(&app, &["adopt", "deployment/web"])?;
    ensure!(said.contains("has not opted in") && said.contains("--yes"), "adopt says: {said}");
    stack.hitless(&app, &["adopt", "deployment/web", "--yes"])?;
    let adopted = app.identities();
    app.set_version("v1")?;
    app.wait_version("v1", 3)?;
    ensure!(app.identities() == adopted, "pods were replaced");
    Ok(())
}

#[test]
fn a_deployment_that_its_user_paused_is_driven_and_never_resumed() -> anyhow::Result<()> {
    let shape = Shape { patch: json!({"spec": {"paused": false}}), ..Shape::default() };
    let app = App::start(&cluster()?, "t-permanent", &shape)?;
    let before = app.identities();
    app.kubectl.run(&["rollout", "pause", "deployment/web"])?;
    app.kubectl.run(&["annotate", "deployment/web", "hitless.dev/rollout-", "--overwrite"])?;
    app.set_version("v2")?;
    // An owner's pause is one.
    let told = app.wait_event("RolloutPaused")?;
    ensure!(told.contains("kubectl rollout resume"), "it says: {told}");
    ensure!(app.pods.objects().values().all(|pod| image_of(pod) == echo_image("v1")), "it goes on under the pause");
    app.kubectl.run(&["annotate", "deployment/web", "hitless.dev/paused=false"])?;
    app.wait_version("v2", 3)?;
    ensure!(app.identities() == before, "pods were replaced");
    Ok(())
}

#[test]
fn what_is_changed_under_a_pause_goes_in_place_when_it_is_resumed() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-pause", &Shape::default())?;
    let before = app.identities();
    stack.hitless(&app, &["pause", "deployment/web"])?;
    stack.hitless(&app, &["set", "image", "deployment/web", &format!("web={}", echo_image("v2"))])?;
    app.wait_event("RolloutPaused")?;
    let status = stack.hitless(&app, &["status"])?;
    ensure!(status.contains("Paused"), "status says: {status}");
    ensure!(app.pods.objects().values().all(|pod| image_of(pod) == echo_image("v1")), "it goes on under the pause");
    let versions = stack.hitless(&app, &["version"])?;
    ensure!(versions.contains("controller ") && versions.contains("agents "), "version says: {versions}");
    // Ends with 1 if something is broken.
    // A kubelet that is late with one look at an agent is right for a moment.
    until_answered(|| stack.hitless(&app, &["doctor"]))?;
    stack.hitless(&app, &["resume", "deployment/web"])?;
    app.wait_version("v2", 3)?;
    app.wait_unheld()?;
    ensure!(app.identities() == before, "pods were replaced");
    Ok(())
}

#[test]
fn a_restart_by_the_plugin_happens_exactly_once() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-restart", &Shape::default())?;
    let (before, containers) = (app.identities(), container_ids(&app.pods_now()?));
    stack.hitless(&app, &["restart", "deployment/web", "--wait"])?;
    app.wait_ready(3)?;
    ensure!(app.identities() == before, "pods were replaced");
    let after = app.pods_now()?;
    ensure_all_restarted(&containers, &after)?;
    ensure!(restarts(&after) == [1; 3], "restarted other than once: {:?}", restarts(&after));
    let held = app.kubectl.get(&["deployment", "web"])?;
    ensure!(!app::is_held(&held), "a restart of pods is no rollout of the Deployment");
    Ok(())
}

#[test]
fn an_image_that_never_becomes_ready_is_rolled_back_and_stops_the_rollout() -> anyhow::Result<()> {
    let shape = Shape {
        patch: json!({"spec": {"progressDeadlineSeconds": 20, "template": {"spec": {"terminationGracePeriodSeconds": 1}}}}),
        ..Shape::default()
    };
    let app = App::start(&cluster()?, "t-bad-image", &shape)?;
    let before = app.identities();
    app.set_version("unready")?;
    let note = app.wait_event("RolloutHalted")?;
    ensure!(note.contains(&echo_image("unready")) && note.contains("kubectl hitless undo"), "it says: {note}");
    // Kubernetes' own tools end with an error, too.
    let status = app.kubectl.run(&["rollout", "status", "deployment", "web", "--timeout", "60s"]);
    let said = status.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(said.contains("exceeded its progress deadline"), "kubectl rollout status said: {said}");
    app.wait_version("v1", 3)?;
    let tried = app.pods.never(std::time::Duration::from_secs(5), |pods| {
        pods.values().any(|pod| image_of(pod) == echo_image("unready")).then_some(())
    });
    ensure!(tried.is_none(), "another pod was tried after one was rolled back");
    ensure!(app.identities() == before, "pods were replaced");
    // Nothing is made of it any more, also without the pod that it was judged by.
    let pod = app.pods.objects().keys().find(|pod| note.contains(pod.as_str())).cloned().context("no pod is named")?;
    app.kubectl.run(&["delete", "pod", &pod, "--wait=false"])?;
    app.kubectl.run(&["scale", "deployment", "web", "--replicas", "4"])?;
    app.wait_version("v1", 4)?;
    let plugin = Stack::attach()?.programs.cli;
    let wait = app.kubectl.plugin(&plugin, &["wait", "deployment/web"])?;
    let said = String::from_utf8_lossy(&wait.stderr).into_owned();
    ensure!(wait.status.code() == Some(1) && said.contains(&echo_image("unready")), "wait said: {said}");
    let undo = app.kubectl.plugin(&plugin, &["undo", "deployment/web"])?;
    ensure!(undo.status.success(), "undo said: {}", String::from_utf8_lossy(&undo.stderr));
    assert_finished(&app, "v1", 4)?;
    app.set_version("v2")?;
    assert_finished(&app, "v2", 4)?;
    app.wait_not_halted()
}

/// None of these containers runs any more.
fn ensure_all_restarted(before: &[String], pods: &Objects) -> anyhow::Result<()> {
    let after = container_ids(pods);
    ensure!(before.iter().all(|id| !after.contains(id)), "not every container was restarted: {before:?} {after:?}");
    Ok(())
}

#[test]
fn new_pods_are_in_service_as_soon_as_they_are_bound() -> anyhow::Result<()> {
    let app = App::start(&cluster()?, "t-in-service", &Shape { replicas: 1, ..Shape::default() })?;
    let pods = Watch::start(&app.kubectl, &["pods", "-l", app::OWN])?;
    pods.wait("InService with the agent's reason", PATIENCE, |pods| {
        let pod = pods.values().next()?;
        (app::condition(pod, "hitless.dev/InService") == Some("True")).then_some(())
    })
}

#[test]
fn the_nodes_endpoint_tells_how_far_a_pod_is() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    // Longer than the others: on a busy machine our watch may be seconds late.
    let app = App::start(&stack.cluster, "t-endpoint", &Shape::default().out_for(10))?;
    app.set_version("v2")?;
    let (pod, node) = app.pods.wait("a pod out of service", PATIENCE, |pods| {
        let (name, pod) = pods.iter().find(|(_, pod)| app::condition(pod, "hitless.dev/InService") == Some("False"))?;
        Some((name.clone(), pod["spec"]["nodeName"].as_str()?.to_owned()))
    })?;
    let path = format!("/v1/pods/t-endpoint/{pod}/drain");
    // The API server may tell us of the agent's write before it tells the agent.
    let body = loop {
        let (status, body) = endpoint::get(&stack.cluster, &node, &path)?;
        let answer: Value = serde_json::from_str(&body)?;
        ensure!(
            status == 200 && ["Leaving", "Draining"].contains(&answer["phase"].as_str().unwrap_or_default()),
            "the endpoint said {status}: {body}"
        );
        if answer["inService"] == false {
            break body;
        }
    };
    ensure!(body.contains("\"drained\":false"), "the endpoint said: {body}");
    let (status, body) = endpoint::get(&stack.cluster, &node, "/v1/pods/t-endpoint/no-such-pod/drain")?;
    ensure!(status == 404 && body.contains("no-such-pod"), "an unknown pod was answered by {status}: {body}");
    for path in ["/healthz", "/readyz", "/metrics"] {
        let (status, body) = endpoint::get(&stack.cluster, &node, path)?;
        ensure!(status == 200, "{path} was answered by {status}: {body}");
    }
    assert_finished(&app, "v2", 3)
}

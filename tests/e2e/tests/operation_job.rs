//! KusionStack's OperationJobs.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{App, PATIENCE, Shape};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{Stack, Traffic, Watch};
use serde_json::{Value, json};

fn job(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "apps.kusionstack.io/v1alpha1", "kind": "OperationJob", "metadata": {"name": name}, "spec": spec})
}

fn targets(pods: &[&str]) -> Value {
    pods.iter().map(|pod| json!({"name": pod})).collect()
}

/// uid of each pod, how often its container was restarted, and the id of the one that runs, by name.
fn containers(app: &App) -> anyhow::Result<BTreeMap<String, (String, u64, String)>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        (
            text(&pod["metadata"]["uid"]),
            status["restartCount"].as_u64().unwrap_or_default(),
            text(&status["containerID"]),
        )
    };
    Ok(app.pods_now()?.iter().map(|(name, pod)| (name.clone(), of(pod))).collect())
}

/// Waits until the job has ended.
fn wait_end(jobs: &Watch, name: &str) -> anyhow::Result<Value> {
    jobs.wait(&format!("job {name} to end"), PATIENCE, |jobs| {
        let status = &jobs.get(name)?["status"];
        matches!(status["progress"].as_str(), Some("Succeeded" | "Failed")).then(|| status.clone())
    })
}

fn reason(status: &Value, target: usize) -> &str {
    status["targetDetails"][target]["error"]["reason"].as_str().unwrap_or_default()
}

#[test]
fn a_job_restarts_each_of_its_pods_once_without_a_failed_request_though_the_controller_dies() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let shape = Shape { replicas: 4, mode: None, ..Shape::default() }.parking();
    let app = App::start(&stack.cluster, "t-opj", &shape)?;
    let jobs = Watch::start(&app.kubectl, &["operationjobs.apps.kusionstack.io"])?;
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
    traffic.wait_for_requests(200, PATIENCE)?;
    let before = containers(&app)?;
    let names: Vec<&str> = before.keys().map(String::as_str).collect();

    // Three of four, and one that is not there; the leader dies when the first is under way.
    let spec = json!({"action": "Restart", "targets": targets(&[names[0], names[1], names[2], "nobody"])});
    let mut progress = jobs.follow();
    app.kubectl.feed(&["create"], &job("again", &spec))?;
    progress.wait("the first pod to be under way", PATIENCE, |jobs| {
        let details = jobs.get("again")?["status"]["targetDetails"].as_array()?.clone();
        details.iter().any(|detail| detail["progress"] == "Processing").then_some(())
    })?;
    stack.kill_leader()?;
    let status = wait_end(&jobs, "again")?;
    ensure!((&status["succeededPodCount"], &status["failedPodCount"]) == (&json!(3), &json!(1)), "{status}");
    ensure!(status["progress"] == "Failed" && reason(&status, 3) == "PodNotFound", "{status}");
    let columns = app.kubectl.run(&["get", "opj", "again"])?;
    ensure!(columns.contains("PROGRESS") && columns.contains("Failed"), "{columns}");

    // The same for all by the command, which waits.
    let said = stack.hitless(&app, &["restart", "deployment/web", "--job", "--wait"])?;
    ensure!(said.contains("operationjob/restart-web-") && said.contains("4 of 4 pods restarted"), "{said}");
    let after = containers(&app)?;
    for (index, name) in names.iter().enumerate() {
        let ((uid, count, id), (uid_now, count_now, id_now)) = (&before[*name], &after[*name]);
        let times = if index < 3 { 2 } else { 1 };
        ensure!(uid == uid_now && id != id_now, "pod {name} was not restarted in place");
        ensure!(count_now - count == times, "pod {name} was restarted {} times, not {times}", count_now - count);
    }
    let report = traffic.stop()?;
    ensure!(report.failed() == 0, "requests failed: {:?}", report.failures);
    Ok(())
}

#[test]
fn what_makes_no_sense_is_refused_or_fails_with_a_reason_and_touches_nothing() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let app = App::start(&stack.cluster, "t-opj-bad", &Shape { replicas: 2, ..Shape::default() })?;
    let jobs = Watch::start(&app.kubectl, &["operationjobs.apps.kusionstack.io"])?;
    let before = containers(&app)?;
    let name = before.keys().next().context("no pod")?.clone();
    let create = |job: &Value| app.kubectl.feed(&["create"], job);

    let many: Vec<Value> = (0..10_000).map(|index| json!({"name": format!("p-{index}")})).collect();
    for (spec, words) in [
        (json!({"action": "Restart", "targets": targets(&[&name, &name])}), "Duplicate value"),
        (json!({"action": "Restart", "targets": targets(&[&name]), "partition": -1}), "partition"),
        (json!({"action": "Restart", "targets": many}), "must have at most 2000 items"),
    ] {
        let refused = create(&job("bad", &spec)).err().with_context(|| format!("accepted, though: {words}"))?;
        ensure!(format!("{refused:#}").contains(words), "{refused:#} does not say: {words}");
    }
    create(&job("word", &json!({"action": "Explode", "targets": targets(&[&name])})))?;
    create(&job("container", &json!({"action": "Restart", "targets": [{"name": &name, "containers": ["nope"]}]})))?;
    create(&job("replace", &json!({"action": "Replace", "targets": targets(&[&name])})))?;
    for (job, wanted) in [("word", "UnknownAction"), ("container", "ContainerNotFound"), ("replace", "NotOfCollaSet")] {
        let status = wait_end(&jobs, job)?;
        ensure!(status["progress"] == "Failed" && reason(&status, 0) == wanted, "{job}: {status}");
    }
    app.wait_event_saying("OperationFailed", "Explode")?;
    // What was begun is not taken back, and what is done is not changed.
    create(&job("part", &json!({"action": "Restart", "targets": targets(&[&name]), "partition": 0})))?;
    let patch = |patch: Value| app.kubectl.run(&["patch", "opj", "part", "--type=merge", "-p", &patch.to_string()]);
    for (change, words) in [
        (json!({"spec": {"action": "Replace"}}), "action can't be changed"),
        (json!({"spec": {"targets": targets(&["other"])}}), "targets can't be changed"),
    ] {
        let refused = patch(change).err().with_context(|| format!("accepted, though: {words}"))?;
        ensure!(format!("{refused:#}").contains(words), "{refused:#}");
    }
    jobs.wait("the job to be taken on", PATIENCE, |jobs| {
        (jobs.get("part")?["status"]["progress"] == "Pending").then_some(())
    })?;
    ensure!(containers(&app)? == before, "a pod was touched");
    stack.wait_says(&app, &["status"], &["operationjob/part"])?;
    // As soon as it may, and it goes when its time is over.
    patch(json!({"spec": {"partition": 1, "TTLSecondsAfterFinished": 0}}))?;
    jobs.wait("the job to be done and deleted", PATIENCE, |jobs| (!jobs.contains_key("part")).then_some(()))?;
    let after = containers(&app)?;
    ensure!(after[&name].1 == before[&name].1 + 1, "pod {name} was not restarted once: {after:?}");
    Ok(())
}

//! OpenKruise's ContainerRecreateRequests.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use hitless_e2e::app::{App, PATIENCE, Shape};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{Stack, Traffic, Watch};
use serde_json::{Value, json};

const RESOURCE: &str = "containerrecreaterequests.apps.kruise.io";

fn request(name: &str, pod: &str, container: &str) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": name},
        "spec": {"podName": pod, "containers": [{"name": container}]}})
}

/// uid of each pod and how often its container was restarted, by name.
fn restarts(app: &App) -> anyhow::Result<BTreeMap<String, (String, u64)>> {
    let of = |pod: &Value| {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        (uid, pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default())
    };
    Ok(app.pods_now()?.iter().map(|(name, pod)| (name.clone(), of(pod))).collect())
}

fn wait_end(requests: &Watch, name: &str) -> anyhow::Result<Value> {
    requests.wait(&format!("request {name} to end"), PATIENCE, |requests| {
        let status = &requests.get(name)?["status"];
        (status["phase"] == "Completed").then(|| status.clone())
    })
}

#[test]
fn containers_are_started_anew_once_without_a_failed_request() -> anyhow::Result<()> {
    let stack = Stack::attach()?;
    let shape = Shape { replicas: 3, mode: None, ..Shape::default() }.parking();
    let app = App::start(&stack.cluster, "t-crr", &shape)?;
    let requests = Watch::start(&app.kubectl, &[RESOURCE])?;
    let traffic = Traffic::start(&stack.cluster, &stack.programs, app.address, Rate::default())?;
    traffic.wait_for_requests(200, PATIENCE)?;
    let before = restarts(&app)?;
    let names: Vec<&str> = before.keys().map(String::as_str).collect();
    let container =
        app.pods_now()?[names[0]]["spec"]["containers"][0]["name"].as_str().context("no container")?.to_owned();

    // Two for one pod, one for another; the leader dies when the first is under way.
    let mut progress = requests.follow();
    for (name, pod) in [("first", names[0]), ("second", names[0]), ("other", names[1])] {
        app.kubectl.feed(&["create"], &request(name, pod, &container))?;
    }
    progress.wait("a container to be replaced", PATIENCE, |requests| {
        requests.values().any(|request| request["status"]["phase"] == "Recreating").then_some(())
    })?;
    stack.kill_leader()?;
    for name in ["first", "second", "other"] {
        let status = wait_end(&requests, name)?;
        ensure!(status["containerRecreateStates"][0]["phase"] == "Succeeded", "{name}: {status}");
    }
    let after = restarts(&app)?;
    for (index, name) in names.iter().enumerate() {
        let ((uid, count), (uid_now, count_now)) = (&before[*name], &after[*name]);
        let times = u64::from(index < 2);
        ensure!(uid == uid_now && count_now - count == times, "pod {name}: {before:?}, then {after:?}");
    }
    let columns = app.kubectl.run(&["get", "crr", "first"])?;
    ensure!(columns.contains("PHASE") && columns.contains("Completed") && columns.contains(names[0]), "{columns}");

    // What can't be done touches nothing and says why; what makes no sense is refused.
    app.kubectl.feed(&["create"], &request("unknown", names[2], "nope"))?;
    let status = wait_end(&requests, "unknown")?;
    ensure!(status["containerRecreateStates"][0]["message"] == "the pod has no container nope", "{status}");
    app.kubectl.feed(&["create"], &request("nobody", "nobody", &container))?;
    let status = wait_end(&requests, "nobody")?;
    ensure!(status["message"] == "pod has gone", "{status}");
    let change = json!({"spec": {"podName": names[2]}}).to_string();
    let refused = app.kubectl.run(&["patch", "crr", "first", "--type=merge", "-p", &change]);
    let words = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(words.contains("make another ContainerRecreateRequest"), "not refused in these words: {words}");
    ensure!(restarts(&app)? == after, "a pod was touched");

    traffic.wait_for_more(200, PATIENCE)?;
    let report = traffic.stop()?;
    ensure!(report.failed() == 0, "requests failed: {:?}", report.failures);
    Ok(())
}

//! What a rollout costs: seconds, failed requests, pods made anew, API writes by component.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hitless_cluster::Write;
use hitless_load::{Failure, Report};
use jiff::Timestamp;
use serde::Serialize;

use crate::App;
use crate::app::{Identity, PATIENCE, image_of, is_ready, patience_for};
use crate::site::Site;
use crate::traffic::Rate;

/// What was measured of one rollout.
#[derive(Clone, Debug, Serialize)]
pub struct Rollout {
    /// Requests that were due while the load ran, before, during and after the rollout.
    pub requests: u64,
    /// Requests that failed after the retry that HTTP/1.1 allows.
    pub failed: u64,
    /// Failed requests on fresh connections.
    pub failed_fresh: u64,
    /// Failed requests on kept-alive connections, after the allowed retry.
    pub failed_keepalive: u64,
    /// Requests on kept-alive connections whose first attempt failed.
    pub failed_keepalive_unretried: u64,
    /// From the user's change to the last pod ready and `kubectl rollout status` done.
    pub seconds: f64,
    /// Of these until the first pod had the new image in its spec. Before that hitless fetches the image, and a pod that leaves service
    /// is drained.
    pub seconds_to_first_pod: f64,
    /// Pods that were there before and are no more.
    pub pods_recreated: usize,
    /// Longest time without an answer, in milliseconds.
    pub longest_pause_ms: u64,
    /// The versions that answered.
    pub versions: Vec<String>,
    /// The first failures, if any: what to look for in the logs.
    pub failures: Vec<Failure>,
    /// When the load began, in milliseconds since 1970; times of failures count from it.
    pub started_unix_ms: u64,
    /// API writes in the application's namespace and by hitless, without Events, divided by the pods: by component. Nothing where
    /// there is no audit log to read.
    pub writes_per_pod: BTreeMap<String, f64>,
    /// Of these those by hitless: by component, verb and resource.
    pub own_writes: BTreeMap<String, f64>,
}

impl Rollout {
    /// API writes per pod by agent and controller, if there was an audit log to read.
    #[must_use]
    pub fn own_writes_per_pod(&self) -> Option<f64> {
        (!self.writes_per_pod.is_empty()).then(|| self.own_writes.values().sum())
    }
}

/// What goes on while a rollout runs, for a live view.
pub type Watcher<'a> = &'a mut dyn FnMut(&App, &Report);

/// Changes the image of a running application under load and measures until the rollout has ended. The load goes on until
/// at least `requests` have been sent.
pub fn rollout(
    site: &dyn Site,
    app: &App,
    version: &str,
    rate: Rate,
    requests: u64,
    look: Watcher<'_>,
) -> anyhow::Result<Rollout> {
    let before = app.identities();
    let patience = patience_for(before.len());
    let traffic = site.load(app, rate)?;
    traffic.wait_for_requests(rate.per_second(), PATIENCE)?;
    let (since, begin) = (Timestamp::now(), Instant::now());
    app.set_version(version)?;
    let mut first_pod = None;
    while !finished(app, version, before.len()) {
        if first_pod.is_none() && runs_anywhere(app, version) {
            first_pod = Some(begin.elapsed());
        }
        app.pods.next_change(Duration::from_millis(250));
        look(app, &traffic.report());
        anyhow::ensure!(begin.elapsed() < patience, "the rollout to {version} did not end in {patience:?}");
    }
    let first_pod = first_pod.unwrap_or_else(|| begin.elapsed());
    app.rollout_status()?;
    let seconds = begin.elapsed().as_secs_f64();
    // Endpoint controllers and status writers lag a little behind the pods: their writes belong to the rollout.
    let enough = requests.max(traffic.report().requests() + 2 * rate.per_second());
    traffic.wait_for_requests_looking(enough, PATIENCE * 3, &mut |report| look(app, report))?;
    let report = traffic.stop()?;
    let (writes, namespace) = (site.writes(since)?, app.kubectl.namespace());
    Ok(Rollout {
        requests: report.requests(),
        failed: report.failed(),
        failed_fresh: report.fresh.failed,
        failed_keepalive: report.keepalive.failed,
        failed_keepalive_unretried: report.keepalive.failed_unretried,
        seconds,
        seconds_to_first_pod: first_pod.as_secs_f64(),
        pods_recreated: recreated(&before, &app.identities()),
        longest_pause_ms: report.longest_pause.length_ms,
        versions: report.versions.keys().cloned().collect(),
        failures: report.failures.iter().take(20).cloned().collect(),
        started_unix_ms: report.started_unix_ms,
        writes_per_pod: per_pod(counted(&writes, namespace).map(|write| component(&write.user)), before.len()),
        own_writes: per_pod(counted(&writes, namespace).filter(|write| is_own(write)).map(described), before.len()),
    })
}

/// API writes by hitless since then that have to do with this application, without Events.
pub fn own_writes(site: &dyn Site, app: &App, since: Timestamp) -> anyhow::Result<usize> {
    let writes = site.writes(since)?;
    Ok(counted(&writes, app.kubectl.namespace()).filter(|write| is_own(write)).count())
}

/// Whether all pods, and no more than `replicas`, have that version and are ready.
#[must_use]
pub fn finished(app: &App, version: &str, replicas: usize) -> bool {
    let image = app.image(version);
    let pods = app.pods.objects();
    pods.len() == replicas && pods.values().all(|pod| image_of(pod) == image && is_ready(pod))
}

fn runs_anywhere(app: &App, version: &str) -> bool {
    let image = app.image(version);
    app.pods.objects().values().any(|pod| image_of(pod) == image)
}

fn recreated(before: &[Identity], after: &[Identity]) -> usize {
    before.iter().filter(|pod| !after.contains(pod)).count()
}

/// Changes the image by nothing but one patch a pod, so many pods at a time; the next one follows when one is Ready: the floor.
pub fn raw_patches(app: &App, version: &str, at_a_time: u32) -> anyhow::Result<f64> {
    let image = app.image(version);
    let patch = serde_json::json!({"spec": {"containers": [{"name": "web", "image": image}]}}).to_string();
    let begin = Instant::now();
    let mut waiting: Vec<String> = app.identities().into_iter().map(|pod| pod.name).collect();
    let patience = patience_for(waiting.len());
    // With the container that each had before.
    let mut patched: BTreeMap<String, Option<String>> = BTreeMap::new();
    loop {
        patched.retain(|pod, old| {
            let ready = app.pods.objects().get(pod).is_some_and(is_ready);
            let new = container_id(app, pod);
            !ready || new.is_none() || new == *old
        });
        if patched.is_empty() && waiting.is_empty() {
            return Ok(begin.elapsed().as_secs_f64());
        }
        let free = (at_a_time as usize).saturating_sub(patched.len()).min(waiting.len());
        let next: Vec<String> = waiting.drain(..free).collect();
        if next.is_empty() {
            app.pods.next_change(Duration::from_millis(250));
        } else {
            patched.extend(next.iter().map(|pod| (pod.clone(), container_id(app, pod))));
            let mut arguments = vec!["patch", "pod"];
            arguments.extend(next.iter().map(String::as_str));
            arguments.extend(["-p", &patch]);
            app.kubectl.run(&arguments)?;
        }
        anyhow::ensure!(begin.elapsed() < patience, "the patched pods were not ready in {patience:?}: {patched:?}");
    }
}

fn container_id(app: &App, pod: &str) -> Option<String> {
    app.pods.objects().get(pod)?["status"]["containerStatuses"][0]["containerID"].as_str().map(str::to_owned)
}

/// Successful and failed writes alike cost the API server, so all are counted; Events, leases, tokens and reviews are not.
fn counted<'a>(writes: &'a [Write], namespace: &'a str) -> impl Iterator<Item = &'a Write> {
    writes.iter().filter(move |write| {
        !["events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectreviews"]
            .contains(&write.resource.as_str())
            && !write.resource.ends_with("/token")
            && (is_own(write) || write.namespace == namespace)
    })
}

fn is_own(write: &Write) -> bool {
    write.user.starts_with("system:serviceaccount:hitless-system:")
}

fn described(write: &Write) -> String {
    format!("{} {} {}", component(&write.user), write.verb, write.resource)
}

fn per_pod(names: impl Iterator<Item = String>, pods: usize) -> BTreeMap<String, f64> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of writes are far below 2^52")]
    counts.into_iter().map(|(who, count)| (who, count as f64 / pods.max(1) as f64)).collect()
}

fn component(user: &str) -> String {
    match user {
        _ if user.starts_with("system:node:") => "kubelet".to_owned(),
        "admin" | "kubernetes-admin" => "user".to_owned(),
        _ => user.rsplit(':').next().unwrap_or(user).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(user: &str, resource: &str, namespace: &str) -> Write {
        Write {
            received: Timestamp::UNIX_EPOCH,
            time: Timestamp::UNIX_EPOCH,
            user: user.to_owned(),
            verb: "patch".to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: String::new(),
            code: 200,
        }
    }

    #[test]
    fn writes_are_counted_by_component_without_events_and_other_namespaces() {
        let writes = [
            write("system:serviceaccount:hitless-system:hitless-agent", "pods", "app"),
            write("system:serviceaccount:hitless-system:hitless-controller", "nodetransitions", ""),
            write("system:serviceaccount:hitless-system:hitless-controller", "events", "app"),
            write("system:serviceaccount:hitless-system:hitless-controller", "leases", "hitless-system"),
            write("system:node:n1", "pods/status", "app"),
            write("system:node:n1", "pods/status", "other"),
        ];
        let is = |counts: BTreeMap<String, f64>, expected: &[(&str, f64)]| {
            assert_eq!(counts, expected.iter().map(|(who, count)| ((*who).to_owned(), *count)).collect());
        };
        is(
            per_pod(counted(&writes, "app").map(|write| component(&write.user)), 2),
            &[("hitless-agent", 0.5), ("hitless-controller", 0.5), ("kubelet", 0.5)],
        );
        is(
            per_pod(counted(&writes, "app").filter(|write| is_own(write)).map(described), 2),
            &[("hitless-agent patch pods", 0.5), ("hitless-controller patch nodetransitions", 0.5)],
        );
    }
}

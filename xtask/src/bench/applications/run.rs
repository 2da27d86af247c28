//! The rollouts of one case in one way, under load.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hitless_cluster::Place;
use hitless_e2e::app::{PATIENCE, is_ready, manifest};
use hitless_e2e::traffic::Rate;
use hitless_e2e::until::until_answered;
use hitless_e2e::{App, Kubectl, Stack, Traffic, namespace};
use hitless_workloads::image::unpinned;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::case::{Brought, Case, Change, Moment, version};
use super::client::{Client, Sent, namespace_beside};

/// What clients send, beside what a case asks for.
const RATE: Rate = Rate { fresh: 50, keepalive: 20, connections: 4, delay_ms: 0 };
/// What was said to be done is given so long to be seen, as our watch may be behind.
const SEEN_WITHIN: Duration = Duration::from_secs(10);
/// Of a client with a script: all that it had sent before is over by then.
const MORE_OF_CLIENT: u64 = 600;
/// A Service may still send one of several questions to a pod that is just gone.
const ASKED_FOR: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Hitless,
    Native,
}

/// What was seen of one rollout.
#[derive(Default, Serialize)]
pub(super) struct Seen {
    pub(super) requests: u64,
    /// Requests without an answer, after the retry that HTTP/1.1 allows.
    pub(super) failed: u64,
    /// The longest time without any answer, in milliseconds.
    pub(super) longest_ms: u64,
    /// From the change until `wait` (`kubectl rollout status` natively) ended.
    pub(super) seconds: f64,
    /// In place, or by new pods.
    pub(super) way: &'static str,
    /// The exit code of `wait`.
    pub(super) code: Option<i32>,
    /// It has neither ended nor said what is in the way.
    pub(super) is_stuck: bool,
    /// It was said to be done, and was not.
    pub(super) is_wrong: bool,
    /// What hitless said of it.
    pub(super) words: String,
}

impl Seen {
    /// How it ended.
    pub(super) fn end(&self) -> String {
        match (self.is_wrong, self.is_stuck, self.code) {
            (true, ..) => "WRONG".to_owned(),
            (_, true, _) => "STUCK".to_owned(),
            (.., Some(0)) => "done".to_owned(),
            (.., code) => format!("told {}", code.unwrap_or_default()),
        }
    }
}

pub(super) fn rollouts(
    stack: &Stack,
    case: &Case,
    way: Way,
    count: usize,
    longest: Duration,
) -> anyhow::Result<Vec<Seen>> {
    let suffix = if way == Way::Hitless { "ours" } else { "native" };
    let namespace = format!("app-{}-{suffix}", case.name);
    let space = Kubectl::new(std::sync::Arc::clone(&stack.cluster), &namespace);
    let mut labels = json!({});
    if way == Way::Hitless {
        labels["hitless.dev/gate"] = "enabled".into();
    }
    namespace::apply(&space, &labels)?;
    let by_hand = |moment| (case.by_hand)(stack, moment);
    let seen = by_hand(Moment::Before).and_then(|()| beside(&space, case, 0, "apply")).and_then(|()| {
        let shape = case.shape(way == Way::Hitless);
        wait_given(&space, case, || Ok(manifest(&shape)["spec"]["template"].take()), 0)?;
        let app = App::start_by(space.clone(), &shape)?;
        let rollout = |rollout| one(stack, &app, case, way, rollout, longest);
        let seen = by_hand(Moment::Serving).and_then(|()| (1..=count).map(rollout).collect());
        by_hand(Moment::Over).and(seen)
    });
    // Its pods must not be in the way of the next one's, also where it has failed.
    let is_gone = beside(&space, case, count, "delete");
    let client = namespace_beside(&namespace);
    let delete = ["delete", "namespace", &namespace, &client, "--ignore-not-found", "--timeout=180s"];
    let is_gone = space.run(&delete).map(drop).and(is_gone);
    seen.and_then(|seen| is_gone.map(|()| seen)).with_context(|| format!("{} {suffix}", case.name))
}

fn beside(space: &Kubectl, case: &Case, rollout: usize, verb: &str) -> anyhow::Result<()> {
    let mut arguments = vec![verb];
    if verb == "delete" {
        arguments.push("--ignore-not-found");
    }
    (case.beside)(space.namespace(), rollout).iter().try_for_each(|object| space.feed(&arguments, object).map(drop))
}

fn one(stack: &Stack, app: &App, case: &Case, way: Way, rollout: usize, longest: Duration) -> anyhow::Result<Seen> {
    let before = app.identities();
    let address = address(app, case)?;
    let load = |rate| Traffic::start(&stack.cluster, &stack.programs, address, rate);
    let traffic = case.is_http.then(|| load(RATE)).transpose()?;
    let also = case.also.map(load).transpose()?;
    let client = case.client.map(|script| Client::start(&app.kubectl, script)).transpose()?;
    let sent = client.as_ref().map(Client::sent).transpose()?;
    if let Some(traffic) = &traffic {
        traffic.wait_for_requests(2 * RATE.per_second(), PATIENCE)?;
    }
    beside(&app.kubectl, case, rollout, "apply")?;
    wait_given(&app.kubectl, case, || Ok(app.kubectl.get(&[app.workload.web()])?["spec"]["template"].take()), rollout)?;
    // Times in the API are whole seconds.
    let (since, begin) = (Timestamp::from_second(Timestamp::now().as_second())?, Instant::now());
    change(app, case, rollout)?;
    (case.by_hand)(stack, Moment::Rolling)?;
    let (code, said) = wait(stack, app, way, longest)?;
    let seconds = begin.elapsed().as_secs_f64();
    let missing = missing(app, case, rollout, since)?;
    if let Some(traffic) = &traffic {
        traffic.wait_for_more(2 * RATE.per_second(), PATIENCE)?;
    }
    let after = client.as_ref().map(|client| client.wait_for_more(MORE_OF_CLIENT)).transpose()?;
    let pause = client.map(|client| client.longest_ms(since)).transpose()?.unwrap_or_default();
    let mut report = traffic.map(Traffic::stop).transpose()?.unwrap_or_default();
    let (mut requests, mut failed) = (report.requests(), report.failed());
    if let Some(also) = also {
        let other = also.stop()?;
        (requests, failed) = (requests + other.requests(), failed + other.failed());
        report.failures.extend(other.failures);
    }
    if let (Some(after), Some(before)) = (after, sent) {
        let Sent { requests: more, failed: lost, .. } = after.since(before);
        (requests, failed) = (requests + more, failed + lost);
    }
    let now = app.identities();
    let kept = before.iter().filter(|pod| now.contains(pod)).count();
    let mut words = words(app, since, said)?;
    if let Some(missing) = missing.as_ref().filter(|_| code == Some(0)) {
        write!(words, " | NOT DONE: {missing}")?;
    }
    if let Some(failure) = report.failures.first() {
        let at = Timestamp::from_millisecond(i64::try_from(report.started_unix_ms + failure.seen_ms)?)?;
        write!(words, " | first failure {at}: {:?} {:?}", failure.class, failure.kind)?;
    }
    Ok(Seen {
        requests,
        failed,
        longest_ms: report.longest_pause.length_ms.max(pause),
        seconds,
        way: match kept {
            kept if kept == before.len() => "in place",
            0 => "new pods",
            _ => "mixed",
        },
        code,
        is_stuck: code == Some(TIMED_OUT),
        is_wrong: code == Some(0) && missing.is_some(),
        words,
    })
}

/// Where clients come to.
fn address(app: &App, case: &Case) -> anyhow::Result<SocketAddr> {
    let Some(port) = case.node_port else { return Ok(app.address) };
    let pods = app.pods_now()?;
    let node = pods.values().find_map(|pod| pod["status"]["hostIP"].as_str()).context("no pod has a node")?;
    Ok(SocketAddr::new(node.parse()?, port))
}

/// Exit code of `kubectl hitless wait` whose time was over.
const TIMED_OUT: i32 = 4;

fn change(app: &App, case: &Case, rollout: usize) -> anyhow::Result<()> {
    match case.change {
        Change::Image => app.set_version(version(rollout)),
        Change::Restart => app.kubectl.run(&["rollout", "restart", app.workload.web()]).map(drop),
        Change::Patch(patch) => {
            let patch = patch(rollout).to_string();
            app.kubectl.run(&["patch", app.workload.web(), "--type=strategic", "-p", &patch]).map(drop)
        }
    }
}

/// Its exit code, and its last line.
fn wait(stack: &Stack, app: &App, way: Way, longest: Duration) -> anyhow::Result<(Option<i32>, String)> {
    let timeout = format!("--timeout={}s", longest.as_secs());
    let output = match way {
        Way::Hitless => stack.hitless_output(app, &["wait", app.workload.web(), &timeout])?,
        Way::Native => app.kubectl.output(&["rollout", "status", app.workload.web(), &timeout])?,
    };
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    Ok((output.status.code(), said.lines().last().unwrap_or_default().to_owned()))
}

/// Waits until the API server gives new pods of the template the container that the case names: it knows of a changed policy a little
/// later than of the change. A container of the template has the version before the rollout.
fn wait_given(
    space: &Kubectl,
    case: &Case,
    template: impl FnOnce() -> anyhow::Result<Value>,
    rollout: usize,
) -> anyhow::Result<()> {
    let Brought::Container(name, image) = case.brought else { return Ok(()) };
    let mut pod = template()?;
    let is_injected = container(&pod["spec"], name).is_null();
    let image = image(if is_injected { rollout } else { rollout.saturating_sub(1) });
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "given".into();
    until_answered(|| {
        let made = space.feed(&["create", "--dry-run=server", "-o=json"], &pod)?;
        let made: Value = serde_json::from_str(&made)?;
        ensure!(container(&made["spec"], name)["image"] == image, "{image} is not put into new pods");
        Ok(())
    })
}

/// What is not as it was said to be; our own watch may be behind, so for a moment that is no fault.
fn missing(app: &App, case: &Case, rollout: usize, since: Timestamp) -> anyhow::Result<Option<String>> {
    let begin = Instant::now();
    loop {
        let missing = missing_now(app, case, rollout, since)?;
        if missing.is_none() || begin.elapsed() > SEEN_WITHIN {
            return Ok(missing);
        }
        app.pods.next_change(Duration::from_millis(250));
    }
}

fn missing_now(app: &App, case: &Case, rollout: usize, since: Timestamp) -> anyhow::Result<Option<String>> {
    let workload = app.kubectl.get(&[app.workload.web()])?;
    let template = &workload["spec"]["template"]["spec"]["containers"];
    let pods = app.pods_now()?;
    let pods: Vec<&Value> = pods.values().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect();
    if pods.len() != case.replicas as usize {
        return Ok(Some(format!("there are {} pods", pods.len())));
    }
    let is_restart = matches!(case.change, Change::Restart);
    for pod in pods {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let fault = match () {
            () if !is_ready(pod) => "is not Ready".to_owned(),
            () if !has_images(pod, template, case) => {
                format!("has other images than the template: {}", pod["spec"]["containers"])
            }
            () if is_restart && !is_young(pod, template, since) => "has containers of before".to_owned(),
            () => match case.brought {
                Brought::Container(name, image)
                    if unpinned(container(&pod["spec"], name)["image"].as_str().unwrap_or_default())
                        != image(rollout) =>
                {
                    format!("has not {} in container {name}", image(rollout))
                }
                Brought::Container(..) | Brought::Pods | Brought::Answer(_) => continue,
            },
        };
        return Ok(Some(format!("pod {name} {fault}")));
    }
    let Brought::Answer(answer) = case.brought else { return Ok(None) };
    let (wanted, answered) = (answer(rollout), asked(app)?);
    Ok((!answered.contains(&wanted)).then(|| format!("the Service does not answer {wanted} but {answered}")))
}

fn container<'a>(spec: &'a Value, name: &str) -> &'a Value {
    let all = spec["containers"].as_array().into_iter().flatten();
    all.into_iter().find(|one| one["name"] == name).unwrap_or(&Value::Null)
}

/// What an operation adds to a reference (a digest, a tag of its own) names the same image. A container whose image the case names
/// itself is another question.
fn has_images(pod: &Value, template: &Value, case: &Case) -> bool {
    let name = |container: &Value| unpinned(container["image"].as_str().unwrap_or_default());
    let is_told = |wanted: &Value| matches!(case.brought, Brought::Container(name, _) if wanted["name"] == name);
    let mut wanted = template.as_array().into_iter().flatten().filter(|wanted| !is_told(wanted));
    wanted.all(|wanted| {
        let has = container(&pod["spec"], wanted["name"].as_str().unwrap_or_default());
        name(has) == name(wanted)
    })
}

fn is_young(pod: &Value, template: &Value, since: Timestamp) -> bool {
    template.as_array().into_iter().flatten().all(|wanted| {
        let all = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        let status = all.into_iter().find(|status| status["name"] == wanted["name"]);
        let started =
            status.and_then(|status| status["state"]["running"]["startedAt"].as_str()?.parse::<Timestamp>().ok());
        started.is_some_and(|started| started >= since)
    })
}

/// What the Service answers.
fn asked(app: &App) -> anyhow::Result<String> {
    let ask = |address: SocketAddr| -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, ASKED_FOR)?;
        stream.set_read_timeout(Some(ASKED_FOR))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let (address, cluster) = (app.address, app.kubectl.cluster().context("a cluster")?);
    Ok(cluster.in_network(Place::Node(1), move || ask(address))?.unwrap_or_else(|error| error.to_string()))
}

/// What was said on the workload since the change, by reason; and by `wait`.
fn words(app: &App, since: Timestamp, said: String) -> anyhow::Result<String> {
    let mut words = said;
    for event in app.kubectl.list(&["events.events.k8s.io"])? {
        let is_ours = event["reportingController"].as_str().is_some_and(|by| by.contains("hitless"));
        let time = event["eventTime"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
        let is_new = time.is_some_and(|time| time >= since);
        if let (true, true, Some(reason), Some(note)) =
            (is_ours, is_new, event["reason"].as_str(), event["note"].as_str())
        {
            let note: String = note.chars().take(200).collect();
            write!(words, " | {reason}: {note}")?;
        }
    }
    Ok(words)
}

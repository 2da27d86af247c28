//! `cargo xtask demo article`: each failure that the figures of Alibaba Cloud's article "How to avoid downtime during the update of an
//! application" show, with the native rolling update, and the same change with hitless. Requests come from outside of the cluster
//! to a port of every node, as a load balancer sends them.

use std::time::{Duration, Instant};

use anyhow::ensure;
use hitless_e2e::app::{App, PATIENCE, Shape};
use hitless_e2e::measure::finished;
use hitless_e2e::node_ports::{self, Policy};
use hitless_e2e::stack::image;
use hitless_e2e::traffic::Rate;
use hitless_e2e::{NodePorts, Stack};
use serde::Serialize;
use serde_json::{Value, json};

use super::say::Say;

/// What it takes until the version that comes answers, in milliseconds, where that matters.
const START: &str = "2000";

/// What the article says of a Service whose backends are pods (ENI), and why it is not shown here.
const LEFT_OUT: &str = "figures 8 and 9 (ENI: the load balancer sends to pods directly): not shown, hitless does not drive load balancers yet";

/// One failure.
struct Case {
    figures: &'static str,
    what: &'static str,
    name: &'static str,
    policy: Policy,
    /// The pods have a readiness probe.
    probed: bool,
}

const CASES: [Case; 3] = [
    Case {
        figures: "2",
        what: "a pod without a readiness probe gets requests before it has started",
        name: "starts",
        policy: Policy::Cluster,
        probed: false,
    },
    Case {
        figures: "3, 4 and 6",
        what: "a pod gets requests when it has ended already, because nodes learn of that later",
        name: "ends",
        policy: Policy::Cluster,
        probed: true,
    },
    Case {
        figures: "5 and 7",
        what: "a node that sends to its own pods only gets requests while its only pod is replaced",
        name: "local",
        policy: Policy::Local,
        probed: true,
    },
];

/// The last line of `--json`.
#[derive(Serialize)]
pub(super) struct Outcome {
    rows: Vec<Row>,
    left_out: &'static str,
    /// From the start of the command, builds included.
    total_seconds: f64,
}

/// One failure, and its absence.
#[derive(Serialize)]
struct Row {
    figures: &'static str,
    /// `externalTrafficPolicy` of the Service.
    service: String,
    what: &'static str,
    native: Loss,
    hitless: Loss,
}

/// What one rollout of two pods cost.
#[derive(Serialize)]
struct Loss {
    requests: u64,
    /// After the retry that HTTP/1.1 allows on a kept-alive connection.
    failed: u64,
    longest_pause_ms: u64,
    seconds: f64,
}

impl Loss {
    fn text(&self) -> String {
        let Self { requests, failed, longest_pause_ms, seconds } = self;
        format!(
            "{failed} of {requests} requests failed, {seconds:.1} s, longest time without an answer {longest_pause_ms} ms"
        )
    }
}

impl Outcome {
    /// hitless loses nothing in any of them.
    pub(super) fn is_good(&self) -> bool {
        self.rows.iter().all(|row| row.hitless.failed == 0)
    }
}

pub(super) fn play(say: &Say, stack: &Stack) -> anyhow::Result<Outcome> {
    let rows = CASES.iter().map(|case| row(say, stack, case)).collect::<anyhow::Result<_>>()?;
    say.line(LEFT_OUT);
    Ok(Outcome { rows, left_out: LEFT_OUT, total_seconds: say.seconds() })
}

fn row(say: &Say, stack: &Stack, case: &Case) -> anyhow::Result<Row> {
    say.line(&format!("figures {} ({:?} mode): {}", case.figures, case.policy, case.what));
    let repository = format!("article/{}", case.name);
    stack.push_echo(&repository, "v1", &[], None)?;
    let slow = [("START_DELAY", START)];
    stack.push_echo(&repository, "v2", if case.probed { &[] } else { &slow }, None)?;
    let measured = |way: &str, update| -> anyhow::Result<Loss> {
        let loss = measure(stack, &format!("article-{}-{way}", case.name), case, &shape(case, &repository, update))?;
        Say::more(&format!("{way}: {}", loss.text()));
        Ok(loss)
    };
    Ok(Row {
        figures: case.figures,
        service: format!("{:?}", case.policy),
        what: case.what,
        native: measured("native", None)?,
        hitless: measured("hitless", Some("in-place"))?,
    })
}

/// Two pods. Those of the last figure are on nodes of their own, so one goes before its successor comes.
fn shape(case: &Case, repository: &str, update: Option<&'static str>) -> Shape {
    let mut patch = json!({"spec": {}});
    if case.policy == Policy::Local {
        patch["spec"]["strategy"] = json!({"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
        patch["spec"]["template"]["spec"]["affinity"] = node_ports::apart();
    }
    if !case.probed {
        patch["spec"]["template"]["spec"]["containers"] = unprobed(&image(repository, "v1"));
    }
    let repository = repository.to_owned();
    Shape { replicas: 2, repository, mode: None, gate: update.is_some(), update, patch, ..Shape::default() }
}

fn unprobed(image: &str) -> Value {
    json!([{"name": "web", "image": image, "ports": [{"containerPort": 8080, "name": "http"}]}])
}

fn measure(stack: &Stack, namespace: &str, case: &Case, shape: &Shape) -> anyhow::Result<Loss> {
    let app = App::start(&stack.cluster, namespace, shape)?;
    let ports = NodePorts::open(stack, &app, case.policy)?;
    let rate = Rate::default();
    let traffic = ports.start_traffic(stack, rate)?;
    let begin = Instant::now();
    app.set_version("v2")?;
    while !finished(&app, "v2", 2) {
        app.pods.next_change(Duration::from_millis(250));
        ensure!(begin.elapsed() < PATIENCE, "the rollout in {namespace} did not end in {PATIENCE:?}");
    }
    app.rollout_status()?;
    let seconds = begin.elapsed().as_secs_f64();
    let mut loss = Loss { requests: 0, failed: 0, longest_pause_ms: 0, seconds };
    for traffic in traffic {
        // What a pod without a probe loses comes after it is called ready.
        traffic.wait_for_more(3 * rate.per_second(), PATIENCE)?;
        let report = traffic.stop()?;
        loss.requests += report.requests();
        loss.failed += report.failed();
        loss.longest_pause_ms = loss.longest_pause_ms.max(report.longest_pause.length_ms);
    }
    Ok(loss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pods_of_the_first_figure_have_no_probe_and_only_those_of_the_last_are_apart() {
        let patches: Vec<Value> = CASES.iter().map(|case| shape(case, "article/x", None).patch).collect();
        let spec = |index: usize| &patches[index]["spec"]["template"]["spec"];
        assert!(spec(0)["containers"][0]["image"] == image("article/x", "v1") && spec(0)["affinity"].is_null());
        assert!(spec(1).is_null());
        assert!(spec(2)["containers"].is_null() && spec(2)["affinity"]["podAntiAffinity"].is_object());
    }
}

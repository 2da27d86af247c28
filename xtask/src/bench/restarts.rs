//! Restarts of a pod in a row, by annotation, and of another one by OpenKruise's ContainerRecreateRequest, in turn: none may wait for the
//! kubelet's back-off.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use hitless_e2e::app::{PATIENCE, Shape, is_ready};
use hitless_e2e::measure::own_writes;
use hitless_e2e::{App, Stack};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::spread::Spread;

#[derive(Args)]
pub(super) struct Restarts {
    /// How often the pod of each way is restarted.
    #[arg(long, default_value_t = 6)]
    count: u32,
    /// Seconds between the end of one restart and the next.
    #[arg(long, default_value_t = 3)]
    pause: u64,
}

/// Who asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Way {
    /// `kubectl hitless restart`.
    Command,
    /// A ContainerRecreateRequest.
    Request,
}

/// Of one way.
#[derive(Serialize)]
struct Figures {
    way: Way,
    /// From the request to Ready, of each restart.
    seconds: Vec<f64>,
    /// API writes by hitless for each, Events apart.
    own_writes: Vec<f64>,
}

pub(super) fn run(options: &Restarts, stack: &Stack, json: bool) -> anyhow::Result<()> {
    let of = |way| Figures { way, seconds: Vec::new(), own_writes: Vec::new() };
    let mut all = [of(Way::Command), of(Way::Request)];
    let apps = ["bench-restarts", "bench-requests"].map(|namespace| {
        let app = App::start(&stack.cluster, namespace, &Shape { replicas: 1, ..Shape::default() })?;
        let name = app.identities().first().context("no pod")?.name.clone();
        anyhow::Ok((app, name))
    });
    let apps = apps.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    for number in 1..=options.count {
        for (figures, (app, name)) in all.iter_mut().zip(&apps) {
            let since = Timestamp::now();
            let seconds = restart(stack, app, name, figures.way, number)?;
            // Time that passes for the kubelet's back-off, which is what is measured; reports that come late belong to this restart.
            std::thread::sleep(Duration::from_secs(options.pause));
            let writes = u32::try_from(own_writes(stack, app, since)?)?;
            eprintln!("restart {number:2} by {:?}  {seconds:5.2} s, {writes} own writes", figures.way);
            figures.seconds.push(seconds);
            figures.own_writes.push(writes.into());
        }
    }
    let longest = all.iter().flat_map(|figures| &figures.seconds).copied().fold(0.0, f64::max);
    if json {
        println!("{}", json!({"ways": all, "longest": longest}));
    } else {
        let median = |of: &[f64]| of.iter().copied().collect::<Spread>().median();
        for Figures { way, seconds, own_writes } in &all {
            println!("by {way:?}: median {:.2} s, {:.0} own writes", median(seconds), median(own_writes));
        }
        println!("{} restarts of each pod, {} s apart: the longest took {longest:.1} s", options.count, options.pause);
    }
    ensure!(
        longest < 10.0,
        "a restart took {longest:.1} s: it has waited for the kubelet's back-off, which begins at 10 s"
    );
    Ok(())
}

/// How long it takes until the pod is Ready with another container.
fn restart(stack: &Stack, app: &App, name: &str, way: Way, number: u32) -> anyhow::Result<f64> {
    let before = container(&app.pods.objects()[name]);
    let begin = Instant::now();
    match way {
        Way::Command => drop(stack.hitless(app, &["restart", &format!("pod/{name}")])?),
        Way::Request => drop(app.kubectl.feed(&["create"], &request(name, number))?),
    }
    app.pods.wait("the restarted pod", PATIENCE, |pods| {
        let pod = pods.get(name)?;
        (container(pod) != before && is_ready(pod)).then_some(())
    })?;
    Ok(begin.elapsed().as_secs_f64())
}

fn request(pod: &str, number: u32) -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": format!("again-{number}")},
        "spec": {"podName": pod, "containers": [{"name": "web"}], "strategy": {"forceRecreate": true}}})
}

fn container(pod: &Value) -> String {
    pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default().to_owned()
}

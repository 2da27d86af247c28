//! Restarts of one pod in a row: none may wait for the kubelet's back-off.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use hitless_e2e::app::{PATIENCE, Shape, is_ready};
use hitless_e2e::{App, Stack};
use serde::Serialize;
use serde_json::Value;

#[derive(Args)]
pub(super) struct Restarts {
    /// How often the pod is restarted.
    #[arg(long, default_value_t = 12)]
    count: u32,
    /// Seconds between the end of one restart and the next.
    #[arg(long, default_value_t = 3)]
    pause: u64,
}

#[derive(Serialize)]
struct Figures {
    /// Seconds from the request to Ready, of each restart.
    seconds: Vec<f64>,
    longest: f64,
}

pub(super) fn run(options: &Restarts, stack: &Stack, json: bool) -> anyhow::Result<()> {
    let app = App::start(&stack.cluster, "bench-restarts", &Shape { replicas: 1, ..Shape::default() })?;
    let name = app.identities().first().context("no pod")?.name.clone();
    let mut seconds = Vec::new();
    for number in 1..=options.count {
        let before = container(&app.pods.objects()[&name]);
        let begin = Instant::now();
        stack.hitless(&app, &["restart", &format!("pod/{name}")])?;
        app.pods.wait("the restarted pod", PATIENCE, |pods| {
            let pod = pods.get(&name)?;
            (container(pod) != before && is_ready(pod)).then_some(())
        })?;
        seconds.push(begin.elapsed().as_secs_f64());
        eprintln!("restart {number:2}  {:5.2} s", begin.elapsed().as_secs_f64());
        // Time that passes for the kubelet's back-off, which is what is measured.
        std::thread::sleep(Duration::from_secs(options.pause));
    }
    let longest = seconds.iter().copied().fold(0.0, f64::max);
    let figures = Figures { seconds, longest };
    if json {
        println!("{}", serde_json::to_string(&figures)?);
    } else {
        println!("{} restarts of one pod, {} s apart: the longest took {longest:.1} s", options.count, options.pause);
    }
    ensure!(
        longest < 10.0,
        "a restart took {longest:.1} s: it has waited for the kubelet's back-off, which begins at 10 s"
    );
    Ok(())
}

fn container(pod: &Value) -> String {
    pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default().to_owned()
}

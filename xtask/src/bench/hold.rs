//! Single replicas whose container is replaced under load, held by hitless and patched by hand, on a quiet machine and on a
//! busy one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context as _, ensure};
use clap::Args;
use hitless_e2e::app::{PATIENCE, Shape};
use hitless_e2e::operations::{Operations, number};
use hitless_e2e::traffic::Rate;
use hitless_e2e::{App, Stack, Traffic, measure};
use hitless_load::{ClassReport, Report};
use serde::Serialize;

use super::spread::Spread;

#[derive(Args)]
pub(super) struct Hold {
    /// Single-replica pods that are changed under new connections, on a quiet machine and again on a busy one.
    #[arg(long, default_value_t = 40)]
    pods: u32,
    /// New connections a second, half of them from each of the two nodes.
    #[arg(long, default_value_t = 500)]
    fresh: u32,
    /// Pods that are changed under kept-alive connections, for each think time.
    #[arg(long, default_value_t = 6)]
    keepalive_pods: u32,
    /// Pods that are patched by hand under the same new connections: the baseline.
    #[arg(long, default_value_t = 3)]
    raw_pods: u32,
    /// Busy loops on each processor of the busy machine.
    #[arg(long, default_value_t = 2)]
    busy: usize,
    /// Only in these surroundings.
    #[arg(long, value_enum)]
    only: Option<Surroundings>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Surroundings {
    /// Nothing else runs.
    Quiet,
    /// Every processor is busy.
    Busy,
}

/// Time between two requests of a kept-alive connection, in milliseconds.
const THINK_MS: [u32; 3] = [5, 20, 100];
/// Kept-alive connections from each node.
const CONNECTIONS: u32 = 2;
/// Pods of one batch: each App has two watches.
const BATCH: u32 = 10;
/// What a client may wait longer than its server was away, in milliseconds.
const GOAL_OVER_GAP_MS: f64 = 50.0;

#[derive(Serialize)]
struct Figures {
    pods: u32,
    fresh_per_second: u32,
    weathers: Vec<Weather>,
}

/// What was measured in one kind of surroundings.
#[derive(Serialize)]
struct Weather {
    name: &'static str,
    /// Nothing is changed: what clients wait for in these surroundings anyway.
    untouched: Untouched,
    /// Patched by hand: what the same change costs without hitless.
    raw: Raw,
    fresh: Held,
    /// By think time in milliseconds.
    keepalive: Vec<(u32, Held)>,
}

#[derive(Default, Serialize)]
struct Untouched {
    pods: u32,
    requests: u64,
    failed: u64,
    /// Slowest answer of each pod.
    slowest_ms: Spread,
}

#[derive(Default, Serialize)]
struct Raw {
    pods: u32,
    requests: u64,
    failed: u64,
    /// From the first failed request to the last, of each pod.
    outage_ms: Spread,
}

/// Pods that were held while they were changed.
#[derive(Default, Serialize)]
struct Held {
    pods: u32,
    /// Those of which the agent told no numbers: it was done before it had learned what its thread had seen.
    untold: u32,
    requests: u64,
    failed: u64,
    /// Requests on kept-alive connections that failed for a client that never repeats one.
    failed_unretried: u64,
    /// Clients that were kept waiting.
    parked: i64,
    /// Holds that ended before the new process listened.
    expired: i64,
    /// Image patch until the new process listened.
    gap_ms: Spread,
    /// Old process gone until the new one listened.
    kill_to_listen_ms: Spread,
    /// Longest time that the agent held a client.
    longest_hold_ms: Spread,
    /// Slowest answer that a client saw.
    longest_pause_ms: Spread,
    /// The same less the gap: what hitless adds.
    pause_over_gap_ms: Spread,
    /// 99.9th percentile of the answers less the gap.
    p999_over_gap_ms: Spread,
}

pub(super) fn run(options: &Hold, stack: &Stack, json: bool) -> anyhow::Result<()> {
    let mut weathers = Vec::new();
    if options.only != Some(Surroundings::Busy) {
        weathers.push(weather(options, stack, "quiet")?);
    }
    if options.only != Some(Surroundings::Quiet) {
        let busy = Busy::start(options.busy);
        weathers.push(weather(options, stack, "busy")?);
        drop(busy);
    }
    let figures = Figures { pods: options.pods, fresh_per_second: options.fresh, weathers };
    if json {
        println!("{}", serde_json::to_string(&figures)?);
    } else {
        print(&figures);
    }
    figures.weathers.iter().try_for_each(assert_held)
}

/// What a Hold promises.
fn assert_held(weather: &Weather) -> anyhow::Result<()> {
    for held in std::iter::once(&weather.fresh).chain(weather.keepalive.iter().map(|(_, held)| held)) {
        ensure!(held.failed == 0, "{}: {} requests failed", weather.name, held.failed);
        ensure!(held.expired == 0, "{}: {} Holds ended before the new process listened", weather.name, held.expired);
        let (longest, cap) =
            (held.longest_hold_ms.most, f64::from(hitless_api::DrainSpec::default().hold_cap_milliseconds));
        ensure!(longest <= cap, "{}: a client was held for {longest} ms, and the cap is {cap} ms", weather.name);
    }
    Ok(())
}

fn weather(options: &Hold, stack: &Stack, name: &'static str) -> anyhow::Result<Weather> {
    let fresh = Rate { fresh: options.fresh / 2, keepalive: 0, connections: 0, delay_ms: 0 };
    let (mut untouched, mut raw) = (Untouched::default(), Raw::default());
    let by_hand = Shape { update: None, gate: false, mode: None, replicas: 1, ..Shape::default() };
    each_pod(stack, &format!("bench-raw-{name}"), &by_hand, options.raw_pods, |app| {
        untouched.measure(stack, app, fresh)?;
        raw.measure(stack, app, fresh)
    })?;
    let fresh = holds(stack, &format!("bench-{name}"), options.pods, fresh)?;
    eprintln!("{name}, new connections: {}", fresh.summary());
    let mut keepalive = Vec::new();
    for think in THINK_MS {
        let rate = Rate { fresh: 0, keepalive: CONNECTIONS * 1000 / think, connections: CONNECTIONS, delay_ms: 0 };
        let held = holds(stack, &format!("bench-{name}-{think}"), options.keepalive_pods, rate)?;
        eprintln!("{name}, kept alive, {think} ms between requests: {}", held.summary());
        keepalive.push((think, held));
    }
    Ok(Weather { name, untouched, raw, fresh, keepalive })
}

fn holds(stack: &Stack, namespace: &str, pods: u32, rate: Rate) -> anyhow::Result<Held> {
    let operations = Operations::start(stack)?;
    let mut held = Held::default();
    let shape = Shape { replicas: 1, ..Shape::default() }.holding();
    each_pod(stack, namespace, &shape, pods, |app| held.measure(stack, app, &operations, rate))?;
    Ok(held)
}

/// Single-replica Deployments, each in a namespace of its own, so that no pod inherits the kubelet's back-off of another and no
/// client the kernel's connection tracking.
fn each_pod(
    stack: &Stack,
    namespace: &str,
    shape: &Shape,
    pods: u32,
    mut measure: impl FnMut(&App) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for first in (1..=pods).step_by(BATCH as usize) {
        let batch = first..=pods.min(first + BATCH - 1);
        let create = |number| App::create(&stack.cluster, &format!("{namespace}-{number}"), shape);
        let apps = batch.map(create).collect::<anyhow::Result<Vec<_>>>()?;
        apps.iter().try_for_each(|app| app.wait_serving(1))?;
        apps.iter().try_for_each(&mut measure)?;
    }
    Ok(())
}

fn start(stack: &Stack, app: &App, rate: Rate) -> anyhow::Result<Vec<Traffic>> {
    let traffic = Traffic::start_from_each_node(stack, app, rate)?;
    wait_a_second(&traffic, rate)?;
    Ok(traffic)
}

/// Load for one second more.
fn wait_a_second(traffic: &[Traffic], rate: Rate) -> anyhow::Result<()> {
    let more = u64::from(rate.fresh + rate.keepalive);
    traffic.iter().try_for_each(|traffic| traffic.wait_for_more(more, PATIENCE))
}

fn end(traffic: Vec<Traffic>, rate: Rate) -> anyhow::Result<Vec<Report>> {
    wait_a_second(&traffic, rate)?;
    traffic.into_iter().map(Traffic::stop).collect()
}

fn classes(reports: &[Report]) -> impl Iterator<Item = &ClassReport> {
    reports.iter().flat_map(|report| [&report.fresh, &report.keepalive]).filter(|class| class.requests > 0)
}

fn sum(reports: &[Report], of: fn(&ClassReport) -> u64) -> u64 {
    classes(reports).map(of).sum()
}

fn slowest(reports: &[Report], of: fn(&ClassReport) -> f64) -> f64 {
    classes(reports).map(of).fold(0.0, f64::max)
}

impl Untouched {
    /// For about as long as a Hold is measured.
    fn measure(&mut self, stack: &Stack, app: &App, rate: Rate) -> anyhow::Result<()> {
        let traffic = start(stack, app, rate)?;
        wait_a_second(&traffic, rate)?;
        let reports = end(traffic, rate)?;
        self.pods += 1;
        self.requests += sum(&reports, |class| class.requests);
        self.failed += sum(&reports, |class| class.failed);
        self.slowest_ms.add(slowest(&reports, |class| class.latency.max_ms));
        Ok(())
    }
}

impl Raw {
    fn measure(&mut self, stack: &Stack, app: &App, rate: Rate) -> anyhow::Result<()> {
        let traffic = start(stack, app, rate)?;
        measure::raw_patches(app, "v2", 1)?;
        let reports = end(traffic, rate)?;
        self.pods += 1;
        self.requests += sum(&reports, |class| class.requests);
        self.failed += sum(&reports, |class| class.failed);
        let outages = classes(&reports).filter_map(|class| class.failed_due);
        let longest = outages.map(|window| window.last_ms.saturating_sub(window.first_ms)).max().unwrap_or(0);
        self.outage_ms.add(milliseconds(longest));
        Ok(())
    }
}

impl Held {
    fn measure(&mut self, stack: &Stack, app: &App, operations: &Operations, rate: Rate) -> anyhow::Result<()> {
        let before = app.identities();
        let pod = before.first().context("no pod")?;
        let traffic = start(stack, app, rate)?;
        app.set_version("v2")?;
        let ended = operations.wait_end(&pod.uid, PATIENCE)?;
        app.rollout_status()?;
        let reports = end(traffic, rate)?;
        ensure!(app.identities() == before, "the pod was replaced: {before:?} became {:?}", app.identities());
        let longest = slowest(&reports, |class| class.latency.max_ms);
        self.pods += 1;
        self.longest_pause_ms.add(longest);
        if let Ok(gap) = number(&ended, "gapMilliseconds").map(milliseconds) {
            self.parked += number(&ended, "parked")?;
            self.expired += number(&ended, "holdExpired")?;
            self.gap_ms.add(gap);
            self.kill_to_listen_ms.add(milliseconds(number(&ended, "killToListenMilliseconds")?));
            self.longest_hold_ms.add(milliseconds(number(&ended, "longestPauseMilliseconds")?));
            self.pause_over_gap_ms.add(longest - gap);
            self.p999_over_gap_ms.add(slowest(&reports, |class| class.latency.p999_ms) - gap);
        } else {
            self.untold += 1;
        }
        self.requests += sum(&reports, |class| class.requests);
        self.failed += sum(&reports, |class| class.failed);
        self.failed_unretried += sum(&reports, |class| class.failed_unretried);
        for failure in reports.iter().flat_map(|report| &report.failures).filter(|failure| !failure.recovered) {
            eprintln!("{}: failed: {failure:?}", app.kubectl.namespace());
        }
        Ok(())
    }

    fn summary(&self) -> String {
        format!(
            "{} pods, {} requests, {} failed ({} without a retry), {} clients waited; gap {}; pause less gap {}; untold {}",
            self.pods,
            self.requests,
            self.failed,
            self.failed_unretried,
            self.parked,
            self.gap_ms,
            self.pause_over_gap_ms,
            self.untold
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds are far below 2^52")]
fn milliseconds(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or_default() as f64
}

fn print(figures: &Figures) {
    println!(
        "single replicas behind a ClusterIP, {} new connections/s from two nodes; times in ms: median, 95 %, most",
        figures.fresh_per_second
    );
    for weather in &figures.weathers {
        let Weather { name, untouched, raw, .. } = weather;
        println!(
            "{name}, nothing changed: {} pods, {} of {} requests failed; slowest answer {}",
            untouched.pods, untouched.failed, untouched.requests, untouched.slowest_ms
        );
        println!(
            "{name}, patched by hand: {} pods, {} of {} requests failed; outage {}",
            raw.pods, raw.failed, raw.requests, raw.outage_ms
        );
        let keepalive =
            weather.keepalive.iter().map(|(think, held)| (format!("kept alive, {think} ms between requests"), held));
        let all = std::iter::once(("new connections".to_owned(), &weather.fresh)).chain(keepalive);
        for (what, held) in all.filter(|(_, held)| held.pods > 0) {
            println!(
                "{name}, {what}: {} pods, {} of {} requests failed ({} without a retry)",
                held.pods, held.failed, held.requests, held.failed_unretried
            );
            println!("  clients that waited {}, Holds that expired {}", held.parked, held.expired);
            println!("  image patch to LISTEN         {}", held.gap_ms);
            println!("  old process gone to LISTEN    {}", held.kill_to_listen_ms);
            println!("  longest Hold of a client      {}", held.longest_hold_ms);
            println!("  longest pause of a client     {}", held.longest_pause_ms);
            println!("  the same less the gap         {} (goal {GOAL_OVER_GAP_MS})", held.pause_over_gap_ms);
            println!("  p99.9 of answers less the gap {} (goal {GOAL_OVER_GAP_MS})", held.p999_over_gap_ms);
        }
    }
}

/// Threads that keep every processor busy until it is dropped.
struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    fn start(per_processor: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || while !stop.load(Ordering::Relaxed) {})
        };
        Self { threads: (0..processors * per_processor).map(spin).collect(), stop }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that only spins can't have panicked.
            let _ = thread.join();
        }
    }
}

//! What a hold costs: clients' pauses against the gap in which the server was really gone, and the time of each step.
//!
//! `cargo run --example hold_bench -p hitless-kernel -- --json [--runs N]`, as root. Clients come through a router with
//! address translation at 500 a second, each with a connection of its own.

#![allow(clippy::unwrap_used, clippy::panic, dead_code, reason = "shares its lab with the tests")]

#[path = "../tests/pods/lab.rs"]
mod lab;
#[path = "../tests/pods/load.rs"]
mod load;
#[path = "../tests/pod-server/main.rs"]
mod server;

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hitless_kernel::{HoldSpec, ListenWatch, PodNetns, SynHold};

use lab::{Lab, SERVICE_V4, eventually};
use load::{Load, failures};

const PORT: u16 = 8080;
const RATE: u32 = 500;
const CLIENTS: u32 = 3150;
const PATIENCE: Duration = Duration::from_secs(20);

/// One restart. Times in milliseconds.
struct Run {
    asked_gap: f64,
    /// From the end of the old server to the listener of the new one.
    gap: f64,
    clients: usize,
    failed: usize,
    p50: f64,
    p999: f64,
    max: f64,
    open: f64,
    begin: f64,
    accept_queue: f64,
    release: f64,
    replayed: usize,
    close: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|argument| argument == "serve") {
        return server::main();
    }
    let is_json = arguments.iter().any(|argument| argument == "--json");
    let runs = arguments.iter().skip_while(|argument| *argument != "--runs").nth(1);
    let runs = runs.map_or(1, |runs| runs.parse().unwrap());
    for gap in [Duration::from_millis(300), Duration::from_secs(1)] {
        for _ in 0..runs {
            let Some(run) = restart(gap) else { return };
            if is_json { run.print_json() } else { run.print() }
        }
    }
}

fn restart(gap: Duration) -> Option<Run> {
    let lab = Lab::routed()?;
    let server = lab.start_server();
    let netns = PodNetns::open(Path::new("/proc"), &lab.pod_uid).unwrap();
    let watch = ListenWatch::note(&netns, &[PORT]).unwrap();
    let load = lab.in_client(|| Load::start(SocketAddr::from((SERVICE_V4, PORT)), RATE, PATIENCE));
    eventually("a third of the clients have come", || (load.begun() > CLIENTS / 3).then_some(()));

    let (mut hold, open) = timed(|| SynHold::open(&netns).unwrap());
    let spec = HoldSpec {
        ports: vec![PORT],
        cap: PATIENCE,
        expires_after: PATIENCE,
        lease: PATIENCE,
        is_settled: true,
        exempt: Vec::new(),
    };
    let ((), begin) = timed(|| hold.begin(spec).unwrap());
    let ((), accept_queue) = timed(|| {
        assert!(netns.empty_accept_queue(&[PORT], PATIENCE).unwrap().is_none());
        eventually("requests in flight are answered", || netns.connections().unwrap().inbound.is_empty().then_some(()));
    });
    let ((missing, _server), raw_gap) = timed(|| {
        server.kill();
        thread::sleep(gap);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| watch.wait(&netns, PATIENCE).unwrap());
            let server = lab.start_server();
            (waiting.join().unwrap(), server)
        })
    });
    assert!(missing.is_empty());
    let (released, release) = timed(|| hold.release().unwrap());
    let ((), close) = timed(|| drop(hold));

    eventually("all clients have come", || (load.begun() >= CLIENTS).then_some(()));
    let visits = load.finish();
    let mut took: Vec<_> = visits.iter().map(|visit| visit.took).collect();
    took.sort();
    let quantile = |thousandths: usize| milliseconds(took[(took.len() - 1) * thousandths / 1000]);
    Some(Run {
        asked_gap: milliseconds(gap),
        gap: raw_gap,
        clients: visits.len(),
        failed: failures(&visits).len(),
        p50: quantile(500),
        p999: quantile(999),
        max: quantile(1000),
        open,
        begin,
        accept_queue,
        release,
        replayed: released.replayed,
        close,
    })
}

/// The result and how long it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    (result, milliseconds(start.elapsed()))
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

impl Run {
    fn figures(&self) -> [(&'static str, f64); 13] {
        let Self { asked_gap, gap, p50, p999, max, open, begin, accept_queue, release, close, .. } = *self;
        [
            ("askedGapMilliseconds", asked_gap),
            ("gapMilliseconds", gap),
            ("p50Milliseconds", p50),
            ("p999Milliseconds", p999),
            ("maxMilliseconds", max),
            ("p999BeyondGapMilliseconds", p999 - gap),
            ("maxBeyondGapMilliseconds", max - gap),
            ("openMilliseconds", open),
            ("parkMilliseconds", begin),
            ("acceptQueueMilliseconds", accept_queue),
            ("releaseMilliseconds", release),
            ("closeMilliseconds", close),
            (
                "releaseMicrosecondsPerClient",
                release * 1000.0 / f64::from(u32::try_from(self.replayed).unwrap().max(1)),
            ),
        ]
    }

    fn print_json(&self) {
        let Self { clients, failed, replayed, .. } = self;
        let figures = self.figures().map(|(name, value)| format!(",\"{name}\":{value:.3}")).concat();
        println!("{{\"clients\":{clients},\"failed\":{failed},\"replayed\":{replayed}{figures}}}");
    }

    fn print(&self) {
        println!("{} clients, {} failed, {} replayed", self.clients, self.failed, self.replayed);
        for (name, value) in self.figures() {
            println!("  {name:30} {value:10.3}");
        }
    }
}

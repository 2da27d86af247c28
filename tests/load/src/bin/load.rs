//! The load client as a process: JSON lines of `hitless_load::Report` on standard output, the last with `"final":true`.
//!
//! Made to be started inside another network namespace (`nsenter --net=… load …`) by a parent that reads the lines
//! and closes standard input, or sends SIGTERM, when it has seen enough.

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use hitless_load::{Load, LoadConfig, MAX_DURATION, Report};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Sends requests at a fixed rate and counts what a client sees.
///
/// Exit code 0 whenever the run was made, with or without failed requests; 2 when it was refused.
#[derive(Debug, Parser)]
#[command(name = "load", version)]
struct Arguments {
    /// Address and port to send to, loopback or private; may be given several times.
    #[arg(long, required = true, value_name = "IP:PORT")]
    target: Vec<SocketAddr>,
    /// Requests per second on connections of their own.
    #[arg(long, default_value_t = 100)]
    fresh: u32,
    /// Requests per second on kept-alive connections, all together.
    #[arg(long, default_value_t = 100)]
    keepalive: u32,
    /// Number of kept-alive connections; without --keepalive requests none are opened.
    #[arg(long, default_value_t = 10)]
    connections: u32,
    /// How long to run; the default is 30, or 3600 with --until-stdin-closes.
    #[arg(long)]
    seconds: Option<u64>,
    /// End when standard input is closed (or at --seconds, whichever comes first).
    #[arg(long)]
    until_stdin_closes: bool,
    /// Print the counts so far this often; 0 for never.
    #[arg(long, default_value_t = 500)]
    progress_every_ms: u64,
    /// Ask the server to take this long for each answer (?d=).
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// Give a request up this long after it was due.
    #[arg(long, default_value_t = 5_000)]
    timeout_ms: u64,
    /// Before anything is sent and counted, wait until all targets accept a connection, for at most so many seconds. A new
    /// Service is known to the node of a client a little later than to the API server.
    #[arg(long, default_value_t = 0)]
    await_targets_seconds: u64,
    /// Path to ask for.
    #[arg(long, default_value = "/")]
    path: String,
}

impl Arguments {
    fn into_config(self) -> LoadConfig {
        let unbidden = if self.until_stdin_closes { MAX_DURATION } else { Duration::from_secs(30) };
        LoadConfig {
            targets: self.target,
            fresh_per_second: self.fresh,
            keepalive_connections: if self.keepalive == 0 { 0 } else { self.connections },
            keepalive_per_second: self.keepalive,
            server_delay: Duration::from_millis(self.delay_ms),
            timeout: Duration::from_millis(self.timeout_ms),
            path: self.path,
            duration: self.seconds.map_or(unbidden, Duration::from_secs),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let stdin = arguments.until_stdin_closes;
    let progress = (arguments.progress_every_ms > 0).then(|| Duration::from_millis(arguments.progress_every_ms));
    let patience = Duration::from_secs(arguments.await_targets_seconds);
    raise_descriptor_limit();
    let config = arguments.into_config();
    if !patience.is_zero()
        && let Err(error) = await_targets(&config, patience).await
    {
        eprintln!("load: {error:#}");
        return ExitCode::from(2);
    }
    let load = match Load::start(config) {
        Ok(load) => load,
        Err(error) => {
            eprintln!("load: {error}");
            return ExitCode::from(2);
        }
    };
    match report(load, stdin, progress).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Connects to each target until it accepts; nothing but trying tells when.
async fn await_targets(config: &LoadConfig, patience: Duration) -> anyhow::Result<()> {
    config.validate()?;
    let begin = Instant::now();
    for target in &config.targets {
        loop {
            match timeout(Duration::from_secs(1), TcpStream::connect(target)).await {
                Ok(Ok(_connection)) => break,
                last => anyhow::ensure!(
                    begin.elapsed() < patience,
                    "{target} accepted no connection in {} s: {last:?}",
                    patience.as_secs()
                ),
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// Prints progress until the load has ended; a signal or the end of standard input makes it end. An error (nobody
/// reads any more) cuts the load off.
async fn report(load: Load, stdin: bool, progress: Option<Duration>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let closed = CancellationToken::new();
    if stdin {
        watch_stdin(closed.clone())?;
    }
    let mut ticks = interval(progress.unwrap_or(MAX_DURATION));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks.tick().await;
    let mut stopping = false;
    loop {
        tokio::select! {
            () = load.ended() => break,
            _ = terminate.recv() => load.stop(),
            _ = interrupt.recv() => load.stop(),
            () = closed.cancelled(), if !stopping => { load.stop(); stopping = true; }
            _ = ticks.tick(), if progress.is_some() => print(&load.snapshot())?,
        }
    }
    print(&load.finish().await)
}

/// A thread of its own, because reading standard input cannot be interrupted; the process does not wait for it.
fn watch_stdin(closed: CancellationToken) -> anyhow::Result<()> {
    let read_all = move || {
        let _bytes_or_error = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        closed.cancel();
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(read_all).context("watching standard input")?;
    Ok(())
}

fn print(report: &Report) -> anyhow::Result<()> {
    let line = serde_json::to_string(report)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("writing a report to standard output")
}

/// When nothing answers, rate × timeout connections wait at once, which is soon above the usual soft limit of 1024.
/// Where the limit stays low, failures of kind `local` say so.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _raised = setrlimit(Resource::Nofile, limit);
}

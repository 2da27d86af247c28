//! The clients as a process: JSON lines of `hitless_streams::Report` on standard output, the last with `"final":true`.
//!
//! Ends when standard input is closed and the last stream has run its time.

use std::io::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use clap::Parser;
use hitless_streams::{Plan, Report, Streams};

/// Keeps downloads, websockets and gRPC streams open and tells which were cut.
#[derive(Debug, Parser)]
#[command(name = "streams", version)]
struct Arguments {
    /// Address of the Service.
    #[arg(long)]
    server: IpAddr,
    /// Streams of each kind at the same time.
    #[arg(long, default_value_t = 6)]
    each: u32,
    /// How long each lasts.
    #[arg(long, default_value_t = 30_000)]
    lasts_ms: u64,
    /// Print the counts so far this often.
    #[arg(long, default_value_t = 200)]
    progress_every_ms: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Arguments { server, each, lasts_ms, progress_every_ms } = Arguments::parse();
    let streams = Streams::default();
    let closed = streams.clone();
    // A thread of its own, because reading standard input cannot be interrupted; the process does not wait for it.
    std::thread::spawn(move || {
        let _bytes_or_error = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        closed.stop();
    });
    let run = streams.run(Plan { servers: Plan::servers(server), each, lasts: Duration::from_millis(lasts_ms) });
    tokio::pin!(run);
    let mut ticks = tokio::time::interval(Duration::from_millis(progress_every_ms.max(1)));
    loop {
        tokio::select! {
            () = &mut run => return print(&streams.report()),
            _ = ticks.tick() => print(&streams.report())?,
        }
    }
}

fn print(report: &Report) -> anyhow::Result<()> {
    let line = serde_json::to_string(report)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}

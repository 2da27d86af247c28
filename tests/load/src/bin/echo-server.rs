//! The reference server as a process; settings are described at `hitless_load::server::ServerConfig`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::ExitCode;

use hitless_load::server::{Fail, ServerConfig, serve};
use tokio::io;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Exit code for settings that cannot be used, as all daemons of this project have it.
const BAD_CONFIGURATION: u8 = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("whoami") {
        return whoami();
    }
    let config = match ServerConfig::read(setting) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("echo-server: {error}");
            return ExitCode::from(BAD_CONFIGURATION);
        }
    };
    if config.fail == Some(Fail::Exit) {
        eprintln!("echo-server: failing at start, as FAIL asks");
        return ExitCode::FAILURE;
    }
    match run(config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo-server: {error}");
            ExitCode::FAILURE
        }
    }
}

/// For exec hooks: says as whom it runs, with which rights, for whom, what process 1 is, and whether
/// it is in the same control groups.
fn whoami() -> ExitCode {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_told =
        |line: &&str| ["Uid:", "Gid:", "NoNewPrivs:", "CapEff:", "CapBnd:"].iter().any(|name| line.starts_with(name));
    let words: Vec<&str> = status.lines().filter(is_told).flat_map(str::split_whitespace).collect();
    let first = std::fs::read_to_string("/proc/1/comm").unwrap_or_default();
    let groups = |who: &str| std::fs::read_to_string(format!("/proc/{who}/cgroup")).ok();
    let group = if groups("self").is_some() && groups("self") == groups("1") { "same" } else { "other" };
    let operation = std::env::var("HITLESS_OPERATION").unwrap_or_default();
    println!("{} first={} group={group} for={operation}", words.join(" "), first.trim());
    ExitCode::SUCCESS
}

/// A container without `HOSTNAME` in its environment still has a host name.
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().or_else(|| {
        let of_kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        (name == "HOSTNAME").then(of_kernel).flatten().map(|host| host.trim().to_owned())
    })
}

async fn run(config: ServerConfig) -> io::Result<()> {
    // Process 1 of a container ignores SIGTERM until somebody handles it, so that comes first.
    let mut ending = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        () = asked_to_end(&mut ending) => return Ok(()),
        () = sleep(config.start_delay) => {}
    }
    let listener = bind(config.port).await?;
    println!("echo-server {} listening on {}", config.version, listener.local_addr()?);
    let shutdown = CancellationToken::new();
    let serving = serve(listener, config, shutdown.clone());
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => return Ok(()),
        () = asked_to_end(&mut ending) => shutdown.cancel(),
    }
    serving.await;
    Ok(())
}

/// Both families on one socket where there is IPv6, as most servers listen.
async fn bind(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
        }
        other => other,
    }
}

async fn asked_to_end((terminate, interrupt): &mut (Signal, Signal)) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

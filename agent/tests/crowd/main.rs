//! Pods with very many connections: what the observer's memory comes to, and that nothing is taken for drained. Two network namespaces
//! in the laboratory of the kernel crate. Needs root; without it the test is left out with a note, or fails if `CI` is set.
//!
//! Not under the usual test harness, because this program is its own server, its clients and the observer whose memory is measured:
//! each is a process of its own. `crowd measure NUMBER` prints one line of JSON for `cargo xtask bench footprint`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "a test that shares its laboratory with the kernel crate"
)]

#[path = "../../../crates/kernel/tests/pods/lab.rs"]
mod lab;
mod members;
mod observe;

use std::time::{Duration, Instant};

use lab::{Lab, POD_V4};
use members::{Clients, Servers};
use observe::{ObserverProcess, Seen};

/// More of them than an agent may keep anything of, and few enough for a test.
const MANY: u32 = 20_000;
/// Bytes that the observer may need for each of very many connections, whatever it is looking for: 8.4 MiB in all, so that an agent
/// stays below 16 MiB. The addresses alone would be more.
const BYTES_EACH: u32 = 44;
/// As many as a node can have for one busy pod.
const VERY_MANY: u32 = 200_000;
const PATIENCE: Duration = Duration::from_mins(10);

type Test = fn(&Lab);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve", port, number] => return members::serve(port.parse().unwrap(), number.parse().unwrap()),
        ["connect", port, number] => return members::connect(port.parse().unwrap(), number.parse().unwrap()),
        ["observe", uid, container] => return observe::main(uid, container),
        ["measure", number] => {
            let Some(lab) = Lab::new() else { return };
            let memory = measure(&lab, number.parse().unwrap());
            println!("{}", serde_json::json!(memory));
            return;
        }
        _ => {}
    }
    let tests: [(&str, Test); 4] = [
        ("a crowd is counted, and who is left of it is known one by one", counted),
        ("idle connections of a crowd are closed, and one with a request in flight is not", closed),
        ("a crowd is reset to the last one", reset),
        ("very many connections cost next to no memory", little_memory),
    ];
    for (name, test) in tests {
        let Some(lab) = Lab::new() else { return };
        let start = Instant::now();
        test(&lab);
        println!("{name}: ok ({} ms)", start.elapsed().as_millis());
    }
}

fn counted(lab: &Lab) {
    let servers = Servers::start(lab, MANY);
    let mut clients = Clients::connect(lab, &servers);
    let mut observer = ObserverProcess::start(lab);
    observer.order("leaving", "tcp", &servers);
    observer.until("they are counted", |seen| seen.inbound == MANY);
    observer.order("draining", "tcp", &servers);
    let seen = observer.until("nobody comes any more", |seen| seen.quiet);
    assert!(!seen.drained && seen.inbound >= MANY, "{seen:?}");
    clients.leave(3);
    let is_never_drained = |seen: &Seen| {
        assert!(!seen.drained, "{seen:?}");
        seen.inbound == 3 && !seen.unlisted
    };
    observer.until("three are left", is_never_drained);
    clients.leave(0);
    observer.until("nobody is left", |seen| seen.drained);
}

fn closed(lab: &Lab) {
    let servers = Servers::start(lab, MANY);
    let mut clients = Clients::connect(lab, &servers);
    clients.ask_without_answer();
    let mut observer = ObserverProcess::start(lab);
    observer.order("draining", "http1", &servers);
    let seen = observer.until("the idle ones are closed", |seen| {
        assert!(!seen.drained, "{seen:?}");
        seen.inbound == 1 && !seen.unlisted
    });
    assert!(seen.closed >= MANY - 1, "{seen:?}");
    assert_eq!(clients.still_open(), 1, "its request is in flight");
    clients.leave(0);
    observer.until("nobody is left", |seen| seen.drained);
}

fn reset(lab: &Lab) {
    let servers = Servers::start(lab, MANY);
    let _clients = Clients::connect(lab, &servers);
    let mut observer = ObserverProcess::start(lab);
    observer.order("draining", "tcp", &servers);
    observer.until("nobody comes any more", |seen| seen.quiet);
    observer.order("destroying", "tcp", &servers);
    let seen = observer.until("all are reset", |seen| seen.drained);
    assert_eq!(seen.destroyed, MANY, "{seen:?}");
}

fn little_memory(lab: &Lab) {
    let memory = measure(lab, VERY_MANY);
    println!("{}", serde_json::json!(memory));
    let each = memory.grown_kib * 1024 / u64::from(memory.connections);
    assert!(each <= u64::from(BYTES_EACH), "{each} bytes for each of {} connections", memory.connections);
}

/// What looking at very many connections costs.
#[derive(serde::Serialize)]
struct Memory {
    connections: u32,
    /// The observer's process before it looked at anything, and the most that it needed beyond that.
    before_kib: u64,
    grown_kib: u64,
    /// From the order to close all idle ones until nobody was left.
    closing_seconds: f64,
}

fn measure(lab: &Lab, number: u32) -> Memory {
    let servers = Servers::start(lab, number);
    let clients = Clients::connect(lab, &servers);
    let mut observer = ObserverProcess::start(lab);
    let before = observer.ask().most_kib;
    observer.order("leaving", "http1", &servers);
    observer.until("they are counted", |seen| seen.inbound >= servers.number());
    let start = Instant::now();
    observer.order("draining", "http1", &servers);
    let seen = observer.until("all are closed", |seen| seen.drained);
    drop(clients);
    Memory {
        connections: servers.number(),
        before_kib: before,
        grown_kib: seen.most_kib.saturating_sub(before),
        closing_seconds: start.elapsed().as_secs_f64(),
    }
}

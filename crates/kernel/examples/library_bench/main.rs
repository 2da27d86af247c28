//! What libraries would cost in place of our own reading of `/proc` and of netlink messages (docs/decisions/README.md#kernel-messages-which-libraries).
//!
//! `cargo run --release --example library_bench -p hitless-kernel`, as root. Both do the same work in turn, so that the
//! machine's speed is the same for both. It prints the medians of the processor time and the median of the ratios. The
//! memory is the peak of a process of its own that does the work once.

#![allow(clippy::unwrap_used, clippy::panic, dead_code, reason = "shares its lab with the tests")]

#[path = "../../tests/crowd/main.rs"]
mod crowd;
#[path = "../../tests/pods/lab.rs"]
mod lab;
mod libraries;
#[path = "../../tests/pod-server/main.rs"]
mod server;

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hitless_kernel::{PodNetns, find_pod_pids};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};

use lab::{Lab, POD_V4, eventually};

/// Sockets in the pod's namespace. Half of them are a server's side.
const SOCKETS: usize = 100_000;
/// Files that the pod's process has open.
const FILES: usize = 1000;
const PORT: u16 = 8080;
const PROC: &str = "/proc";

const SERVE: &str = "serve";
/// Reads the sockets once and prints the peak of memory: `memory POD-UID own|library`.
const MEMORY: &str = "memory";
const OWN: &str = "own";
const LIBRARY: &str = "library";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => measure(),
        [SERVE] => server::main(),
        [MEMORY, pod_uid, reader] => read_once(pod_uid, reader),
        _ => crowd::main(),
    }
}

fn measure() {
    let Some(lab) = Lab::new() else { return };
    let server = lab.start_server();
    let uid = lab.pod_uid.as_str();
    let netns = open(uid);
    let process = Path::new(PROC).join(server.pid().as_raw_pid().to_string());

    let snmp = File::open(process.join("net/snmp")).unwrap();
    let (own, library) = (|| netns.counters().unwrap().passive_opens, || libraries::passive_opens(&snmp));
    compare("counters of a namespace (net/snmp)", 1000, own, library);

    let clients: Vec<_> = lab.in_client(|| (0..FILES).map(|_| TcpStream::connect((POD_V4, PORT)).unwrap()).collect());
    let inbound = || netns.connections().unwrap().inbound;
    eventually("all are accepted", || inbound().iter().all(|connection| connection.inode != 0).then_some(()));
    let own = || netns.listeners_of(&lab.container_id).unwrap().len();
    let library = || libraries::listeners_of(&netns, uid);
    compare(&format!("listeners of a process with {FILES} connections (fd)"), 50, own, library);
    drop(clients);

    let crowd = Crowd::gather(&process);
    let mut sockets = netns.sockets().unwrap();
    let mut with_library = lab.in_pod(libraries::Sockets::open);
    let own = || sockets.connections().unwrap().listening.len();
    let library = || with_library.connections().0.len();
    compare(&format!("{SOCKETS} sockets of a namespace (sock_diag)"), 15, own, library);
    for reader in [OWN, LIBRARY] {
        let output = Command::new(std::env::current_exe().unwrap()).args([MEMORY, uid, reader]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        println!("  peak of memory, {reader}: {}", String::from_utf8_lossy(&output.stdout).trim());
    }
    drop(crowd);
}

fn open(pod_uid: &str) -> PodNetns {
    PodNetns::open(Path::new(PROC), pod_uid).unwrap()
}

/// Both must find the same.
fn compare<T: PartialEq + Debug>(
    what: &str,
    rounds: usize,
    mut own: impl FnMut() -> T,
    mut library: impl FnMut() -> T,
) {
    assert_eq!(own(), library(), "{what}");
    let (mut owns, mut libraries, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (one, other) = (microseconds(&mut own), microseconds(&mut library));
        owns.push(one);
        libraries.push(other);
        ratios.push(other / one);
    }
    println!("{what}: own {:.1} µs, library {:.1} µs, {:.2} times", median(owns), median(libraries), median(ratios));
}

/// Processor time of this thread: other programs on the machine do not count.
fn microseconds<T>(work: &mut impl FnMut() -> T) -> f64 {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let before = now();
    _ = work();
    now().saturating_sub(before).as_secs_f64() * 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn read_once(pod_uid: &str, reader: &str) {
    let netns = open(pod_uid);
    let before = peak();
    match reader {
        OWN => drop(netns.connections().unwrap()),
        LIBRARY => {
            let process = find_pod_pids(Path::new(PROC), pod_uid).unwrap()[0];
            let namespace = File::open(format!("{PROC}/{}/ns/net", process.as_raw_pid())).unwrap();
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            drop(libraries::Sockets::open().connections());
        }
        other => panic!("reader {other:?}"),
    }
    println!("{} KiB, of which {} KiB were there before", peak(), before);
}

/// Of the resident memory of this process, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Connections over loopback in the pod's namespace.
struct Crowd(Child);

impl Crowd {
    fn gather(process: &Path) -> Self {
        let mut child = Command::new("nsenter")
            .arg(format!("--net={}", process.join("ns/net").display()))
            .arg(std::env::current_exe().unwrap())
            .arg(SOCKETS.to_string())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ok\n");
        Self(child)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

//! The observer in a process of its own, so that its memory can be told.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hitless_agent::drain::observed::{Stage, Target};
use hitless_agent::drain::observer::Observer;
use hitless_agent::view::Observation;
use hitless_api::{DrainSpec, PortDrain};
use serde::{Deserialize, Serialize};
use serde_json::{Value, from_value, json};
use tokio::sync::Notify;

use super::PATIENCE;
use super::lab::Lab;
use super::members::Servers;

/// What it says of the pod.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) inbound: u32,
    pub(crate) quiet: bool,
    pub(crate) unlisted: bool,
    pub(crate) drained: bool,
    pub(crate) closed: u32,
    pub(crate) destroyed: u32,
    pub(crate) failure: String,
    /// The most memory that the process ever had.
    pub(crate) most_kib: u64,
}

/// The process, as its parent sees it.
pub(crate) struct ObserverProcess {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl ObserverProcess {
    pub(crate) fn start(lab: &Lab) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["observe", &lab.pod_uid, &lab.container_id])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    /// What to look for, and how all ports are treated.
    pub(crate) fn order(&mut self, stage: &str, treat: &str, servers: &Servers) {
        let ports: Vec<Value> = servers.ports().iter().map(|port| json!({"port": port, "treat": treat})).collect();
        self.tell(&json!({"stage": stage, "ports": ports}));
    }

    /// What it sees now.
    pub(crate) fn ask(&mut self) -> Seen {
        self.tell(&json!({}))
    }

    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Seen) -> bool) -> Seen {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.ask();
            assert_eq!(seen.failure, "");
            if is_so(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "not in time: {what}: {seen:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn tell(&mut self, order: &Value) -> Seen {
        writeln!(self.child.stdin.as_ref().unwrap(), "{order}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for ObserverProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Does as it is told, line by line.
pub(crate) fn main(uid: &str, container: &str) {
    let observer = Observer::start("/proc".into(), Arc::new(Notify::new())).unwrap();
    for line in io::stdin().lines() {
        let order: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if let Some(stage) = order["stage"].as_str() {
            let ports: Vec<PortDrain> = from_value(order["ports"].clone()).unwrap();
            let stage = match stage {
                "leaving" => Stage::Leaving,
                "draining" => Stage::Draining,
                "destroying" => Stage::Destroying,
                other => panic!("stage {other:?}"),
            };
            let drain = DrainSpec { ports, ..DrainSpec::default() };
            let (probe_periods, containers) = (Vec::new(), vec![container.to_owned()]);
            let target = Target { stage, drain, probe_periods, containers, must_listen: false, sctp: None, udp: false };
            observer.set_targets(BTreeMap::from([(uid.to_owned(), target)]));
        }
        let seen = match observer.observation(uid).unwrap_or_default() {
            Observation::Counted(count) => Seen {
                inbound: count.inbound,
                quiet: count.quiet,
                unlisted: count.unlisted,
                drained: count.drained(),
                closed: count.closed,
                destroyed: count.destroyed,
                most_kib: most_kib(),
                ..Seen::default()
            },
            Observation::Failed(failure) => Seen { failure, ..Seen::default() },
            Observation::None | Observation::Held(_) => Seen { most_kib: most_kib(), ..Seen::default() },
        };
        println!("{}", json!(seen));
    }
}

fn most_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

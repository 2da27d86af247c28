//! A process that holds a pod's new connections until it is killed: the agent in the tests of what it leaves behind.
//!
//! Arguments: pod uid, port, cap and expiry in milliseconds. Says `ok` on standard error output once it holds.

#![allow(clippy::unwrap_used, reason = "part of a test")]

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use hitless_kernel::{HoldSpec, PodNetns, SynHold};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let milliseconds = |at: usize| Duration::from_millis(arguments[at].parse().unwrap());
    let spec = HoldSpec {
        ports: vec![arguments[1].parse().unwrap()],
        cap: milliseconds(2),
        expires_after: milliseconds(3),
        lease: Duration::from_millis(300),
        is_settled: true,
        exempt: Vec::new(),
    };
    let netns = PodNetns::open(Path::new("/proc"), &arguments[0]).unwrap();
    let mut hold = SynHold::open(&netns).unwrap();
    hold.begin(spec).unwrap();
    io::stderr().write_all(b"ok\n").unwrap();
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

//! Memory and open files of hitless' own processes.

use std::fmt;
use std::fs;

use anyhow::Context as _;
use hitless_e2e::Stack;
use hitless_e2e::stack::main_process;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Footprint {
    pod: String,
    memory_mib: f64,
    files: usize,
}

/// Of all agents and controllers.
pub(super) fn of(stack: &Stack) -> anyhow::Result<Vec<Footprint>> {
    stack.wait_ready()?;
    let pods = stack.system().list(&["pods"])?;
    pods.iter()
        .map(|pod| {
            let pid = main_process(pod)?;
            let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
            let kib: f64 = line.split_whitespace().next().context("no number")?.parse()?;
            Ok(Footprint {
                pod: pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                memory_mib: kib / 1024.0,
                files: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            })
        })
        .collect()
}

impl fmt::Display for Footprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {:.1} MiB, {} open files", self.pod, self.memory_mib, self.files)
    }
}

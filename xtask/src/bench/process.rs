//! What a process costs.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// Processor time that all threads of a process have used, exact to a nanosecond where the kernel counts that.
pub(super) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("process {pid}"))?;
    let mut total = Duration::ZERO;
    for thread in threads {
        // A thread may end in between.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        let nanoseconds = text.split_whitespace().next().context("schedstat is empty")?.parse()?;
        total += Duration::from_nanos(nanoseconds);
    }
    Ok(total)
}

/// A line such as `VmRSS` or `VmHWM` of a process's status, in MiB.
pub(super) fn memory_mib(pid: u32, line: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|text| text.starts_with(line)).with_context(|| format!("no {line}"))?;
    let kib: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kib / 1024.0)
}

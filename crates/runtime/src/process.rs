//! What this process costs, read from the kernel at each scrape.

use std::fmt;
use std::path::PathBuf;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Resident memory, CPU time and open file descriptors of this process.
#[derive(Debug)]
pub struct ProcessCollector {
    directory: PathBuf,
}

/// One reading.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    resident_bytes: u64,
    cpu_seconds: f64,
}

impl Default for ProcessCollector {
    fn default() -> Self {
        Self { directory: "/proc/self".into() }
    }
}

impl ProcessCollector {
    fn reading(&self) -> Option<Reading> {
        let stat = std::fs::read_to_string(self.directory.join("stat")).ok()?;
        let ticks = rustix::param::clock_ticks_per_second();
        parse(&stat, rustix::param::page_size(), ticks)
    }

    fn open_fds(&self) -> Option<u64> {
        let entries = std::fs::read_dir(self.directory.join("fd")).ok()?;
        u64::try_from(entries.count()).ok()
    }
}

/// Fields 14 (utime), 15 (stime) and 24 (rss) of proc_pid_stat(5), counted from behind the command's closing parenthesis,
/// because the command may contain anything.
fn parse(stat: &str, page_size: usize, ticks_per_second: u64) -> Option<Reading> {
    let (_, fields) = stat.rsplit_once(')')?;
    let number = |field: usize| fields.split_ascii_whitespace().nth(field - 3)?.parse::<u32>().ok();
    let pages = fields.split_ascii_whitespace().nth(24 - 3)?.parse::<u64>().ok()?;
    // 2³² ticks of 10 ms are more than a year of CPU time.
    let ticks = f64::from(number(14)?) + f64::from(number(15)?);
    let per_second = u32::try_from(ticks_per_second).ok().filter(|&ticks| ticks > 0)?;
    Some(Reading {
        resident_bytes: pages.checked_mul(u64::try_from(page_size).ok()?)?,
        cpu_seconds: ticks / f64::from(per_second),
    })
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        if let Some(reading) = self.reading() {
            let resident = ConstGauge::new(reading.resident_bytes);
            let metric = encoder.encode_descriptor(
                "process_resident_memory",
                "Resident memory",
                Some(&Unit::Bytes),
                resident.metric_type(),
            )?;
            resident.encode(metric)?;
            let cpu = ConstCounter::new(reading.cpu_seconds);
            let metric = encoder.encode_descriptor(
                "process_cpu",
                "User and system CPU time",
                Some(&Unit::Seconds),
                cpu.metric_type(),
            )?;
            cpu.encode(metric)?;
        }
        if let Some(count) = self.open_fds() {
            let fds = ConstGauge::new(count);
            let metric =
                encoder.encode_descriptor("process_open_fds", "Open file descriptors", None, fds.metric_type())?;
            fds.encode(metric)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::MetricType;
    use prometheus_client::registry::Registry;

    #[test]
    fn fields_are_counted_from_behind_the_command_whatever_it_contains() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4 5 0 0 0 150 50 0 0 20 0 1 0 9 1000 25 rest";
        assert_eq!(parse(stat, 4096, 100), Some(Reading { resident_bytes: 25 * 4096, cpu_seconds: 2.0 }));
        assert_eq!(parse("7 (a S 1", 4096, 100), None);
        assert_eq!(parse("7 (a) S 1", 4096, 100), None);
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessCollector::default()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(matches!(ConstGauge::new(1_u64).metric_type(), MetricType::Gauge));
        for name in ["process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"] {
            let value =
                text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
            assert!(value.trim().parse::<f64>().unwrap() >= 0.0, "{text}");
        }
    }
}

//! How busy the machine was: the kernel's pressure stall information.
//!
//! Source: Documentation/accounting/psi.rst of the kernel.

use std::fs;
use std::time::{Duration, Instant};

/// What tasks wait for.
#[derive(Clone, Copy)]
pub(super) enum Resource {
    /// A processor.
    Processor,
    /// Reading from disks, and writing to them.
    Disk,
}

impl Resource {
    const fn file(self) -> &'static str {
        match self {
            Self::Processor => "/proc/pressure/cpu",
            Self::Disk => "/proc/pressure/io",
        }
    }
}

/// A moment, and how long tasks had waited for something by then.
#[derive(Clone, Copy)]
pub(super) struct Pressure {
    resource: Resource,
    at: Instant,
    waited: Duration,
}

/// A share of time during which at least one task waited: 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share(f64);

/// From here on a test that watches time may fail because it did not get a processor. A cluster with nothing beside it stays below.
const BUSY: f64 = 0.5;

impl Pressure {
    /// None where the kernel does not tell.
    pub(super) fn now(resource: Resource) -> Option<Self> {
        let waited = waited(&fs::read_to_string(resource.file()).ok()?)?;
        Some(Self { resource, at: Instant::now(), waited })
    }

    /// The share of the time since then.
    pub(super) fn since(self) -> Option<Share> {
        let now = Self::now(self.resource)?;
        Some(Share::of(now.waited.saturating_sub(self.waited), now.at.saturating_duration_since(self.at)))
    }
}

impl Share {
    fn of(waited: Duration, wall: Duration) -> Self {
        Self((waited.as_secs_f64() / wall.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0))
    }

    #[cfg(test)]
    pub(super) const fn whole() -> Self {
        Self(1.0)
    }

    /// Whether what watches time may have been disturbed.
    pub(super) fn is_busy(self) -> bool {
        self.0 >= BUSY
    }

    /// In percent, for people.
    pub(super) fn percent(self) -> String {
        format!("{:.0}", self.0 * 100.0)
    }
}

/// `total` of the line `some`, in microseconds.
fn waited(text: &str) -> Option<Duration> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_some_task_waited_is_read() {
        let text =
            "some avg10=11.36 avg60=5.68 avg300=1.86 total=7086219\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(waited(text), Some(Duration::from_micros(7_086_219)));
        assert_eq!(waited("full avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"), None);
    }

    #[test]
    fn half_of_the_time_is_busy() {
        let share = |seconds| Share::of(Duration::from_secs(seconds), Duration::from_secs(10));
        assert!(!share(4).is_busy());
        assert!(share(5).is_busy());
        assert_eq!(share(12).percent(), "100", "counters and clocks are read one after the other");
    }
}

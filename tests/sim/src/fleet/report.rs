//! How it went, and how that is told.

use std::collections::BTreeMap;
use std::fmt;

/// How it went.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Pods that were operated.
    pub pods: u64,
    /// Simulated time until the last Deployment was finished.
    pub seconds: i64,
    /// No plan could be quicker than this.
    pub floor_seconds: i64,
    /// Decisions.
    pub rounds: u64,
    /// Real time that they took, together and the longest one, in milliseconds.
    pub decided_milliseconds: (u128, u128),
    /// Most pods that were operated at the same time.
    pub most: usize,
    /// Our writes by kind.
    pub writes: BTreeMap<&'static str, u64>,
    /// Most writes in one second.
    pub peak: u64,
    /// It did not come to an end.
    pub stuck: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = |seconds: i64| format!("{}.{}", seconds / 60, seconds % 60 * 10 / 60);
        if self.stuck {
            writeln!(f, "It did not come to an end.")?;
        }
        writeln!(f, "simulated minutes: {} ({} s)", minutes(self.seconds), self.seconds)?;
        writeln!(
            f,
            "floor: {} minutes: with a tenth at a time nobody can do with less than ten operations one after the other",
            minutes(self.floor_seconds)
        )?;
        writeln!(f, "pods operated: {}; at the same time at most {}", self.pods, self.most)?;
        let (all, longest) = self.decided_milliseconds;
        let each = all / u128::from(self.rounds.max(1));
        writeln!(f, "decisions: {}, {each} ms of real time each, the longest {longest} ms (not charged)", self.rounds)?;
        let total: u64 = self.writes.values().sum();
        let seconds = u64::try_from(self.seconds.max(1)).unwrap_or(1);
        writeln!(
            f,
            "API writes: {total} in all, {} a second on average, {} in the busiest second",
            total / seconds,
            self.peak
        )?;
        for (kind, count) in &self.writes {
            let hundredths = count * 100 / self.pods.max(1);
            writeln!(f, "  {kind:<26} {count:>8}   {}.{:02} a pod", hundredths / 100, hundredths % 100)?;
        }
        let hundredths = total * 100 / self.pods.max(1);
        writeln!(f, "  {:<26} {total:>8}   {}.{:02} a pod", "all", hundredths / 100, hundredths % 100)
    }
}

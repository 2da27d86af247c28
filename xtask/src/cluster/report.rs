//! What `cluster list` and `cluster writes` print.

use anyhow::Result;
use hitless_cluster::{Summary, WriteCount};
use jiff::Timestamp;

/// The clusters, one a line, each dead part below its cluster.
pub(crate) fn clusters(clusters: &[Summary], json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string(clusters)?);
        return Ok(());
    }
    if clusters.is_empty() {
        println!("no clusters; `cargo xtask cluster up` makes one");
    }
    for cluster in clusters {
        let age = cluster.created.map_or("unknown".into(), |created| age(Timestamp::now(), created));
        let state = match (cluster.complete, cluster.dead.is_empty()) {
            (false, _) => "half-made: `up` makes it anew, `down` removes it",
            (true, true) => "well",
            (true, false) => "parts have died:",
        };
        println!("{:<16} {:>3} nodes, age {age:<8} {state}", cluster.name, cluster.nodes);
        for dead in &cluster.dead {
            println!("  {} (log: {})", dead.part, dead.log.display());
        }
    }
    Ok(())
}

/// The counts, aligned, with their sum.
pub(crate) fn writes(counts: &[WriteCount], json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string(counts)?);
        return Ok(());
    }
    for row in counts {
        println!("{:>6}  {} {:<16} {:<40} {}", row.count, row.code, row.verb, row.resource, row.user);
    }
    println!("{:>6}  in all", counts.iter().map(|row| row.count).sum::<usize>());
    Ok(())
}

/// Whole units, the largest two: `2h 5m`.
fn age(now: Timestamp, created: Timestamp) -> String {
    let seconds = now.duration_since(created).as_secs().max(0);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (hours, minutes, _) => format!("{hours}h {minutes}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_at_most_two_units() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(age(at(59), at(0)), "59s");
        assert_eq!(age(at(125), at(0)), "2m 5s");
        assert_eq!(age(at(7500), at(0)), "2h 5m");
    }
}

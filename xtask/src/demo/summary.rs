//! What came of the acts, in words and as a table.

use std::fmt::Write as _;

use hitless_e2e::measure::Rollout;

use super::Outcome;
use super::bad_tag::BadTag;

/// One rollout in one line.
pub(super) fn rollout(rollout: &Rollout) -> String {
    format!(
        "{} of {} requests failed. It took {:.1} s, the longest time without an answer was {} ms, {} made anew.",
        rollout.failed,
        rollout.requests,
        rollout.seconds,
        rollout.longest_pause_ms,
        pods(rollout.pods_recreated)
    )
}

/// The act with the bad tag in one line.
pub(super) fn bad_tag(told: &BadTag) -> String {
    format!(
        "{} of {} requests failed. After {:.1} s the reason was on the Deployment, and {} left service. Set back, it was done in {:.1} s.",
        told.failed,
        told.requests,
        told.seconds_to_reason,
        pods(told.pods_out_of_service),
        told.seconds_to_end
    )
}

fn pods(count: usize) -> String {
    match count {
        0 => "no pod".to_owned(),
        1 => "1 pod".to_owned(),
        count => format!("{count} pods"),
    }
}

/// The rollouts of three replicas side by side, a line for each other act, and the minutes.
pub(super) fn text(outcome: &Outcome) -> String {
    let columns = [&outcome.in_place, &outcome.second, &outcome.later, &outcome.native];
    let mut text = String::new();
    for heads in [["3 replicas", "hitless", "hitless", "hitless", "native"], ["", "first", "second", "later", ""]] {
        line(&mut text, heads);
    }
    let mut row = |name: &str, cell: &dyn Fn(&Rollout) -> String| {
        let [first, second, later, native] = columns.map(cell);
        line(&mut text, [name, &first, &second, &later, &native]);
    };
    row("requests", &|act| act.requests.to_string());
    row("failed requests", &|act| act.failed.to_string());
    row("  the same if clients never retried", &|act| (act.failed_fresh + act.failed_keepalive_unretried).to_string());
    row("seconds", &|act| format!("{:.1}", act.seconds));
    row("  until the first pod had the image", &|act| format!("{:.1}", act.seconds_to_first_pod));
    row("longest time without an answer, ms", &|act| act.longest_pause_ms.to_string());
    row("pods made anew", &|act| act.pods_recreated.to_string());
    row("API writes per pod by hitless", &|act| match act.own_writes_per_pod() {
        Some(writes) if writes > 0.0 => format!("{writes:.1}"),
        _ => "–".to_owned(),
    });
    let _ = writeln!(text, "\nsingle replica: {}", rollout(&outcome.single));
    let _ = writeln!(text, "bad tag: {}", bad_tag(&outcome.bad_tag));
    let _ = writeln!(
        text,
        "\nAll together {} of {} requests to what hitless upgraded failed. The whole command took {:.1} minutes.",
        outcome.failed,
        outcome.requests,
        outcome.total_seconds / 60.0
    );
    text
}

fn line(text: &mut String, [name, first, second, later, native]: [&str; 5]) {
    let line = format!("{name:<38} {first:>8} {second:>8} {later:>8} {native:>8}");
    let _ = writeln!(text, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn measured(failed: u64, writes: Option<f64>) -> Rollout {
        let writes: BTreeMap<_, _> = writes.map(|count| ("hitless-agent".to_owned(), count)).into_iter().collect();
        Rollout {
            requests: 5000,
            failed,
            failed_fresh: failed,
            failed_keepalive: 0,
            failed_keepalive_unretried: 0,
            seconds: 1.26,
            seconds_to_first_pod: 0.3,
            pods_recreated: 0,
            longest_pause_ms: 20,
            versions: Vec::new(),
            failures: Vec::new(),
            started_unix_ms: 0,
            writes_per_pod: writes.clone(),
            own_writes: writes,
        }
    }

    fn outcome() -> Outcome {
        let bad_tag = BadTag {
            requests: 5000,
            failed: 0,
            longest_pause_ms: 9,
            pods_out_of_service: 0,
            pods_recreated: 0,
            seconds_to_reason: 5.0,
            reason: "not found".to_owned(),
            seconds_to_end: 0.2,
        };
        Outcome {
            requests: 25_000,
            failed: 0,
            pods_recreated: 0,
            seconds: 1.26,
            writes_per_pod: Some(9.0),
            in_place: measured(0, Some(9.0)),
            second: measured(0, Some(8.0)),
            later: measured(0, Some(6.5)),
            native: measured(250, Some(0.0)),
            single: measured(0, None),
            bad_tag,
            total_seconds: 66.0,
        }
    }

    #[test]
    fn the_table_has_a_column_for_each_rollout_of_three_replicas() {
        let text = text(&outcome());
        let row = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line[38..].split_whitespace().collect::<Vec<_>>()
        };
        assert_eq!(row("failed requests"), ["0", "0", "0", "250"]);
        assert_eq!(row("seconds"), ["1.3", "1.3", "1.3", "1.3"]);
        assert_eq!(row("API writes per pod by hitless"), ["9.0", "8.0", "6.5", "–"]);
        assert!(text.contains("The whole command took 1.1 minutes."), "{text}");
    }

    #[test]
    fn json_has_the_names_that_scripts_read() {
        let value = serde_json::to_value(outcome()).unwrap();
        for name in
            ["requests", "failed", "seconds", "pods_recreated", "writes_per_pod", "in_place", "native", "total_seconds"]
        {
            assert!(!value[name].is_null(), "{name}");
        }
        assert_eq!(value["bad_tag"]["pods_out_of_service"], 0);
    }
}

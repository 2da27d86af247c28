//! The report as a table.

use std::fmt::Write;

use super::report::{JobStatus, PodStatus, Report, WorkloadStatus};

const HEAD: [&str; 9] =
    ["NAMESPACE", "WORKLOAD", "POD", "NODE", "PHASE", "CONNECTIONS", "ELAPSED", "DEADLINE", "WAITING FOR"];

/// One line for each workload, one for each of its pods.
pub(super) fn render(report: &Report, all_namespaces: bool) -> String {
    if report.workloads.is_empty() && report.jobs.is_empty() {
        return "No workload here has opted in (annotation hitless.dev/update: in-place), and nothing is being operated.\n"
            .to_owned();
    }
    let mut rows = vec![HEAD.map(str::to_owned)];
    for workload in &report.workloads {
        rows.push(workload_row(workload));
        rows.extend(workload.pods.iter().map(|pod| pod_row(workload, pod)));
    }
    rows.extend(report.jobs.iter().map(job_row));
    align(&rows, usize::from(!all_namespaces))
}

fn job_row(job: &JobStatus) -> [String; 9] {
    let mut row = [const { String::new() }; 9];
    row[0].clone_from(&job.namespace);
    row[1].clone_from(&job.name);
    let failed = if job.failed == 0 { String::new() } else { format!(", {} failed", job.failed) };
    row[2] = format!("{} of {} done{failed}", job.succeeded, job.total);
    row[4] = format!("{:?}", job.progress);
    row[8].clone_from(&job.why);
    row
}

fn workload_row(workload: &WorkloadStatus) -> [String; 9] {
    let pods = match workload.replicas {
        Some(_) => format!("{} of {} updated", workload.updated, workload.total),
        None => String::new(),
    };
    let mut row = [const { String::new() }; 9];
    row[0].clone_from(&workload.namespace);
    row[1].clone_from(&workload.name);
    row[2] = pods;
    workload.stage.clone_into(&mut row[4]);
    row[8].clone_from(&workload.why);
    row
}

fn pod_row(workload: &WorkloadStatus, pod: &PodStatus) -> [String; 9] {
    [
        workload.namespace.clone(),
        String::new(),
        pod.name.clone(),
        pod.node.clone().unwrap_or_default(),
        pod.state.to_string(),
        pod.connections.map(|count| count.to_string()).unwrap_or_default(),
        pod.elapsed_seconds.map(span).unwrap_or_default(),
        pod.deadline_seconds.map(left).unwrap_or_default(),
        pod.why.clone(),
    ]
}

/// Columns are as wide as their widest cell; empty cells show a dash, but not in the last column, which is not padded.
fn align(rows: &[[String; 9]], first: usize) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let (last, cells) = row[first..].split_last().unwrap_or((&row[0], &[]));
        for (cell, width) in cells.iter().zip(&widths[first..]) {
            let cell = if cell.is_empty() { "-" } else { cell };
            // Writing to a String can't fail.
            let _ = write!(text, "{cell:<width$}   ");
        }
        text.push_str(last);
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn left(seconds: i64) -> String {
    if seconds < 0 { format!("{} over", span(-seconds)) } else { format!("in {}", span(seconds)) }
}

/// `42s`, `3m04s`, `1h02m`.
pub(crate) fn span(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::report::State;
    use hitless_api::operation_job::Progress;
    use hitless_api::{Outcome, Phase};

    fn pod(name: &str, state: State) -> PodStatus {
        PodStatus {
            name: name.into(),
            uid: name.into(),
            node: Some("n1".into()),
            ready: true,
            state,
            connections: None,
            elapsed_seconds: None,
            deadline_seconds: None,
            why: String::new(),
            blocked: false,
            halts: false,
        }
    }

    #[test]
    fn spans_have_two_units_at_most() {
        let spans = [(0, "0s"), (59, "59s"), (64, "1m04s"), (3599, "59m59s"), (3720, "1h02m"), (-5, "0s")];
        for (seconds, text) in spans {
            assert_eq!(span(seconds), text);
        }
        assert_eq!((left(5), left(-65)), ("in 5s".into(), "1m05s over".into()));
    }

    #[test]
    fn a_rollout_in_every_state() {
        let draining = PodStatus {
            connections: Some(12),
            elapsed_seconds: Some(9),
            deadline_seconds: Some(51),
            ready: false,
            ..pod("web-1", State::Running(Phase::Draining))
        };
        let waiting = PodStatus {
            why: "never/budget: [budget] blocked by available policy".into(),
            blocked: true,
            ..pod("web-2", State::Waiting)
        };
        let failed = PodStatus { why: "NotReadyInTime".into(), ..pod("web-3", State::Ended(Outcome::RolledBack)) };
        let web = WorkloadStatus {
            namespace: "team".into(),
            name: "deployment/web".into(),
            stage: "Rolling",
            held: true,
            updated: 1,
            total: 4,
            replicas: Some(4),
            why: String::new(),
            reload: None,
            pods: vec![pod("web-0", State::UpToDate), draining, waiting, failed],
            halted: None,
        };
        let alone = WorkloadStatus {
            name: "pod/alone".into(),
            stage: "",
            replicas: None,
            pods: vec![pod("alone", State::Reserved)],
            ..web.clone()
        };
        let job = JobStatus {
            namespace: "team".into(),
            name: "operationjob/again".into(),
            action: "Restart".into(),
            progress: Progress::Processing,
            total: 4,
            succeeded: 2,
            failed: 1,
            why: "pod web-2: never/budget: [budget] blocked by available policy".into(),
            pods: Vec::new(),
        };
        let jobs = Report { workloads: Vec::new(), jobs: vec![job] };
        insta::assert_snapshot!("jobs", render(&jobs, false));
        let report = Report { workloads: vec![web, alone], jobs: Vec::new() };
        insta::assert_snapshot!("one_namespace", render(&report, false));
        insta::assert_snapshot!("all_namespaces", render(&report, true));
        insta::assert_snapshot!("nothing", render(&Report::default(), false));
        insta::assert_snapshot!("json", serde_json::to_string_pretty(&report).unwrap());
    }
}

//! The report as a table.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write;

use super::report::{JobStatus, PodStatus, Report, WorkloadStatus};

const HEAD: [&str; 11] = [
    "NAMESPACE",
    "WORKLOAD",
    "POD",
    "NODE",
    "PHASE",
    "CONNECTIONS",
    "ELAPSED",
    "DEADLINE",
    "READY",
    "IMAGES",
    "WAITING FOR",
];
const READY: usize = 8;
const IMAGES: usize = 9;
const WAITING_FOR: usize = 10;

type Row = [String; HEAD.len()];

/// How the table is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) all_namespaces: bool,
    /// With columns for Ready and images.
    pub(super) wide: bool,
    pub(super) headers: bool,
}

/// One line for each workload, one for each of its pods.
pub(super) fn render(report: &Report, shape: Shape) -> String {
    if report.workloads.is_empty() && report.jobs.is_empty() {
        return "No workload here has opted in (annotation hitless.dev/update: in-place), and nothing is being operated.\n"
            .to_owned();
    }
    let mut rows: Vec<Row> = Vec::new();
    if shape.headers {
        rows.push(HEAD.map(str::to_owned));
    }
    for workload in &report.workloads {
        rows.push(workload_row(workload));
        // A reason is read once.
        let mut said: BTreeMap<&str, &str> = BTreeMap::new();
        for pod in &workload.pods {
            let mut row = pod_row(workload, pod);
            if !pod.why.is_empty() {
                match said.entry(&pod.why) {
                    Entry::Vacant(new) => _ = new.insert(&pod.name),
                    Entry::Occupied(first) => row[WAITING_FOR] = format!("as {}", first.get()),
                }
            }
            rows.push(row);
        }
    }
    rows.extend(report.jobs.iter().map(job_row));
    align(&rows, shape)
}

fn job_row(job: &JobStatus) -> Row {
    let mut row: Row = Default::default();
    row[0].clone_from(&job.namespace);
    row[1].clone_from(&job.name);
    let failed = if job.failed == 0 { String::new() } else { format!(", {} failed", job.failed) };
    row[2] = format!("{} of {} done{failed}", job.succeeded, job.total);
    row[4] = format!("{:?}", job.progress);
    row[WAITING_FOR].clone_from(&job.why);
    row
}

fn workload_row(workload: &WorkloadStatus) -> Row {
    let pods = match workload.replicas {
        Some(_) => workload.count(""),
        None => String::new(),
    };
    let mut row: Row = Default::default();
    row[0].clone_from(&workload.namespace);
    row[1].clone_from(&workload.name);
    row[2] = pods;
    workload.stage.clone_into(&mut row[4]);
    let words = [workload.progress.as_str(), &workload.why];
    row[WAITING_FOR] = words.into_iter().filter(|each| !each.is_empty()).collect::<Vec<_>>().join("; ");
    row
}

fn pod_row(workload: &WorkloadStatus, pod: &PodStatus) -> Row {
    let images: Vec<String> = pod.images.iter().map(|(name, image)| format!("{name}={image}")).collect();
    [
        workload.namespace.clone(),
        String::new(),
        pod.name.clone(),
        pod.node.clone().unwrap_or_default(),
        pod.state.to_string(),
        pod.connections.map(|count| count.to_string()).unwrap_or_default(),
        pod.elapsed_seconds.map(span).unwrap_or_default(),
        pod.deadline_seconds.map(left).unwrap_or_default(),
        pod.ready.to_string(),
        images.join(","),
        pod.why.clone(),
    ]
}

/// Columns are as wide as their widest cell; empty cells show a dash, but not in the last column, which is not padded.
fn align(rows: &[Row], shape: Shape) -> String {
    let is_shown = |column: &usize| match *column {
        0 => shape.all_namespaces,
        READY | IMAGES => shape.wide,
        _ => true,
    };
    let columns: Vec<usize> = (0..WAITING_FOR).filter(is_shown).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = columns.iter().map(|column| width(*column).max(1)).collect();
    let mut text = String::new();
    for row in rows {
        for (column, width) in columns.iter().zip(&widths) {
            let cell = if row[*column].is_empty() { "-" } else { &row[*column] };
            // Writing to a String can't fail.
            let _ = write!(text, "{cell:<width$}   ");
        }
        text.push_str(&row[WAITING_FOR]);
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
            leaves: false,
            state,
            connections: None,
            elapsed_seconds: None,
            deadline_seconds: None,
            images: BTreeMap::from([("web".to_owned(), "web:v1".to_owned())]),
            why: String::new(),
            stays: false,
            needs_change: false,
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
        let plain = Shape { all_namespaces: false, wide: false, headers: true };
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
        let also = PodStatus { name: "web-2b".into(), ..waiting.clone() };
        let failed = PodStatus { why: "NotReadyInTime".into(), ..pod("web-3", State::Ended(Outcome::RolledBack)) };
        let web = WorkloadStatus {
            namespace: "team".into(),
            name: "deployment/web".into(),
            stage: "Rolling",
            held: true,
            updated: 1,
            total: 4,
            replicas: Some(4),
            restart: None,
            why: String::new(),
            progress: "1 under way, 2 wait".into(),
            paused: None,
            reload: None,
            pods: vec![pod("web-0", State::UpToDate), draining, waiting, also, failed],
            driven: true,
            surplus: 0,
            overdue: None,
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
        insta::assert_snapshot!("jobs", render(&jobs, plain));
        let report = Report { workloads: vec![web, alone], jobs: Vec::new() };
        insta::assert_snapshot!("one_namespace", render(&report, plain));
        insta::assert_snapshot!("all_namespaces", render(&report, Shape { all_namespaces: true, ..plain }));
        insta::assert_snapshot!("wide", render(&report, Shape { wide: true, headers: false, ..plain }));
        insta::assert_snapshot!("nothing", render(&Report::default(), plain));
        insta::assert_snapshot!("json", serde_json::to_string_pretty(&report).unwrap());
    }
}

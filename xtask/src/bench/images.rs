//! New images that a node cannot pull, pulls slowly or cannot run: who leaves service for them, which requests fail, and when the
//! reason is on the workload; beside the native rolling update.

mod case;
mod run;

use anyhow::ensure;
use clap::Args;
use hitless_e2e::Stack;
use serde::Serialize;

use case::Case;
use run::{Measured, Way};

#[derive(Args)]
pub(super) struct Images {
    /// How many replicas the Deployment has; each number is measured by itself.
    #[arg(long, value_delimiter = ',', default_values_t = [1_u32, 3, 20])]
    replicas: Vec<u32>,
    /// Only this case.
    #[arg(long, value_enum)]
    case: Option<Case>,
    /// Seconds for which a change that cannot succeed is watched.
    #[arg(long, default_value_t = 45)]
    seconds: u64,
    /// Leave out the native rolling update.
    #[arg(long)]
    without_native: bool,
}

#[derive(Serialize)]
struct Figures {
    cases: Vec<Figure>,
}

#[derive(Serialize)]
struct Figure {
    case: &'static str,
    replicas: u32,
    /// Pods that left service. Where an image comes slowly: that left before it was on their node.
    pods_out: usize,
    /// Requests without an answer, after the retry that HTTP/1.1 allows.
    failed: u64,
    requests: u64,
    /// From the change until an Event on the Deployment says what is wrong, in the registry's or the kubelet's words.
    seconds_to_reason: Option<f64>,
    /// The first such Event.
    reason: Option<String>,
    /// From the change until all pods had the new version and were ready.
    seconds: Option<f64>,
    native_failed: Option<u64>,
    native_requests: Option<u64>,
    native_seconds: Option<f64>,
}

pub(super) fn run(options: &Images, stack: &Stack, json: bool) -> anyhow::Result<()> {
    ensure!(options.replicas.iter().all(|replicas| (1..=60).contains(replicas)), "--replicas: use 1 to 60");
    ensure!((5..=600).contains(&options.seconds), "--seconds: use 5 to 600");
    let wanted = Case::ALL.into_iter().filter(|case| options.case.is_none_or(|only| only == *case));
    let mut cases = Vec::new();
    for case in wanted {
        for replicas in &options.replicas {
            let ours = run::measure(stack, case, *replicas, Way::Hitless, options.seconds)?;
            let native = if options.without_native {
                None
            } else {
                Some(run::measure(stack, case, *replicas, Way::Native, options.seconds)?)
            };
            let figure = figure(case, *replicas, ours, native.as_ref());
            eprintln!("{}", line(&columns(&figure)));
            cases.push(figure);
        }
    }
    if json {
        println!("{}", serde_json::to_string(&Figures { cases })?);
        return Ok(());
    }
    println!("{}", line(&HEAD));
    for figure in &cases {
        println!("{}", line(&columns(figure)));
    }
    Ok(())
}

fn figure(case: Case, replicas: u32, ours: Measured, native: Option<&Measured>) -> Figure {
    Figure {
        case: case.name(),
        replicas,
        pods_out: ours.pods_out,
        failed: ours.failed,
        requests: ours.requests,
        seconds_to_reason: ours.reason.as_ref().map(|(seconds, _)| *seconds),
        reason: ours.reason.map(|(_, text)| text),
        seconds: ours.seconds,
        native_failed: native.map(|native| native.failed),
        native_requests: native.map(|native| native.requests),
        native_seconds: native.and_then(|native| native.seconds),
    }
}

const HEAD: [&str; 8] = [
    "case",
    "replicas",
    "pods out",
    "failed of requests",
    "s to reason",
    "s to end",
    "natively failed of requests",
    "s to end",
];

fn columns(figure: &Figure) -> [String; 8] {
    let seconds = |seconds: Option<f64>| seconds.map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.1}"));
    let of = |failed: Option<u64>, requests: Option<u64>| match (failed, requests) {
        (Some(failed), Some(requests)) => format!("{failed} of {requests}"),
        _ => "–".to_owned(),
    };
    [
        figure.case.to_owned(),
        figure.replicas.to_string(),
        figure.pods_out.to_string(),
        of(Some(figure.failed), Some(figure.requests)),
        seconds(figure.seconds_to_reason),
        seconds(figure.seconds),
        of(figure.native_failed, figure.native_requests),
        seconds(figure.native_seconds),
    ]
}

/// The columns below their heads.
fn line(columns: &[impl AsRef<str>]) -> String {
    let cells = columns.iter().zip(HEAD).map(|(column, head)| {
        let width = head.len().max("missing-secret".len());
        format!("{:>width$}", column.as_ref())
    });
    cells.collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_stands_below_its_head_and_json_has_the_names_of_the_table() {
        let ours = Measured {
            pods_out: 1,
            failed: 2,
            requests: 10_000,
            reason: Some((1.25, "not found".into())),
            seconds: None,
        };
        let figure = figure(Case::MissingSecret, 20, ours, None);
        let row = line(&columns(&figure));
        assert_eq!(row.chars().count(), line(&HEAD).chars().count(), "{row}");
        let value = serde_json::to_value(Figures { cases: vec![figure] }).unwrap();
        assert_eq!(value["cases"][0]["case"], "missing-secret");
        for key in ["replicas", "pods_out", "failed", "seconds_to_reason", "native_failed"] {
            assert!(value["cases"][0].as_object().unwrap().contains_key(key), "{key}");
        }
    }
}

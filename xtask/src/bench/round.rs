//! What a decision takes beside a namespace that somebody has filled with policies (`crates/rollout/examples/round_bench.rs`).

use serde::{Deserialize, Serialize};

use super::gate;

/// What one run of the measuring program prints.
#[derive(Deserialize, Serialize)]
struct Run {
    pods: usize,
    policies: usize,
    first_round_ms: f64,
    round_p50_ms: f64,
    first_grant_seconds: Option<f64>,
}

/// Pods of the CollaSet beside the policies.
const PODS: &str = "500";

pub(super) fn run(json: bool) -> anyhow::Result<()> {
    let program = ("hitless-rollout", "round_bench");
    let runs: Vec<Run> = ["0", "500", "5000"]
        .map(|count| gate::measure(program, &[PODS, count]))
        .into_iter()
        .collect::<Result<_, _>>()?;
    if json {
        println!("{}", serde_json::to_string(&runs)?);
        return Ok(());
    }
    println!("{:<32} {:>12} {:>12} {:>24}", "policies of each kind", "first round", "a round", "another's first grant");
    for Run { policies, first_round_ms, round_p50_ms, first_grant_seconds, .. } in &runs {
        let granted = first_grant_seconds.map_or_else(|| "none".to_owned(), |seconds| format!("{seconds:.3} s"));
        println!("{policies:<32} {first_round_ms:>9.1} ms {round_p50_ms:>9.1} ms {granted:>24}");
    }
    Ok(())
}

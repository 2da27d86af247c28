//! `kubectl hitless doctor`: whether hitless is whole in this cluster, and what else is there that matters to it.

mod agents;
pub(crate) mod facts;
mod finding;
pub(crate) mod findings;
mod helpers;
mod opt_in;
mod pre;
pub(crate) mod read;
mod surroundings;

use std::fmt::Write;

use kube::Client;

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::output::{self, show};
use finding::{Finding, Level};
use findings::findings;

pub(crate) async fn run(client: Client, namespace: &str, arguments: &DoctorArgs) -> Result<(), Failure> {
    // All the lists together are large; on the heap they burden no caller.
    let mut facts = Box::pin(read::facts(&client)).await?;
    let findings = if arguments.pre {
        pre::findings(&facts, &Box::pin(pre::read(&client)).await)
    } else {
        facts.helpers = Box::pin(helpers::read(&client, namespace)).await;
        findings(&facts)
    };
    show(&findings, arguments.output, || text(&findings))?;
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).count();
    if errors == 0 { Ok(()) } else { Err(Failure::Failed(verdict(errors))) }
}

fn verdict(errors: usize) -> String {
    format!("hitless can't work here as it should: {}", output::count(errors, "error"))
}

fn text(findings: &[Finding]) -> String {
    let mut out = String::new();
    for Finding { level, what, why, to_do } in findings {
        let level = match level {
            Level::Ok => "ok     ",
            Level::Warning => "warning",
            Level::Error => "error  ",
        };
        // Writing to a String does not fail.
        let _ = writeln!(out, "{level} {what}");
        for (label, words) in [("why", why), ("do", to_do)].into_iter().filter(|(_, words)| !words.is_empty()) {
            let _ = writeln!(out, "          {label}: {words}");
        }
    }
    out
}

#[cfg(test)]
mod tests;

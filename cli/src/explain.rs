//! `kubectl hitless explain`: what a reason means, and what to do. No cluster is asked.

use std::fmt::Write as _;

use hitless_api::reasons;
use serde::Serialize;

use crate::args::ExplainArgs;
use crate::failure::Failure;
use crate::lint;
use crate::output::show;

/// What is said of a reason.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    reason: &'static str,
    /// What it is given for.
    of: &'static str,
    means: &'static str,
    to_do: &'static str,
}

pub(crate) fn run(arguments: &ExplainArgs) -> Result<(), Failure> {
    let found = arguments.reason.as_deref().map_or_else(|| Ok(all(None)), find)?;
    show(&found, arguments.output, || match &arguments.reason {
        Some(_) => text(&found),
        None => list(),
    })
}

/// As it is written anywhere: `Outcome/Reason` and a reason with its words behind a colon count as the reason.
fn find(word: &str) -> Result<Vec<Explained>, Failure> {
    let name = word.split(':').next().unwrap_or_default().rsplit('/').next().unwrap_or_default().trim();
    let found = all(Some(name));
    if !found.is_empty() {
        return Ok(found);
    }
    let known: Vec<&str> = reasons::all().map(|(_, reason)| reason.name).collect();
    let meant = lint::nearest(name, &known).map_or_else(String::new, |near| format!("; did you mean {near}"));
    Err(Failure::NotFound(format!("no reason {name:?} is known{meant}; all of them: kubectl hitless explain")))
}

fn all(name: Option<&str>) -> Vec<Explained> {
    let meant = reasons::all().filter(|(_, reason)| name.is_none_or(|name| reason.name.eq_ignore_ascii_case(name)));
    meant
        .map(|(topic, reason)| Explained {
            reason: reason.name,
            of: topic.title(),
            means: reason.means,
            to_do: reason.act,
        })
        .collect()
}

fn text(found: &[Explained]) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    for Explained { reason, of, means, to_do } in found {
        let _ = writeln!(out, "{reason} ({of}): {means}\n  do: {to_do}");
    }
    out
}

/// The names alone, by what they are given for.
fn list() -> String {
    let mut out = String::new();
    let mut before = None;
    for (topic, reason) in reasons::all() {
        if before != Some(topic) {
            let _ = writeln!(out, "{}{}:", if before.is_some() { "\n" } else { "" }, topic.title());
            before = Some(topic);
        }
        let _ = writeln!(out, "  {}", reason.name);
    }
    out + "\nwhat one means: kubectl hitless explain REASON\n"
}

#[cfg(test)]
mod tests;

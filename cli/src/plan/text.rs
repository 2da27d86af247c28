//! What would happen, for people.

use std::fmt::Write;

use jiff::Timestamp;

use super::report::{Going, Held, Report, Step};
use crate::forecast::Expected;
use crate::output::{self, one_line};
use crate::status::span;

/// Most pods that are named of one wave.
const NAMED: usize = 8;

pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    let _ = all(&mut out, report);
    out
}

fn all(out: &mut String, report: &Report) -> std::fmt::Result {
    let images = report.images.iter().map(|(name, change)| format!("{name}: {} -> {}", change.from, change.to));
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    let labels = report.labels.iter();
    let labels = labels.map(|(key, change)| format!("label {key}: {} -> {}", value(&change.from), value(&change.to)));
    let changes: Vec<String> = images.chain(labels).collect();
    writeln!(out, "{} in {}, {}", report.workload, report.namespace, changes.join(", "))?;
    match report.way {
        "Native" => writeln!(out, "Kubernetes would roll it, with new pods: {}", report.why)?,
        "Nothing" => writeln!(out, "nothing to do: {}", report.why)?,
        _ => in_place(out, report)?,
    }
    report.notes.iter().try_for_each(|note| writeln!(out, "note: {}", one_line(note)))
}

fn in_place(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "in place, {}, from {}", count(report.pods), time(report.start))?;
    if !report.labels.is_empty() {
        let keys: Vec<&String> = report.labels.keys().collect();
        writeln!(out, "labels that are changed in place, too: {}", names(&keys))?;
    }
    let waves = report.steps.iter().filter(|step| matches!(step, Step::Wave { .. })).count();
    let mut number = 0;
    // What holds each wave back in the same way is said once.
    let mut said: &[Held] = &[];
    let mut modes: Vec<(&Expected, Vec<&str>)> = Vec::new();
    for step in &report.steps {
        match step {
            Step::Wave { seconds, pods, held, .. } => {
                number += 1;
                writeln!(out, "wave {number} of {waves}, after {}: {}", span(*seconds), going(pods))?;
                let now = alike(pods);
                // The same goes for modes, where one wave has but one.
                let is_said = now.len() == 1 && modes.len() == 1 && now[0].0 == modes[0].0;
                if !is_said {
                    ways(out, &now)?;
                }
                modes = now;
                let same = |one: &Held, other: &Held| (&one.rule, &one.text) == (&other.rule, &other.text);
                if held.len() != said.len() || !held.iter().zip(said).all(|(one, other)| same(one, other)) {
                    rules(out, "no more, because", held)?;
                }
                said = held;
            }
            Step::Wait { seconds, until, held, .. } => {
                writeln!(out, "after {}: nobody goes until {}", span(*seconds), time(*until))?;
                rules(out, "because", held)?;
            }
            Step::Back { seconds, pods, missing, held, .. } => {
                let missing = (*missing > 0).then(|| {
                    format!("{} that {} not created yet", count(*missing), if *missing == 1 { "is" } else { "are" })
                });
                let who: Vec<String> = pods.iter().cloned().chain(missing).collect();
                writeln!(out, "after {}: nobody goes until these are available: {}", span(*seconds), names(&who))?;
                rules(out, "because", held)?;
                writeln!(out, "if they come back:")?;
            }
        }
    }
    for left in &report.left_out {
        let because: Vec<String> = left.because.iter().map(ToString::to_string).collect();
        writeln!(out, "not operated: {}: {}", left.pod, because.join("; "))?;
    }
    if !report.stuck.is_empty() {
        writeln!(out, "then nothing moves any more; what is left: {}", count(report.left.unwrap_or_default()))?;
        rules(out, "because", &report.stuck)?;
        for held in &report.stuck {
            held.unblock.as_ref().map_or(Ok(()), |unblock| {
                let (rule, unblock) = (one_line(&held.rule), one_line(unblock));
                writeln!(out, "    to unblock {rule}: {unblock}")
            })?;
        }
    }
    if let Some(seconds) = report.seconds {
        write!(out, "done after about {}", span(seconds))?;
        if let Some(most) = report.at_most_seconds.filter(|most| *most > seconds) {
            write!(out, " (at most {}, if connections stay as long as the drain lets them)", span(most))?;
        }
        let each = report.operation_seconds;
        writeln!(out, "; assumed: {each} s for an operation (--operation-seconds)")?;
    }
    Ok(())
}

/// Pods of a wave by the way that they go.
fn alike(pods: &[Going]) -> Vec<(&Expected, Vec<&str>)> {
    let mut ways: Vec<(&Expected, Vec<&str>)> = Vec::new();
    for pod in pods {
        let Some(expected) = &pod.expected else { continue };
        match ways.iter_mut().find(|(known, _)| *known == expected) {
            Some((_, names)) => names.push(&pod.pod),
            None => ways.push((expected, vec![&pod.pod])),
        }
    }
    ways
}

fn ways(out: &mut String, ways: &[(&Expected, Vec<&str>)]) -> std::fmt::Result {
    ways.iter().try_for_each(|(expected, pods)| {
        let who = if ways.len() > 1 { format!("{}: ", names(pods)) } else { String::new() };
        writeln!(out, "    {who}{expected}")?;
        writeln!(out, "      clients: {}", expected.clients_see)
    })
}

fn rules(out: &mut String, before: &str, held: &[Held]) -> std::fmt::Result {
    held.iter().try_for_each(|held| writeln!(out, "    {before} {}: {}", one_line(&held.rule), one_line(&held.text)))
}

fn going(pods: &[Going]) -> String {
    let one = |pod: &Going| match &pod.node {
        Some(node) => format!("{} ({node})", pod.pod),
        None => pod.pod.clone(),
    };
    format!("{}: {}", count(pods.len()), names(&pods.iter().map(one).collect::<Vec<_>>()))
}

fn names<T: AsRef<str>>(pods: &[T]) -> String {
    output::names(pods, NAMED)
}

fn count(pods: usize) -> String {
    if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") }
}

fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

//! The answer for people.

use std::fmt::Write;

use hitless_api::GrantOp;
use hitless_gate::{BudgetConsumer, Consumption};
use jiff::Timestamp;

use super::answer::{Answer, PodAnswer, RuleAnswer};
use crate::output::{self, one_line};
use crate::status::State;

/// Most pods that are named where all have the same answer.
const NAMED: usize = 5;

pub(crate) fn render(answer: &Answer) -> String {
    let mut out = String::new();
    if let Some(under_way) = &answer.under_way {
        let _ = writeln!(out, "under way: {under_way}");
    }
    let nothing = match (answer.partial, answer.no_controller) {
        (_, true) => "only that no controller runs",
        (true, false) => "nothing that could be read",
        (false, false) => "nothing",
    };
    for (first, others) in alike(&answer.pods) {
        let _ = pod(&mut out, first, &others, nothing);
    }
    for note in &answer.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

/// Pods of which the same is said, in the order of the first of them.
fn alike(pods: &[PodAnswer]) -> Vec<(&PodAnswer, Vec<&str>)> {
    let mut groups: Vec<(&PodAnswer, Vec<&str>)> = Vec::new();
    for pod in pods {
        let same = |known: &PodAnswer| {
            (&known.state, &known.desired, &known.images, &known.why, &known.expected, &known.rules, &known.obstacles)
                == (&pod.state, &pod.desired, &pod.images, &pod.why, &pod.expected, &pod.rules, &pod.obstacles)
                && known.asked_by == pod.asked_by
        };
        match groups.iter_mut().find(|(known, _)| same(known)) {
            Some((_, others)) => others.push(&pod.pod),
            None => groups.push((pod, Vec::new())),
        }
    }
    groups
}

fn pod(out: &mut String, pod: &PodAnswer, others: &[&str], nothing: &str) -> std::fmt::Result {
    write!(out, "pod/{} ({}", pod.pod, pod.workload)?;
    pod.node.as_ref().map_or(Ok(()), |node| write!(out, ", node {node}"))?;
    write!(out, ")")?;
    if !others.is_empty() {
        write!(out, ", and the same for {}", output::names(others, NAMED))?;
    }
    let wanted = match pod.desired {
        Some(GrantOp::Restart) => "a restart",
        Some(GrantOp::Relabel) => "other labels, and nothing else",
        Some(GrantOp::Drain) => "to leave service for good",
        Some(GrantOp::Foreign) => "that others may operate it",
        Some(_) => "an update",
        None => "nothing",
    };
    match (pod.state, pod.desired.is_some()) {
        (State::Running(_) | State::Reserved, _) => {
            let why = if pod.why.is_empty() { String::new() } else { format!(": {}", pod.why) };
            writeln!(out, ": is being operated, {}{why}", pod.state)?;
        }
        (State::Ended(_), true) if !pod.allowed && !pod.why.is_empty() => {
            writeln!(out, ": its operation ended as {}: {}", pod.state, pod.why)?;
        }
        (_, true) if pod.allowed => writeln!(out, ": wishes {wanted}; {nothing} is in the way")?,
        (_, true) => writeln!(out, ": wishes {wanted} and waits")?,
        (State::Ended(_), false) => {
            let why = if pod.why.is_empty() { String::new() } else { format!(": {}", pod.why) };
            writeln!(out, ": its operation ended as {}{why}", pod.state)?;
        }
        (State::Waiting, false) if !pod.why.is_empty() => writeln!(out, ": wishes nothing, and waits: {}", pod.why)?,
        (_, false) if pod.allowed => {
            writeln!(out, ": up to date{}; {nothing} would be in the way of an update", aside(pod))?;
        }
        (_, false) => writeln!(out, ": up to date{}; an update would have to wait now", aside(pod))?,
    }
    pod.asked_by.as_ref().map_or(Ok(()), |asked_by| writeln!(out, "  asked for by {asked_by}"))?;
    for (container, image) in &pod.images {
        writeln!(out, "  image of {container}: {} -> {}", image.from, image.to)?;
    }
    // What would be if it wanted something is not what is going to happen.
    let is_supposed = pod.state == State::Waiting && pod.desired.is_none();
    if let Some(expected) = pod.expected.as_ref().filter(|_| !is_supposed) {
        writeln!(out, "  {expected}")?;
        writeln!(out, "      clients: {}", expected.clients_see)?;
    }
    // Of a pod that is being operated that is said already.
    for obstacle in pod.obstacles.iter().filter(|_| !matches!(pod.state, State::Running(_) | State::Reserved)) {
        writeln!(out, "  ! {}: {}", obstacle.reason, obstacle.text)?;
        obstacle.unblock.as_ref().map_or(Ok(()), |unblock| writeln!(out, "      to unblock: {unblock}"))?;
    }
    pod.rules.iter().filter(|_| !is_supposed).try_for_each(|answer| rule(out, answer))
}

/// What is to be known of a pod that wants nothing: it is not ready, or is being deleted.
fn aside(pod: &PodAnswer) -> String {
    if pod.why.is_empty() { String::new() } else { format!(" ({})", pod.why) }
}

fn rule(out: &mut String, answer: &RuleAnswer) -> std::fmt::Result {
    let verdict = &answer.verdict;
    let mark = if verdict.is_allowed() { '+' } else { '-' };
    writeln!(out, "  {mark} {}: {}", one_line(&verdict.rule), one_line(&answer.text))?;
    if !verdict.holders.is_empty() {
        let holders: Vec<String> = verdict.holders.iter().map(holder).collect();
        writeln!(out, "      held by: {}", holders.join(", "))?;
    }
    verdict.since.map_or(Ok(()), |since| writeln!(out, "      since: {}", time(since)))?;
    answer.unblock.as_ref().map_or(Ok(()), |unblock| writeln!(out, "      to unblock: {}", one_line(unblock)))
}

fn holder(holder: &BudgetConsumer) -> String {
    let why = match holder.why {
        Consumption::Reserved => "reserved",
        Consumption::NotBack => "not Ready after its operation",
        Consumption::Unavailable => "unavailable",
        Consumption::Leaving => "being deleted",
        Consumption::Lost => "its node does not answer",
        Consumption::RecentlyReady => {
            "Ready, but not counted as available yet (minReadySeconds, or a hook of its workload)"
        }
        Consumption::GoesNow => "goes now",
    };
    match holder.since {
        Some(since) => format!("{} ({why} since {})", holder.pod, time(since)),
        None => format!("{} ({why})", holder.pod),
    }
}

/// Whole seconds are enough for people.
fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

//! What the facts mean for the agents: whether each node has one, and what they say of themselves. Pure.

use std::collections::BTreeSet;

use hitless_api::{Hook, names};
use jiff::Timestamp;

use super::facts::{AgentPod, Facts, NodeFacts, Seen};
use super::finding::Finding;
use super::findings::{INSTALL, look};
use crate::output::{self, count};
use crate::status::span;

/// An agent that began so short a time ago may have replaced one that has failed.
const YOUNG_SECONDS: i64 = 60;
/// Most names in one sentence.
const NAMED: usize = 5;

/// All findings about them.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = presence(facts);
    all.extend(features(facts));
    all
}

fn rollout_status() -> String {
    format!("kubectl -n {} rollout status daemonset hitless-agent", names::system_namespace())
}

fn presence(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    if facts.agent == Seen::Known(None) {
        let why = "no agent is on any node, so no pod is operated";
        let what = format!("DaemonSet hitless-agent is not in namespace {}", names::system_namespace());
        return vec![Finding::error(what, why, INSTALL)];
    }
    let (Seen::Known(nodes), Seen::Known(agents)) = (&facts.nodes, &facts.agents) else { return found };
    let ready: BTreeSet<&str> = agents.iter().filter(|agent| agent.ready).map(|agent| agent.node.as_str()).collect();
    let (linux, others): (Vec<&NodeFacts>, Vec<&NodeFacts>) =
        nodes.iter().filter(|node| node.is_real).partition(|node| node.os == "linux");
    let without: Vec<&str> = linux.iter().map(|node| node.name.as_str()).filter(|name| !ready.contains(name)).collect();
    found.push(if without.is_empty() {
        Finding::ok(format!("an agent is Ready on each of {}{}", count(linux.len(), "node"), ages(agents, facts.now)))
    } else {
        Finding::error(
            format!("no agent is Ready on {} of {}: {}", without.len(), count(linux.len(), "node"), listed(&without)),
            "pods of these nodes are not operated, and new pods with the readiness gate wait 30 s for the controller to let them serve",
            look("daemonset", names::AGENT),
        )
    });
    if !others.is_empty() {
        let others: Vec<&str> = others.iter().map(|node| node.name.as_str()).collect();
        let what = format!("nodes that do not run Linux: {}", listed(&others));
        found.push(Finding::warning(
            what,
            "their pods are never operated, and wait where their workload has opted in",
            "opt no workload in whose pods run there",
        ));
    }
    let young: Vec<&str> = agents
        .iter()
        .filter(|agent| agent.ready && agent.since.is_some_and(|since| age(since, facts.now) < YOUNG_SECONDS))
        .map(|agent| agent.node.as_str())
        .collect();
    if !young.is_empty() {
        found.push(Finding::warning(
            format!("agents are Ready for less than a minute: {}", listed(&young)),
            "they may have been restarted, or their update is under way",
            format!("look whether it goes on: {}", rollout_status()),
        ));
    }
    let images: BTreeSet<&str> = agents.iter().map(|agent| agent.image.as_str()).collect();
    if images.len() > 1 {
        found.push(Finding::warning(
            format!("agents run different images: {}", images.into_iter().collect::<Vec<_>>().join(", ")),
            "an operation that only the later one can do waits for the nodes of the earlier one",
            format!("look whether their update goes on: {}", rollout_status()),
        ));
    }
    found
}

fn age(since: Timestamp, now: Timestamp) -> i64 {
    now.duration_since(since).as_secs()
}

fn ages(agents: &[AgentPod], now: Timestamp) -> String {
    let ages: Vec<i64> = agents.iter().filter_map(|agent| Some(age(agent.since?, now))).collect();
    match (ages.iter().min(), ages.iter().max()) {
        (Some(youngest), Some(oldest)) => format!(", for {} to {}", span(*youngest), span(*oldest)),
        _ => String::new(),
    }
}

fn listed(all: &[&str]) -> String {
    output::names(all, NAMED)
}

/// What agents say that their nodes can do: they look at the kernel when they start.
fn features(facts: &Facts) -> Vec<Finding> {
    let Seen::Known(reports) = &facts.reports else { return Vec::new() };
    if reports.is_empty() {
        return vec![Finding::ok("no agent has reported yet what its node can do; each does with its first operation")];
    }
    let lacking = |feature: &str| -> Vec<&str> {
        let lacks = |known: &[String]| !known.iter().any(|each| each.eq_ignore_ascii_case(feature));
        reports.iter().filter(|(_, report)| lacks(&report.features)).map(|(node, _)| node.as_str()).collect()
    };
    let mut found = Vec::new();
    for (feature, why) in [
        (
            "hold",
            "new connections of their pods can't be held in the kernel: a workload with a single pod refuses connections while it is replaced",
        ),
        ("drain", "no companion pod runs there, and pods of CollaSets do not leave service for good"),
        (Hook::FEATURE, "pods with hooks are not operated there"),
    ] {
        let nodes = lacking(feature);
        if !nodes.is_empty() {
            found.push(Finding::warning(
                format!("agents without the feature {feature}: {}", listed(&nodes)),
                why,
                format!(
                    "update DaemonSet hitless-agent (kubectl apply -k manifests); what the kernel does not have its log says: kubectl -n \
                     {} logs -l app.kubernetes.io/name=hitless-agent --tail=-1",
                    names::system_namespace()
                ),
            ));
        }
    }
    let versions: BTreeSet<&str> = reports.values().map(|report| report.version.as_str()).collect();
    if versions.len() > 1 {
        let versions = versions.into_iter().collect::<Vec<_>>().join(", ");
        found.push(Finding::warning(
            format!("agents report different versions: {versions}"),
            "a report is written with an operation, so it may be that of the agent before",
            format!("nothing, unless it stays so after an operation on each node; then: {}", rollout_status()),
        ));
    }
    if found.is_empty() {
        let have = if reports.len() == 1 { "has" } else { "have" };
        let agents = count(reports.len(), "agent");
        found.push(Finding::ok(format!("{agents} {have} reported all features that are asked for")));
    }
    found
}

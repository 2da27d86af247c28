//! What the facts mean for hitless itself: whether it is there, whole, and able to work. Pure.

use std::collections::BTreeSet;

use hitless_api::{
    DrainPolicy, Hook, NodeTransition, PodTransitionRule, TrafficProvider, TransitionBudget, TransitionLedger, names,
};
use hitless_rollout::guard::Guards;
use hitless_workloads::KINDS;
use jiff::Timestamp;
use kube::CustomResourceExt;
use serde::Serialize;

use super::facts::{AgentPod, Facts, NodeFacts, Program, Seen};
use super::surroundings;
use crate::output;
use crate::status::span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Ok,
    Warning,
    Error,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub(crate) level: Level,
    pub(crate) what: String,
    /// What follows from that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) to_do: String,
}

impl Finding {
    pub(super) fn ok(what: impl Into<String>) -> Self {
        Self { level: Level::Ok, what: what.into(), why: String::new(), to_do: String::new() }
    }

    pub(super) fn warning(what: impl Into<String>, why: impl Into<String>, to_do: impl Into<String>) -> Self {
        Self { level: Level::Warning, what: what.into(), why: why.into(), to_do: to_do.into() }
    }

    pub(super) fn error(what: impl Into<String>, why: impl Into<String>, to_do: impl Into<String>) -> Self {
        Self { level: Level::Error, ..Self::warning(what, why, to_do) }
    }
}

const INSTALL: &str = "install it again: kubectl apply -k manifests";
const FIRST_SERVER: (u32, u32) = (1, 36);
const GATE: &str = "hitless-gate";
const GATE_BINDINGS: [&str; 2] = ["hitless-gate-pods", "hitless-gate-namespaces"];
/// An agent that began so short a time ago may have replaced one that has failed.
const YOUNG_SECONDS: i64 = 60;
/// Most names in one sentence.
const NAMED: usize = 5;

/// Every finding, in the order in which it is read.
pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let own = [server(facts), definitions(facts), guard(facts), gate(facts), controller(facts)];
    let mut all: Vec<Finding> = own.into_iter().flatten().collect();
    all.extend(rights(facts));
    all.extend(agents(facts));
    all.extend(features(facts));
    all.extend(surroundings::findings(facts));
    all.extend(facts.kuperator.iter().map(|there| {
        Finding::warning(
            there.to_string(),
            "its kinds are left to it, and hitless does nothing for them",
            "docs/migration.md says how to change over",
        )
    }));
    all.extend(unread(facts));
    all
}

// Of what may not be read nothing is said in these: one line at the end names it all.

fn server(facts: &Facts) -> Option<Finding> {
    let (major, minor, version) = facts.server.known()?;
    let can_hold = (*major, *minor) >= FIRST_SERVER;
    Some(if !can_hold && facts.guards.known().is_none_or(|guards| !refuses(guards)) {
        Finding::error(
            format!("the API server is {version}"),
            "mutating admission policies are served from Kubernetes 1.36 on; without them no workload is held, and its changes roll natively",
            "upgrade the cluster to 1.36 or later, or let such changes be refused: kubectl apply -k overlays/refusing",
        )
    } else {
        Finding::ok(format!("API server {version}, kubectl-hitless {}", facts.client))
    })
}

fn definitions(facts: &Facts) -> Option<Finding> {
    let there = facts.definitions.known()?;
    let needed = [
        NodeTransition::crd_name(),
        TransitionLedger::crd_name(),
        TransitionBudget::crd_name(),
        DrainPolicy::crd_name(),
        TrafficProvider::crd_name(),
        PodTransitionRule::crd_name(),
    ];
    let missing = missing(there, needed);
    Some(if missing.is_empty() {
        Finding::ok("all definitions are there")
    } else {
        Finding::error(
            format!("definitions are missing: {}", missing.join(", ")),
            "controller and agents can neither store what is to be done nor what was done",
            INSTALL,
        )
    })
}

fn missing<'n>(there: &BTreeSet<String>, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    names.into_iter().filter(|name| !there.contains(*name)).collect()
}

/// Whether changes that nobody holds are refused, and nothing holds them.
fn refuses(guards: &Guards) -> bool {
    let mut all = KINDS.iter().filter_map(|kind| kind.guard());
    all.all(|guard| !guards.policies.contains(guard.holds) && guards.policies.contains(guard.refuses))
}

fn guard(facts: &Facts) -> Option<Finding> {
    let guards = facts.guards.known()?;
    let missing: Vec<String> = KINDS.iter().filter_map(|kind| guards.missing(*kind)).collect();
    if !missing.is_empty() {
        return Some(Finding::error(
            format!("the guard is not whole: {}", missing.join("; ")),
            "a change of a workload that opted in is not held: its native controller rolls it at once, and requests are lost",
            INSTALL,
        ));
    }
    Some(if refuses(guards) {
        Finding::ok(
            "the guard is there: changes of workloads that opted in are refused unless they are held in the same write, as kubectl hitless \
             set image and undo do",
        )
    } else {
        Finding::ok("the guard is there: changes of workloads that opted in are held")
    })
}

fn gate(facts: &Facts) -> Option<Finding> {
    let guards = facts.guards.known()?;
    if refuses(guards) {
        return Some(Finding::warning(
            "nothing gives new pods the readiness gate",
            "pods without hitless.dev/InService can be held and never leave service",
            "name it in the templates: readinessGates: [{conditionType: hitless.dev/InService}]",
        ));
    }
    let policies = missing(&guards.policies, [GATE]);
    let names: Vec<&str> = policies.into_iter().chain(missing(&guards.bindings, GATE_BINDINGS)).collect();
    Some(if names.is_empty() {
        Finding::ok("new pods get the readiness gate where they or their namespace have hitless.dev/gate: enabled")
    } else {
        Finding::error(
            format!("the policy of the readiness gate is not whole: {} is missing", names.join(", ")),
            "pods are made without hitless.dev/InService, so they can be held and never leave service",
            INSTALL,
        )
    })
}

fn controller(facts: &Facts) -> Option<Finding> {
    let look = "kubectl -n hitless-system describe deployment hitless-controller";
    Some(match facts.controller.known()? {
        None => Finding::error(
            "Deployment hitless-controller is not there",
            "nothing is granted: held workloads wait",
            INSTALL,
        ),
        Some(Program { wanted: 0, .. }) => Finding::error(
            "the controller is scaled to 0",
            "nothing is granted: held workloads wait",
            "kubectl -n hitless-system scale deployment hitless-controller --replicas=2",
        ),
        Some(Program { ready: 0, .. }) => Finding::error(
            "no controller is Ready",
            "nothing is granted: held workloads wait",
            format!("see why: {look}"),
        ),
        Some(Program { ready, wanted, image }) if ready < wanted => Finding::warning(
            format!("{ready} of {wanted} controllers are Ready ({image})"),
            "if that one fails nobody takes over",
            format!("see why: {look}"),
        ),
        Some(Program { ready, wanted, image }) => {
            Finding::ok(format!("{ready} of {wanted} controllers are Ready ({image})"))
        }
    })
}

/// Without its binding a program runs, is Ready, and can do nothing.
fn rights(facts: &Facts) -> impl Iterator<Item = Finding> {
    let missing = [names::CONTROLLER, names::AGENT].into_iter().filter(|name| {
        let bindings = facts.bindings.known();
        bindings.is_some_and(|bindings| !bindings.contains(*name))
    });
    missing.map(|name| {
        let what = format!("ClusterRoleBinding {name} is not there");
        Finding::error(what, "its program runs and has no rights, so nothing is done", INSTALL)
    })
}

fn agents(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    if facts.agent == Seen::Known(None) {
        let why = "nothing is done to any pod";
        return vec![Finding::error("DaemonSet hitless-agent is not there", why, INSTALL)];
    }
    let (Seen::Known(nodes), Seen::Known(agents)) = (&facts.nodes, &facts.agents) else { return found };
    let ready: BTreeSet<&str> = agents.iter().filter(|agent| agent.ready).map(|agent| agent.node.as_str()).collect();
    let (linux, others): (Vec<&NodeFacts>, Vec<&NodeFacts>) =
        nodes.iter().filter(|node| node.is_real).partition(|node| node.os == "linux");
    let without: Vec<&str> = linux.iter().map(|node| node.name.as_str()).filter(|name| !ready.contains(name)).collect();
    found.push(if without.is_empty() {
        Finding::ok(format!("an agent is Ready on each of {} nodes{}", linux.len(), ages(agents, facts.now)))
    } else {
        Finding::error(
            format!("{} of {} nodes have no Ready agent: {}", without.len(), linux.len(), names(&without)),
            "pods of these nodes are not operated, and new pods with the readiness gate wait 30 s for the controller to let them serve",
            "see why: kubectl -n hitless-system get pods -o wide -l app.kubernetes.io/name=hitless-agent",
        )
    });
    if !others.is_empty() {
        let others: Vec<&str> = others.iter().map(|node| node.name.as_str()).collect();
        let what = format!("nodes that do not run Linux: {}", names(&others));
        found.push(Finding::warning(what, "their pods are never operated", ""));
    }
    let young: Vec<&str> = agents
        .iter()
        .filter(|agent| agent.ready && agent.since.is_some_and(|since| age(since, facts.now) < YOUNG_SECONDS))
        .map(|agent| agent.node.as_str())
        .collect();
    if !young.is_empty() {
        found.push(Finding::warning(
            format!("agents are Ready for less than a minute: {}", names(&young)),
            "they may have been restarted, or their update is under way",
            "kubectl -n hitless-system rollout status daemonset hitless-agent",
        ));
    }
    let images: BTreeSet<&str> = agents.iter().map(|agent| agent.image.as_str()).collect();
    if images.len() > 1 {
        found.push(Finding::warning(
            format!("agents run different images: {}", images.into_iter().collect::<Vec<_>>().join(", ")),
            "an operation that only the later one can do waits for the nodes of the earlier one",
            "kubectl -n hitless-system rollout status daemonset hitless-agent",
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

fn names(all: &[&str]) -> String {
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
                format!("agents without the feature {feature}: {}", names(&nodes)),
                why,
                "update the DaemonSet hitless-agent; see its log for what the kernel does not have",
            ));
        }
    }
    let versions: BTreeSet<&str> = reports.values().map(|report| report.version.as_str()).collect();
    if versions.len() > 1 {
        let versions = versions.into_iter().collect::<Vec<_>>().join(", ");
        found.push(Finding::warning(
            format!("agents report different versions: {versions}"),
            "a report is written with an operation, so it may be that of the agent before",
            "",
        ));
    }
    if found.is_empty() {
        found.push(Finding::ok(format!("{} agents have reported all features that are asked for", reports.len())));
    }
    found
}

/// One line for everything that may not be read.
fn unread(facts: &Facts) -> Option<Finding> {
    fn why<T>(seen: &Seen<T>) -> Option<&str> {
        match seen {
            Seen::Known(_) => None,
            Seen::Unread(why) => Some(why),
        }
    }
    let all = [
        ("the API server's version", why(&facts.server)),
        ("definitions", why(&facts.definitions)),
        ("admission policies and their bindings", why(&facts.guards)),
        ("the controller's Deployment", why(&facts.controller)),
        ("our programs' ClusterRoleBindings", why(&facts.bindings)),
        ("the agents' DaemonSet", why(&facts.agent)),
        ("nodes", why(&facts.nodes)),
        ("the agents' pods", why(&facts.agents)),
        ("NodeTransitions", why(&facts.reports)),
        ("DaemonSets and Deployments of all namespaces", why(&facts.programs)),
        ("runtime classes", why(&facts.runtime_classes)),
    ];
    let all: Vec<(&str, &str)> = all.into_iter().filter_map(|(what, why)| Some((what, why?))).collect();
    let (_, first) = all.first()?;
    let names: Vec<&str> = all.iter().map(|(what, _)| *what).collect();
    Some(Finding::warning(
        format!("{} could not be read: {first}", names.join(", ")),
        "nothing is known of them, good or bad",
        "ask for the ClusterRole hitless-view in the whole cluster, or let an administrator look",
    ))
}

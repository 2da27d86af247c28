//! Rules that can never pass: the gate itself is asked about the best day there can be, on which every pod is available and
//! nobody is being operated.

use std::collections::{BTreeMap, BTreeSet};

use hitless_gate::{Approvals, Candidate, Denies, Gate, GateInput, PodFacts, RuleVerdict, Settings, selector};
use hitless_rollout::round::{wants_all, words as in_words};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::finding::Finding;
use super::object::{LimitObject, Limits};
use super::pods::{MANY, Pods};
use crate::output::names;

/// Most pods of one workload that are tried.
const MOST: u32 = 5000;

/// Most workloads that are named in a sentence.
const NAMED: usize = 3;

/// `said`: what was found before. What it says of a rule is not said again. `is_live`: the pods of the cluster are known, too.
pub(super) fn check(
    known: &[LimitObject<'_>],
    pods: &[Pods],
    is_live: bool,
    said: &[Finding],
    now: Timestamp,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for each in known {
        // One that can't be understood has been named already, with what is wrong.
        if is_faulty(each) {
            continue;
        }
        let selected: Vec<&Pods> = pods.iter().filter(|pods| selects(each, pods)).collect();
        let reachable = pods.iter().any(|pods| each.is_cluster_wide() || pods.namespace == each.object.namespace());
        if selected.is_empty() && reachable {
            let text = if is_live {
                "selects none of the pods of the files and of the cluster, so it limits nobody; correct spec.selector"
            } else {
                "selects none of the pods that are known here, so it limits nobody; correct spec.selector, or check it \
                 together with the workload (or with --live)"
            };
            found.push(Finding::warning(each.object, each.object.node.line_of(&["spec", "selector"]), text));
        }
        let hopeless = hopeless(each, &selected, now).into_iter().filter(|(rule, _)| !each.is_said(rule, said));
        found.extend(hopeless.map(|(rule, Hopeless { of, because, beside_companion })| {
            if beside_companion {
                let text = format!(
                    "rule {rule}: lets pods of {} go only one at a time, while a companion pod serves for each; where none may run, \
                     never: {because}",
                    names(&of, NAMED)
                );
                return Finding::warning(each.object, each.line_of_rule(&rule), text);
            }
            let text = match of.split_first() {
                Some((first, [])) => {
                    format!("rule {rule}: never lets a pod of {first} go, even if all are available: {because}")
                }
                Some((first, others)) => format!(
                    "rule {rule}: never lets a pod of {first} (nor of {}) go, even if all are available: {because}",
                    names(others, NAMED)
                ),
                None => format!("rule {rule}: never lets a pod go: {because}"),
            };
            Finding::error(each.object, each.line_of_rule(&rule), text)
        }));
    }
    found
}

fn is_faulty(known: &LimitObject<'_>) -> bool {
    match &known.limits {
        Limits::Rules(set) => !set.faults().is_empty(),
        Limits::Budget(budget) => !budget.faults().is_empty(),
        Limits::Disruption(budget) => !budget.faults().is_empty(),
    }
}

pub(super) fn selects(known: &LimitObject<'_>, pods: &Pods) -> bool {
    (known.is_cluster_wide() || pods.namespace == known.object.namespace())
        && known.selector().is_some_and(|wanted| selector::limits(wanted, &pods.labels))
}

/// A rule that denies although nothing is in use.
struct Hopeless {
    /// The workloads that were tried.
    of: Vec<String>,
    /// The gate's words about the first of them.
    because: String,
    /// They are all of Deployments, and a companion pod that serves for one of their pods would make room for it.
    beside_companion: bool,
}

/// Those of them, by their names.
fn hopeless(known: &LimitObject<'_>, selected: &[&Pods], now: Timestamp) -> BTreeMap<String, Hopeless> {
    let everybody;
    let (limits, tried): (Limits, Vec<&Pods>) = if selected.is_empty() {
        let namespace = known.object.namespace().to_owned();
        everybody = Pods { namespace, labels: BTreeMap::new(), count: MANY, is_assumed: true, of: String::new() };
        (known.for_everybody(), vec![&everybody])
    } else {
        (known.limits.clone(), selected.to_vec())
    };
    let gate = gate(&[&limits], &tried);
    let is_assumed = tried.iter().any(|pods| pods.is_assumed);
    let mut found = BTreeMap::<String, Hopeless>::new();
    for (index, pods) in tried.iter().enumerate().filter(|(_, pods)| pods.count > 0) {
        let verdicts = gate.decide(&[Candidate::new(uid(index, 0))], &Approvals::new(), now);
        let denied = verdicts.iter().flat_map(hitless_gate::Verdict::denied);
        for rule in denied.filter(|rule| never_passes(rule, selected, is_assumed)) {
            let name = rule.rule_name().trim_start_matches("pdb:").to_owned();
            let because = || words(rule, &limits, selected, is_assumed);
            let new = || Hopeless { of: Vec::new(), because: because(), beside_companion: true };
            let known = found.entry(name).or_insert_with(new);
            known.beside_companion &= wants_all(rule) && pods.of.starts_with("Deployment/");
            known.of.extend(Some(pods.of.clone()).filter(|of| !of.is_empty()));
        }
    }
    found
}

/// Whether the rule stays as it is although everybody is back. Labels may still be set, approvers may still agree, and times
/// come.
fn never_passes(rule: &RuleVerdict, selected: &[&Pods], is_assumed: bool) -> bool {
    match rule.denies() {
        // More than all that are assumed may be there.
        Some(Denies::MinAvailable { quota, total, .. }) if is_assumed => quota == total,
        Some(
            Denies::MaxUnavailable { .. }
            | Denies::MinAvailable { .. }
            | Denies::MaxConcurrent { .. }
            | Denies::TooManyFailures { .. }
            | Denies::MaxUnavailableDomains { .. },
        ) => true,
        // No node is known here; only one that lets nobody go on any number of nodes is certain.
        Some(Denies::MaxUnavailableNodes { quota, total, .. }) => *quota == 0 && (*total > 1 || selected.is_empty()),
        Some(Denies::PerNodeMinAvailable { fewest, .. }) => {
            most_on_a_node(selected).is_some_and(|most| *fewest >= most)
        }
        None | Some(_) => false,
    }
}

/// Most pods that can be on one node, if they are known.
fn most_on_a_node(selected: &[&Pods]) -> Option<u64> {
    let on_one = |pods: &&Pods| if pods.of.starts_with("DaemonSet/") { 1 } else { u64::from(pods.count) };
    (!selected.is_empty()).then(|| selected.iter().map(on_one).sum())
}

/// The gate's words and advice; a percentage that rounded to nothing is named.
fn words(rule: &RuleVerdict, limits: &Limits, selected: &[&Pods], is_assumed: bool) -> String {
    if let Some(words) = rule.denies().and_then(without_numbers).filter(|_| is_assumed) {
        return words.to_owned();
    }
    let spec = match limits {
        Limits::Budget(budget) => Some(&budget.spec),
        Limits::Rules(_) | Limits::Disruption(_) => None,
    };
    let rounded = match rule.denies() {
        Some(Denies::MaxUnavailable { quota: 0, total, .. }) => {
            Some((spec.and_then(|spec| spec.max_unavailable.as_ref()), *total, "pods"))
        }
        Some(Denies::MaxUnavailableNodes { quota: 0, total, .. }) if !selected.is_empty() => {
            Some((spec.and_then(|spec| spec.max_unavailable_nodes.as_ref()), *total, "nodes"))
        }
        _ => None,
    };
    if let Some((Some(IntOrString::String(percent)), total, what)) = rounded
        && percent != "0%"
    {
        return format!("{percent} of {total} {what} rounds down to 0; use a count, or a higher percentage");
    }
    if let (Some(Denies::PerNodeMinAvailable { fewest, .. }), Some(most)) = (rule.denies(), most_on_a_node(selected)) {
        return format!(
            "at least {fewest} must stay on each node, and no node has more than {most}; lower it below {most}, or add pods"
        );
    }
    let advice = rule.unblock().map(|unblock| format!("; {unblock}")).unwrap_or_default();
    // The advice says what the words end with, and by how much.
    let because = in_words(rule, false);
    format!("{}{advice}", because.split_once("; so no").map_or(because.as_str(), |(because, _)| because))
}

/// What it says where the number of pods is only assumed; `None`: its own words do not name that number.
pub(super) const fn without_numbers(because: &Denies) -> Option<&'static str> {
    match because {
        Denies::MaxUnavailable { .. } => Some(
            "no pod may be unavailable; raise the maximum to at least 1: as it is, no available pod can ever be updated",
        ),
        Denies::MinAvailable { .. } => {
            Some("all pods have to be available; lower the minimum, so that one of them may be away")
        }
        Denies::MaxUnavailableNodes { .. } => {
            Some("no node may have an unavailable pod; raise maxUnavailableNodes to 1 at least")
        }
        _ => None,
    }
}

pub(super) fn uid(group: usize, number: u32) -> String {
    format!("{group}-{number}")
}

/// A gate with these limits, and all of the pods available. Each pod of a workload stands on a node of its own.
pub(super) fn gate(limits: &[&Limits], pods: &[&Pods]) -> Gate {
    let (mut rule_sets, mut budgets, mut disruption_budgets) = (Vec::new(), Vec::new(), Vec::new());
    for limits in limits {
        match limits {
            Limits::Rules(set) => rule_sets.push(set.clone()),
            Limits::Budget(budget) => budgets.push(budget.clone()),
            Limits::Disruption(budget) => disruption_budgets.push(budget.clone()),
        }
    }
    let facts: Vec<PodFacts> = pods.iter().enumerate().flat_map(|(group, pods)| facts(group, pods)).collect();
    Gate::of(&GateInput {
        pods: &facts,
        owners: &BTreeMap::new(),
        nodes: &BTreeMap::new(),
        rule_sets: &rule_sets,
        budgets: &budgets,
        disruption_budgets: &disruption_budgets,
        reserved: &BTreeMap::new(),
        failed: &BTreeSet::new(),
        approvals: &Approvals::new(),
        settings: &Settings { implicit: None, ..Settings::default() },
    })
}

fn facts(group: usize, pods: &Pods) -> impl Iterator<Item = PodFacts> {
    (0..pods.count.min(MOST)).map(move |number| PodFacts {
        uid: uid(group, number),
        namespace: pods.namespace.clone(),
        name: format!("{}-{number}", pods.of),
        labels: pods.labels.clone(),
        node: Some(format!("node-{number}")),
        owner: None,
        available: true,
        leaving: false,
        unavailable_since: None,
        returned_at: None,
    })
}

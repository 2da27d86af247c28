//! What several objects say against each other.

use std::collections::{BTreeMap, BTreeSet};

use hitless_gate::{Allows, Approvals, Candidate, Denies, Reason};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::finding::Finding;
use super::never::{gate, selects, uid};
use super::object::{LimitObject, Limits};
use super::pods::Pods;
use crate::files::Object;
use crate::output;

/// Times at which windows open that are looked at; two a day are more than a year.
const OPENINGS: usize = 800;
/// Most workloads that are named in a sentence.
const NAMED: usize = 3;

/// Objects of one kind and name: the later one would replace the earlier one.
pub(super) fn duplicates(objects: &[Object]) -> Vec<Finding> {
    let mut seen: BTreeMap<(&str, &str, &str, &str), &Object> = BTreeMap::new();
    let mut found = Vec::new();
    for object in objects.iter().filter(|object| !object.name().is_empty()) {
        let key = (object.group(), object.kind(), object.namespace(), object.name());
        if let Some(first) = seen.insert(key, object) {
            let text = format!(
                "has the name of the one at {}:{} and would replace it; rename one",
                first.file, first.node.line
            );
            found.push(Finding::error(object, object.node.line, text));
        }
    }
    found
}

/// Contradictions between limits of the same pods. Each workload is looked at with all that select it; without any workload
/// each object is looked at alone.
pub(super) fn check(known: &[LimitObject<'_>], pods: &[Pods], now: Timestamp) -> Vec<Finding> {
    let mut found = Vec::new();
    for each in known {
        found.extend(no_time(&[each], None, now));
        found.extend(no_label(&[each], None));
    }
    for pods in pods {
        let all: Vec<&LimitObject<'_>> = known.iter().filter(|known| selects(known, pods)).collect();
        if all.len() > 1 {
            found.extend(no_time(&all, Some(pods), now));
            found.extend(no_label(&all, Some(pods)));
            found.extend(no_room(&all, pods, now));
        }
    }
    once(found)
}

/// A contradiction for the pods of one workload, or for all.
struct Clash {
    /// Its text ends before the workload.
    finding: Finding,
    of: Option<String>,
    /// What to do.
    advice: String,
}

impl Clash {
    fn new(known: &LimitObject<'_>, rule: &str, text: String, of: Option<&Pods>, advice: impl Into<String>) -> Self {
        let finding = Finding::error(known.object, known.line_of_rule(rule), text);
        Self { finding, of: of.map(|pods| pods.of.clone()), advice: advice.into() }
    }
}

/// Each contradiction once, with the workloads of whose pods it is true.
fn once(all: Vec<Clash>) -> Vec<Finding> {
    let mut found: BTreeMap<Finding, (Vec<String>, String)> = BTreeMap::new();
    for Clash { finding, of, advice } in all {
        let (workloads, _) = found.entry(finding).or_insert_with(|| (Vec::new(), advice));
        workloads.extend(of);
    }
    let said = found.into_iter().map(|(finding, (workloads, advice))| {
        let on = if workloads.is_empty() {
            String::new()
        } else {
            format!(" for pods of {}", output::names(&workloads, NAMED))
        };
        let text = format!("{}{}; {}", finding.text, output::one_line(&on), output::one_line(&advice));
        Finding { text, ..finding }
    });
    said.collect()
}

fn names(known: &[&LimitObject<'_>]) -> String {
    let names: Vec<String> =
        known.iter().map(|each| format!("{}/{}", each.object.kind(), each.object.name())).collect();
    names.join(" and ")
}

/// Windows and blackouts that leave no instant.
fn no_time(known: &[&LimitObject<'_>], pods: Option<&Pods>, now: Timestamp) -> Option<Clash> {
    let timed: Vec<&LimitObject<'_>> = known
        .iter()
        .copied()
        .filter(|each| match &each.limits {
            Limits::Budget(budget) => {
                budget.faults().is_empty() && !(budget.spec.windows.is_empty() && budget.spec.blackouts.is_empty())
            }
            Limits::Rules(_) | Limits::Disruption(_) => false,
        })
        .collect();
    // One alone is looked at once, not for each workload.
    let (first, _) = timed.split_first().filter(|(_, rest)| pods.is_none() || !rest.is_empty())?;
    let limits: Vec<Limits> = timed.iter().map(|each| each.for_everybody()).collect();
    let namespace = pods.map_or(first.object.namespace(), |pods| &pods.namespace).to_owned();
    let somebody = Pods { namespace, labels: BTreeMap::new(), count: 1, is_assumed: false, of: String::new() };
    let gate = gate(&limits.iter().collect::<Vec<_>>(), &[&somebody]);
    let mut at = now;
    for _ in 0..OPENINGS {
        let verdicts = gate.decide(&[Candidate::new(uid(0, 0))], &Approvals::new(), at);
        let closed: Vec<_> = verdicts
            .iter()
            .flat_map(hitless_gate::Verdict::denied)
            .filter(|rule| matches!(rule.denies(), Some(Denies::OutsideWindow { .. } | Denies::Blackout { .. })))
            .collect();
        if closed.is_empty() {
            return None;
        }
        // Before the last of these times at least one of them is closed.
        let next = closed.iter().map(|rule| rule.changes_at()).collect::<Option<Vec<_>>>();
        match next.and_then(|times| times.into_iter().max()).filter(|next| *next > at) {
            Some(next) if next.duration_since(now) < SignedDuration::from_hours(24 * 366) => at = next,
            _ => break,
        }
    }
    let text = format!("the windows and blackouts of {} leave no time within a year", names(&timed));
    Some(Clash::new(first, "windows", text, pods, "open another window, or end a blackout"))
}

/// Two rules that ask for different values of one label.
fn no_label(known: &[&LimitObject<'_>], pods: Option<&Pods>) -> Vec<Clash> {
    let mut wanted: Vec<(&LimitObject<'_>, &str, &LabelSelector)> = Vec::new();
    for each in known {
        let Limits::Rules(set) = &each.limits else { continue };
        // A rule with a filter or conditions may be for other pods.
        let checks = set.spec.rules.iter().filter(|rule| {
            !rule.disabled && rule.filter.is_none() && rule.conditions.is_empty() && rule.available_policy.is_none()
        });
        wanted.extend(checks.filter_map(|rule| {
            let requires = rule.label_check.as_ref()?.requires.as_ref()?;
            Some((*each, rule.name.as_str(), requires))
        }));
    }
    let mut found = Vec::new();
    for (index, (known, rule, requires)) in wanted.iter().enumerate() {
        for (other, other_rule, other_requires) in &wanted[..index] {
            let within_one = known.object.node.line == other.object.node.line && known.object.file == other.object.file;
            if within_one != pods.is_none() {
                continue;
            }
            if let Some(label) = clash(requires, other_requires) {
                let text = format!(
                    "rule {rule}: asks for another value of label {label} than rule {other_rule} of {}, so no pod passes both",
                    names(&[*other])
                );
                found.push(Clash::new(known, rule, text, pods, "change one"));
            }
        }
    }
    found
}

/// A label of which no value satisfies both.
fn clash(one: &LabelSelector, other: &LabelSelector) -> Option<String> {
    let allowed = |selector: &LabelSelector| -> BTreeMap<String, BTreeSet<String>> {
        let exact = selector.match_labels.iter().flatten();
        let exact = exact.map(|(key, value)| (key.clone(), BTreeSet::from([value.clone()])));
        let listed = selector.match_expressions.iter().flatten().filter(|each| each.operator == "In");
        let listed = listed.map(|each| (each.key.clone(), each.values.iter().flatten().cloned().collect()));
        exact.chain(listed).collect()
    };
    let absent = |selector: &LabelSelector| -> BTreeSet<String> {
        let absent = selector.match_expressions.iter().flatten().filter(|each| each.operator == "DoesNotExist");
        absent.map(|each| each.key.clone()).collect()
    };
    let present = |selector: &LabelSelector| -> BTreeSet<String> {
        let present = selector.match_expressions.iter().flatten().filter(|each| each.operator == "Exists");
        present.map(|each| each.key.clone()).chain(allowed(selector).into_keys()).collect()
    };
    let values = allowed(other);
    let differing =
        allowed(one).into_iter().find(|(key, mine)| values.get(key).is_some_and(|theirs| mine.is_disjoint(theirs)));
    let gone = || {
        let (mine, theirs) = (present(one), present(other));
        let lost = absent(one).into_iter().find(|key| theirs.contains(key));
        lost.or_else(|| absent(other).into_iter().find(|key| mine.contains(key)))
    };
    differing.map(|(key, _)| key).or_else(gone)
}

/// One limit lets some go at a time, another keeps so many that none may: whoever wrote the first meant otherwise.
fn no_room(known: &[&LimitObject<'_>], pods: &Pods, now: Timestamp) -> Option<Clash> {
    let limits: Vec<Limits> = known.iter().map(|each| each.limits.clone()).collect();
    let gate = gate(&limits.iter().collect::<Vec<_>>(), &[pods]);
    let verdict = gate.decide(&[Candidate::new(uid(0, 0))], &Approvals::new(), now).into_iter().next()?;
    let room = verdict.rules.iter().find(|rule| match rule.because {
        Reason::Allows(Allows::WithinBudget { max_unavailable, .. }) => max_unavailable.is_some_and(|max| max > 0),
        _ => false,
    })?;
    let none = verdict.denied().find(|rule| matches!(rule.denies(), Some(Denies::MinAvailable { .. })))?;
    let named = |rule: &str| {
        known.iter().copied().find(|each| match &each.limits {
            Limits::Rules(set) => rule.starts_with(&format!("{}/", set.name)),
            Limits::Budget(budget) => rule.contains(&format!("{}/", budget.name)) && rule.starts_with("budget:"),
            Limits::Disruption(budget) => rule == format!("pdb:{}", budget.name),
        })
    };
    let keeper = named(&none.rule)?;
    let text = format!("{} leaves no room for what {} allows", none.rule, room.rule);
    let advice = if pods.is_assumed {
        "lower the minimum, so that one of them may be away".to_owned()
    } else {
        none.unblock().unwrap_or_default()
    };
    Some(Clash::new(keeper, none.rule_name(), text, Some(pods), advice))
}

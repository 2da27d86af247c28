//! One round: every candidate in a fixed order, against the room that the earlier ones left.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;

use crate::limit::Limits;
use crate::room::Room;
use crate::rule::{Check, Rule};
use crate::verdict::{IMPLICIT, LEDGER, POD};
use crate::{
    Because, Candidate, Decision, GateInput, ImplicitBudget, OwnerKey, PodFacts, RuleSet, RuleVerdict, Verdict,
    selector,
};

/// Decides all candidates together and returns one verdict for each, in the order in which they were decided: pods that are
/// unavailable anyway first (they cost nothing, and may be broken in a way that the operation mends), then the higher priority,
/// then namespace and name.
///
/// A candidate that is listed twice is decided once. `now` is for rules about time; none of the kinds that are evaluated so far
/// reads it.
#[must_use]
pub fn decide(input: &GateInput<'_>, candidates: &[Candidate], _now: Timestamp) -> Vec<Verdict> {
    let pods: BTreeMap<&str, &PodFacts> = input.pods.iter().rev().map(|pod| (pod.uid.as_str(), pod)).collect();
    let (known, gone) = in_order(&pods, candidates);
    let mut round = Round::open(input, &pods, &known);
    known.into_iter().map(|pod| round.decide(pod)).chain(gone.into_iter().map(no_such_pod)).collect()
}

fn in_order<'a>(
    pods: &BTreeMap<&str, &'a PodFacts>,
    candidates: &'a [Candidate],
) -> (Vec<&'a PodFacts>, BTreeSet<&'a str>) {
    let mut priorities: BTreeMap<&str, i32> = BTreeMap::new();
    for candidate in candidates {
        let priority = priorities.entry(candidate.pod_uid.as_str()).or_insert(candidate.priority);
        *priority = candidate.priority.max(*priority);
    }
    let gone = priorities.keys().copied().filter(|uid| !pods.contains_key(uid)).collect();
    let mut known: Vec<_> =
        priorities.into_iter().filter_map(|(uid, priority)| Some((*pods.get(uid)?, priority))).collect();
    known.sort_by_key(|(pod, priority)| (pod.available, Reverse(*priority), &pod.namespace, &pod.name, &pod.uid));
    (known.into_iter().map(|(pod, _)| pod).collect(), gone)
}

fn no_such_pod(uid: &str) -> Verdict {
    Verdict {
        pod_uid: uid.to_owned(),
        pod: String::new(),
        namespace: String::new(),
        allowed: false,
        rules: vec![says(POD, Decision::Denied, Because::NoSuchPod)],
    }
}

fn says(rule: &str, verdict: Decision, because: Because) -> RuleVerdict {
    RuleVerdict { rule: rule.to_owned(), verdict, because }
}

/// A PodTransitionRule that concerns a candidate.
struct OpenSet<'a> {
    rules: Vec<Rule<'a>>,
    room: Room,
}

/// Pods of one namespace with the same labels: selectors are evaluated once for all of them.
type Classes<'a> = HashMap<(&'a str, &'a BTreeMap<String, String>), Class<'a>>;

#[derive(Default)]
struct Class<'a> {
    pods: Vec<&'a PodFacts>,
    /// Indices of the open sets that select it.
    sets: Vec<usize>,
}

struct Round<'a> {
    reserved: &'a BTreeSet<String>,
    implicit: Option<ImplicitBudget>,
    classes: Classes<'a>,
    sets: Vec<OpenSet<'a>>,
    /// Rooms of the owners that have a candidate.
    owners: BTreeMap<&'a OwnerKey, Room>,
}

impl<'a> Round<'a> {
    fn open(input: &GateInput<'a>, pods: &BTreeMap<&str, &'a PodFacts>, candidates: &[&'a PodFacts]) -> Self {
        let free = |pod: &'a PodFacts| (pod, pod.available && !input.reserved.contains(&pod.uid));
        let mut classes = Classes::new();
        let mut live: BTreeMap<&OwnerKey, u64> = BTreeMap::new();
        for pod in pods.values() {
            classes.entry((pod.namespace.as_str(), &pod.labels)).or_default().pods.push(pod);
            if let Some(owner) = &pod.owner {
                *live.entry(owner).or_default() += 1;
            }
        }
        let wishing: BTreeSet<_> = candidates.iter().map(|pod| (pod.namespace.as_str(), &pod.labels)).collect();

        let mut rule_sets: Vec<&'a RuleSet> = input.rule_sets.iter().collect();
        rule_sets.sort_by_key(|set| (&set.namespace, &set.name));
        let mut sets = Vec::new();
        for set in rule_sets {
            let Some(selector) = &set.spec.selector else { continue };
            let selects = |(namespace, labels): &(&str, &BTreeMap<String, String>)| {
                *namespace == set.namespace && selector::matches(selector, labels)
            };
            if !wishing.iter().any(selects) {
                continue;
            }
            let mut members = Vec::new();
            for class in classes.iter_mut().filter(|(key, _)| selects(key)).map(|(_, class)| class) {
                class.sets.push(sets.len());
                members.extend(class.pods.iter().copied().map(free));
            }
            sets.push(OpenSet {
                rules: set.spec.rules.iter().map(|rule| Rule::read(&set.name, rule)).collect(),
                room: Room::count(members.into_iter(), &live, input.owners),
            });
        }

        let wishing: BTreeSet<&OwnerKey> = candidates.iter().filter_map(|pod| pod.owner.as_ref()).collect();
        let mut members: BTreeMap<&OwnerKey, Vec<_>> = BTreeMap::new();
        for pod in pods.values() {
            if let Some(owner) = pod.owner.as_ref().filter(|owner| wishing.contains(owner)) {
                members.entry(owner).or_default().push(free(pod));
            }
        }
        let owners = members
            .into_iter()
            .map(|(owner, members)| (owner, Room::count(members.into_iter(), &live, input.owners)))
            .collect();
        Self { reserved: input.reserved, implicit: input.implicit, classes, sets, owners }
    }

    fn decide(&mut self, pod: &'a PodFacts) -> Verdict {
        let rules = if self.reserved.contains(&pod.uid) {
            vec![says(LEDGER, Decision::Allowed, Because::AlreadyReserved)]
        } else {
            self.ask(pod)
        };
        let allowed = rules.iter().all(|rule| rule.verdict == Decision::Allowed);
        if allowed && pod.available && !self.reserved.contains(&pod.uid) {
            self.take(pod);
        }
        Verdict { pod_uid: pod.uid.clone(), pod: pod.name.clone(), namespace: pod.namespace.clone(), allowed, rules }
    }

    fn sets_of(&self, pod: &'a PodFacts) -> &[usize] {
        self.classes.get(&(pod.namespace.as_str(), &pod.labels)).map_or(&[], |class| &class.sets)
    }

    /// Asks every rule, also after a denial, so that a user sees all that is in the way at once. Nothing is taken yet.
    fn ask(&self, pod: &'a PodFacts) -> Vec<RuleVerdict> {
        let sets = self.sets_of(pod);
        if sets.is_empty() {
            return self.ask_implicit(pod).into_iter().collect();
        }
        let open = sets.iter().filter_map(|index| self.sets.get(*index));
        open.flat_map(|set| set.rules.iter().map(|rule| (rule, set.room)))
            .map(|(rule, room)| {
                let (verdict, because) = match rule.check(pod) {
                    Check::Pass(because) => (Decision::Allowed, because),
                    Check::Deny(because) => (Decision::Denied, because),
                    Check::Labels(requires) if selector::matches(requires, &pod.labels) => {
                        (Decision::Allowed, Because::LabelsMatch)
                    }
                    Check::Labels(requires) => {
                        (Decision::Denied, Because::LabelsDiffer { requires: selector::text(requires) })
                    }
                    Check::Availability(limits) => ask_room(room, limits, pod),
                };
                says(&rule.path, verdict, because)
            })
            .collect()
    }

    fn ask_implicit(&self, pod: &'a PodFacts) -> Option<RuleVerdict> {
        let budget = self.implicit?;
        // A pod without an owner has nobody to stand in for it: it is a group of its own.
        let room = match &pod.owner {
            Some(owner) => self.owners.get(owner).copied().unwrap_or_default(),
            None => Room::count(std::iter::once((pod, pod.available)), &BTreeMap::new(), &BTreeMap::new()),
        };
        let (verdict, because) = ask_room(room, room.implicit_limits(budget.percent), pod);
        Some(says(IMPLICIT, verdict, because))
    }

    /// Takes one place in every budget that the pod counts in.
    fn take(&mut self, pod: &'a PodFacts) {
        let sets: Vec<usize> = self.sets_of(pod).to_vec();
        for index in sets {
            if let Some(set) = self.sets.get_mut(index) {
                set.room.take_one();
            }
        }
        if let Some(room) = pod.owner.as_ref().and_then(|owner| self.owners.get_mut(owner)) {
            room.take_one();
        }
    }
}

fn ask_room(room: Room, limits: Limits, pod: &PodFacts) -> (Decision, Because) {
    if !pod.available {
        return (Decision::Allowed, Because::AlreadyUnavailable);
    }
    match room.admits(limits) {
        Ok(because) => (Decision::Allowed, because),
        Err(because) => (Decision::Denied, because),
    }
}

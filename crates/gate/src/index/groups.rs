//! Groups of pods that share a budget, and their counters.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use slab::Slab;

use super::interner::{Interner, Symbol};
use super::labels::Labels;
use super::owners::Owner;
use super::pods::{LabelClass, PodState};
use super::{Gate, Pod, Selector, id};
use crate::policy::{Policy, Source};
use crate::selector::Selector as Understood;

/// How many pods of a group are there and available, per uid and never twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Base of percentages: what owners desire, and pods without an owner.
    pub(crate) total: u64,
    /// Wanted by an owner and not there.
    pub(crate) missing: u64,
    /// Listed, and not available (for long enough) or reserved.
    pub(crate) unavailable: u64,
    /// Available (for long enough) and not reserved.
    pub(crate) available: u64,
    /// Reserved.
    pub(crate) reserved: u64,
    /// Whose last operation has failed.
    pub(crate) failed: u64,
    /// With the new version, not available (for long enough) and not reserved.
    pub(crate) unverified: u64,
    /// In `total`, and neither available nor unavailable nor reserved: [`Group::aside_of`], and lost ones.
    pub(crate) aside: u64,
}

impl Counts {
    pub(super) fn with_owner(&mut self, base: u64, missing: u64) {
        self.total += base;
        self.missing += missing;
    }

    pub(super) fn without_owner(&mut self, base: u64, missing: u64) {
        self.total -= base;
        self.missing -= missing;
    }

    /// Unavailable at the moment, missing pods included.
    pub(crate) fn gone(&self) -> u64 {
        self.unavailable + self.missing
    }
}

/// Pods of a group on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeCount {
    pub(crate) available: u64,
    pub(crate) unavailable: u64,
}

/// Pods that share a budget.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Namespace of the pods; `None`: all.
    pub(crate) scope: Option<Symbol>,
    selector: Selector,
    pub(crate) policy: Policy,
    pub(crate) counts: Counts,
    /// Members by owner.
    pub(super) members: BTreeMap<u32, u64>,
    /// Members that are not available or reserved.
    pub(crate) down: BTreeSet<u32>,
    /// Members by node, where the policy asks for it.
    pub(crate) nodes: HashMap<Symbol, NodeCount>,
    /// Those of these nodes with a member that is not available or is reserved.
    pub(crate) down_on: HashSet<Symbol>,
    /// When operations brought members back, with the number of these, where the policy asks for it.
    returns: BTreeMap<Timestamp, u32>,
    /// Members by namespace that count for pods of that namespace only.
    aside: HashMap<Symbol, u64>,
}

impl Group {
    pub(super) fn new(scope: Option<Symbol>, selector: Selector, policy: Policy) -> Self {
        Self {
            scope,
            selector,
            policy,
            counts: Counts::default(),
            members: BTreeMap::new(),
            down: BTreeSet::new(),
            nodes: HashMap::new(),
            down_on: HashSet::new(),
            returns: BTreeMap::new(),
            aside: HashMap::new(),
        }
    }

    /// Members that pods of this namespace find unavailable and reserved, and pods of other namespaces do not find at all: in a budget of
    /// the whole cluster one namespace can't hold for ever what all others need (docs/contract.md#podopslifecycle).
    pub(crate) fn aside_of(&self, namespace: Symbol) -> u64 {
        self.aside.get(&namespace).copied().unwrap_or_default()
    }

    fn is_aside(&self, state: PodState) -> bool {
        self.scope.is_none() && state.overdue && state.reserved
    }

    /// Where nobody has written that it counts.
    fn is_lost(&self, state: PodState) -> bool {
        self.policy.source.is_none() && state.is_lost()
    }

    /// The last time that an operation brought a member back, where the policy asks for it.
    pub(crate) fn returned_at(&self) -> Option<Timestamp> {
        self.returns.last_key_value().map(|(last, _)| *last)
    }

    pub(super) fn release(&self, symbols: &mut Interner) {
        self.selector.release(symbols);
        if let Some(scope) = self.scope {
            symbols.release(scope);
        }
    }

    pub(super) fn add(&mut self, known: u32, (namespace, node): (Symbol, Option<Symbol>), state: PodState) {
        self.counts.failed += u64::from(state.failed);
        if self.is_lost(state) {
            self.counts.aside += 1;
            return;
        }
        if self.is_aside(state) {
            self.counts.aside += 1;
            *self.aside.entry(namespace).or_default() += 1;
            return;
        }
        if state.counts_available() {
            self.counts.available += 1;
        } else {
            self.counts.unavailable += 1;
            self.down.insert(known);
        }
        self.counts.reserved += u64::from(state.reserved);
        self.counts.unverified += u64::from(state.is_unverified());
        if let Some(node) = node.filter(|_| self.policy.counts_nodes) {
            let count = self.nodes.entry(node).or_default();
            if state.counts_available() {
                count.available += 1;
            } else {
                count.unavailable += 1;
                self.down_on.insert(node);
            }
        }
        if let Some(at) = state.returned_at().filter(|_| self.policy.counts_returns) {
            *self.returns.entry(at).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, known: u32, (namespace, node): (Symbol, Option<Symbol>), state: PodState) {
        self.counts.failed -= u64::from(state.failed);
        if self.is_lost(state) {
            self.counts.aside -= 1;
            return;
        }
        if self.is_aside(state) {
            self.counts.aside -= 1;
            if let Some(count) = self.aside.get_mut(&namespace) {
                *count -= 1;
                if *count == 0 {
                    self.aside.remove(&namespace);
                }
            }
            return;
        }
        if state.counts_available() {
            self.counts.available -= 1;
        } else {
            self.counts.unavailable -= 1;
            self.down.remove(&known);
        }
        self.counts.reserved -= u64::from(state.reserved);
        self.counts.unverified -= u64::from(state.is_unverified());
        if let Some(node) = node.filter(|_| self.policy.counts_nodes)
            && let Some(count) = self.nodes.get_mut(&node)
        {
            if state.counts_available() {
                count.available -= 1;
            } else {
                count.unavailable -= 1;
            }
            if count.unavailable == 0 {
                self.down_on.remove(&node);
            }
            if *count == NodeCount::default() {
                self.nodes.remove(&node);
            }
        }
        if let Some(at) = state.returned_at().filter(|_| self.policy.counts_returns)
            && let Some(count) = self.returns.get_mut(&at)
        {
            *count -= 1;
            if *count == 0 {
                self.returns.remove(&at);
            }
        }
    }
}

/// Adds, or takes away, what the owner brings to the base of each group that counts pods of it.
pub(super) fn each_base(groups: &mut Slab<Group>, owner: &Owner, known: u32, change: impl Fn(&mut Counts, u64, u64)) {
    for group in &owner.groups {
        let Some(group) = groups.get_mut(*group as usize) else { continue };
        let (base, missing) = owner.adds(group.members.get(&known).copied().unwrap_or_default());
        change(&mut group.counts, base, missing);
    }
}

impl Gate {
    /// Whether a selector that is not one of the groups' selects the pods of a class.
    pub(crate) fn selects(&self, wanted: &Understood<'_>, class: &LabelClass) -> bool {
        let text = |symbol| self.symbols.text(symbol);
        let get = |key: &str| {
            class.labels.pairs().iter().find(|(known, _)| text(*known) == key).map(|(_, value)| text(*value))
        };
        wanted.matches_by(get)
    }

    /// Counts a pod in (or, with `add` false, out of) each of its groups.
    pub(super) fn count(&mut self, known: u32, add: bool) {
        let Some(pod) = self.pods.get(known as usize) else { return };
        let Some(class) = self.classes.get(pod.class as usize) else { return };
        let own = pod.owner().and_then(|owner| self.owners.get(owner as usize)).map(|owner| owner.group);
        for group in class.groups.iter().copied().chain(own) {
            count_in((&mut self.groups, group), &mut self.owners, known, (class.namespace, pod), add);
        }
    }

    /// The groups that select pods with these labels, in the order in which they are asked.
    pub(super) fn selecting(&self, namespace: Symbol, labels: &Labels) -> Vec<u32> {
        let mut selecting = Vec::new();
        for scope in [Some(namespace), None] {
            let listed = labels.pairs().iter().filter_map(|pair| self.by_label.get(&(scope, *pair))).flatten();
            let listed = listed.chain(self.by_namespace.get(&scope).into_iter().flatten());
            selecting.extend(
                listed.copied().filter(|known| {
                    self.groups.get(*known as usize).is_some_and(|group| group.selector.matches(labels))
                }),
            );
        }
        self.in_order(&mut selecting);
        selecting
    }

    fn in_order(&self, groups: &mut [u32]) {
        let source = |known: &u32| self.groups.get(*known as usize).and_then(|group| group.policy.source.as_ref());
        groups.sort_by(|a, b| source(a).cmp(&source(b)));
    }

    /// A budget is new or has changed. While only its policy changes its counters stay.
    pub(super) fn set_group(
        &mut self,
        source: Source,
        namespace: Option<&str>,
        selector: Option<&LabelSelector>,
        policy: Policy,
    ) {
        let scope = namespace.map(|namespace| self.symbols.intern(namespace));
        let selector = Selector::of_limit(&mut self.symbols, selector);
        let group = Group::new(scope, selector, policy);
        if let Some(known) = self.by_source.get(&source).copied()
            && let Some(old) = self.groups.get_mut(known as usize)
            && old.scope == group.scope
            && old.selector == group.selector
            && old.policy.counts_nodes == group.policy.counts_nodes
            && old.policy.counts_returns == group.policy.counts_returns
        {
            old.policy = group.policy.clone();
            group.release(&mut self.symbols);
            return;
        }
        self.remove_group(&source);
        let (scope, key) = (group.scope, group.selector.key());
        let known = id(self.groups.insert(group));
        self.by_source.insert(source, known);
        match key {
            Some(pair) => self.by_label.entry((scope, pair)).or_default().push(known),
            None => self.by_namespace.entry(scope).or_default().push(known),
        }
        for class in self.classes_in(scope) {
            let selects =
                |group: &Group| self.classes.get(class as usize).is_some_and(|c| group.selector.matches(&c.labels));
            if !self.groups.get(known as usize).is_some_and(selects) {
                continue;
            }
            let Some(mut groups) = self.classes.get(class as usize).map(|class| class.groups.to_vec()) else {
                continue;
            };
            groups.push(known);
            self.in_order(&mut groups);
            if let Some(class) = self.classes.get_mut(class as usize) {
                class.groups = groups.into();
            }
            self.count_class(class, known, true);
        }
    }

    pub(super) fn remove_group(&mut self, source: &Source) {
        let Some(known) = self.by_source.remove(source) else { return };
        let Some(scope) = self.groups.get(known as usize).map(|group| group.scope) else { return };
        for class in self.classes_in(scope) {
            let Some(groups) = self.classes.get_mut(class as usize).map(|class| &mut class.groups) else { continue };
            if groups.contains(&known) {
                *groups = groups.iter().copied().filter(|group| *group != known).collect();
                self.count_class(class, known, false);
            }
        }
        let group = self.groups.remove(known as usize);
        let without = |listed: &mut Vec<u32>| {
            listed.retain(|other| *other != known);
            listed.is_empty()
        };
        match group.selector.key() {
            Some(pair) => {
                if self.by_label.get_mut(&(scope, pair)).is_some_and(without) {
                    self.by_label.remove(&(scope, pair));
                }
            }
            None => {
                if self.by_namespace.get_mut(&scope).is_some_and(without) {
                    self.by_namespace.remove(&scope);
                }
            }
        }
        group.release(&mut self.symbols);
    }

    fn classes_in(&self, scope: Option<Symbol>) -> Vec<u32> {
        match scope {
            Some(namespace) => self.classes_of.get(&namespace).into_iter().flatten().copied().collect(),
            None => self.classes.iter().map(|(known, _)| id(known)).collect(),
        }
    }

    fn count_class(&mut self, class: u32, group: u32, add: bool) {
        let Some(class) = self.classes.get(class as usize) else { return };
        let namespace = class.namespace;
        let members: Vec<u32> = self.members(class).map(|(known, _)| known).collect();
        for known in members {
            if let Some(pod) = self.pods.get(known as usize) {
                count_in((&mut self.groups, group), &mut self.owners, known, (namespace, pod), add);
            }
        }
    }
}

fn count_in(
    (groups, id): (&mut Slab<Group>, u32),
    owners: &mut Slab<Owner>,
    known: u32,
    (namespace, pod): (Symbol, &Pod),
    add: bool,
) {
    let Some(group) = groups.get_mut(id as usize) else { return };
    match pod.owner().and_then(|owner| Some((owner, owners.get_mut(owner as usize)?))) {
        Some((owner, facts)) => {
            let before = group.members.get(&owner).copied();
            if let Some((base, missing)) = before.map(|members| facts.adds(members)) {
                group.counts.without_owner(base, missing);
            }
            let members = before.unwrap_or_default();
            let members = if add { members + 1 } else { members - 1 };
            // The owner's own group stays when its last pod goes: the owner may want others.
            if members == 0 && facts.group != id {
                group.members.remove(&owner);
                facts.groups.retain(|other| *other != id);
            } else {
                if group.members.insert(owner, members).is_none() {
                    facts.groups.push(id);
                }
                let (base, missing) = facts.adds(members);
                group.counts.with_owner(base, missing);
            }
        }
        None if add => group.counts.total += 1,
        None => group.counts.total -= 1,
    }
    if add {
        group.add(known, (namespace, pod.node), pod.state());
    } else {
        group.remove(known, (namespace, pod.node), pod.state());
    }
}

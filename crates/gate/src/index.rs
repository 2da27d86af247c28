//! Every pod and every budget, with counters that follow each change: an event costs what the budgets of its pod cost, not what
//! the cluster costs.

mod compact;
mod groups;
mod interner;
mod labels;
mod owners;
mod pods;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use groups::{Counts, Group};
pub(crate) use interner::Symbol;
pub(crate) use labels::Selector;
pub(crate) use pods::Pod;

pub(crate) use compact::Uid;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};
use hitless_api::ObjectRef;
use slab::Slab;

use crate::facts::{Budget, DisruptionBudget, GateInput, OwnerFacts, PodFacts, Reserved, RuleSet};
use crate::policy::{Policy, Source};
use crate::settings::Settings;
use interner::Interner;
use labels::Labels;
pub(crate) use owners::OwnLimit;
use owners::Owner;
use pods::LabelClass;

/// Index into one of the tables. They never hold as many as four thousand million entries.
pub(crate) fn id(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// A label.
type Pair = (Symbol, Symbol);

/// What the gate knows. Everything in it can be told again at any time; a gate that was told step by step answers as one that was
/// told all at once.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    pub(crate) settings: Settings,
    pub(crate) symbols: Interner,
    pub(crate) pods: Slab<Pod>,
    uids: HashTable<u32>,
    hasher: DefaultHashBuilder,
    pub(crate) classes: Slab<LabelClass>,
    class_ids: HashTable<u32>,
    classes_of: HashMap<Symbol, BTreeSet<u32>>,
    pub(crate) groups: Slab<Group>,
    pub(crate) by_source: BTreeMap<Source, u32>,
    /// Groups by the namespace (or none) and one label of what they select.
    by_label: HashMap<(Option<Symbol>, Pair), Vec<u32>>,
    /// Groups that ask for no label in particular.
    by_namespace: HashMap<Option<Symbol>, Vec<u32>>,
    pub(crate) owners: Slab<Owner>,
    owner_ids: HashTable<u32>,
    nodes: HashMap<Symbol, Labels>,
    reserved: HashMap<Uid, Reserved>,
    failed: HashSet<Uid>,
    recently_ready: HashSet<Uid>,
    updated: HashSet<Uid>,
    overdue: HashSet<Uid>,
    lost: HashSet<Uid>,
}

impl Gate {
    /// An empty gate.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// A gate that has been told all of `input`.
    #[must_use]
    pub fn of(input: &GateInput<'_>) -> Self {
        let mut gate = Self::new(input.settings.clone());
        for set in input.rule_sets {
            gate.set_rule_set(set);
        }
        for budget in input.budgets {
            gate.set_budget(budget);
        }
        for budget in input.disruption_budgets {
            gate.set_disruption_budget(budget);
        }
        for (node, labels) in input.nodes {
            gate.set_node(node, labels);
        }
        for (owner, facts) in input.owners {
            gate.set_owner(owner, Some(*facts));
        }
        gate.set_reserved(input.reserved.clone());
        gate.set_failed(input.failed);
        // Of two pods with one uid the first counts.
        for pod in input.pods.iter().rev() {
            gate.upsert_pod(pod);
        }
        gate
    }

    /// Labels of a node, for topologies.
    pub fn set_node<T: AsRef<str>>(&mut self, node: &str, labels: impl IntoIterator<Item = (T, T)>) {
        let labels = Labels::intern(&mut self.symbols, labels);
        self.remove_node(node);
        let node = self.symbols.intern(node);
        self.nodes.insert(node, labels);
    }

    /// The node is gone.
    pub fn remove_node(&mut self, node: &str) {
        let Some(node) = self.symbols.find(node) else { return };
        let Some(labels) = self.nodes.remove(&node) else { return };
        labels.release(&mut self.symbols);
        self.symbols.release(node);
    }

    /// Value of a node's label.
    pub(crate) fn node_label(&self, node: Symbol, key: &str) -> Option<&str> {
        let value = self.nodes.get(&node)?.get(self.symbols.find(key)?)?;
        Some(self.symbols.text(value))
    }

    /// Nodes are known, and none of them has that label.
    #[must_use]
    pub fn is_unknown_node_label(&self, key: &str) -> bool {
        let has = |symbol| self.nodes.values().any(|labels| labels.get(symbol).is_some());
        !self.nodes.is_empty() && !self.symbols.find(key).is_some_and(has)
    }

    /// A PodTransitionRule is new or has changed.
    pub fn set_rule_set(&mut self, set: &RuleSet) {
        let source = Source::RuleSet(set.namespace.clone(), set.name.clone());
        let policy = Policy::of_rule_set(set, &self.settings.skipped_kinds);
        self.set_group(source, Some(&set.namespace), set.spec.selector.as_ref(), policy);
    }

    /// A PodTransitionRule is gone.
    pub fn remove_rule_set(&mut self, namespace: &str, name: &str) {
        self.remove_group(&Source::RuleSet(namespace.to_owned(), name.to_owned()));
    }

    /// A TransitionBudget is new or has changed.
    pub fn set_budget(&mut self, budget: &Budget) {
        let source = Source::Budget(budget.namespace.clone(), budget.name.clone());
        let scope = (!budget.is_cluster_wide()).then_some(budget.namespace.as_str());
        self.set_group(source, scope, budget.spec.selector.as_ref(), Policy::of_budget(budget));
    }

    /// A TransitionBudget is gone.
    pub fn remove_budget(&mut self, namespace: &str, name: &str) {
        self.remove_group(&Source::Budget(namespace.to_owned(), name.to_owned()));
    }

    /// A PodDisruptionBudget is new or has changed.
    pub fn set_disruption_budget(&mut self, budget: &DisruptionBudget) {
        let source = Source::Disruption(budget.namespace.clone(), budget.name.clone());
        let policy = Policy::of_disruption_budget(budget);
        self.set_group(source, Some(&budget.namespace), budget.selector.as_ref(), policy);
    }

    /// A PodDisruptionBudget is gone.
    pub fn remove_disruption_budget(&mut self, namespace: &str, name: &str) {
        self.remove_group(&Source::Disruption(namespace.to_owned(), name.to_owned()));
    }

    /// How many pods a workload is meant to have; `None`: nobody knows, so it counts with those that are listed.
    pub fn set_owner(&mut self, owner: &ObjectRef, facts: Option<OwnerFacts>) {
        let desired = facts.map(|facts| facts.desired);
        let limit = facts.and_then(|facts| {
            Some(OwnLimit { most: facts.max_unavailable?, counts_extra_pods: facts.counts_extra_pods })
        });
        if desired.is_none() && self.known_owner(owner).is_none() {
            return;
        }
        let id = self.owner_id(owner);
        self.with_owner(id, |owner| (owner.desired, owner.limit) = (desired, limit));
        self.drop_owner_if_unused(id);
    }

    /// All reservations in ledgers, by pod uid. A reservation of a pod that is not known counts once the pod is.
    pub fn set_reserved(&mut self, held: BTreeMap<String, Reserved>) {
        let held: HashMap<Uid, Reserved> =
            held.into_iter().map(|(uid, reservation)| (Uid::of(&uid).kept(), reservation)).collect();
        let old = std::mem::replace(&mut self.reserved, held);
        let gone = old.keys().filter(|uid| !self.reserved.contains_key(*uid));
        let new = self.reserved.keys().filter(|uid| !old.contains_key(*uid));
        let changed: Vec<Uid> = gone.chain(new).cloned().collect();
        self.recount_all(&changed);
    }

    /// The pod's reservation in a ledger, if it has one.
    pub(crate) fn reservation_of(&self, pod: &Pod) -> Option<&Reserved> {
        self.reserved.get(&pod.uid)
    }

    /// uids of all pods whose last operation has failed and not been superseded.
    pub fn set_failed(&mut self, failed: &BTreeSet<String>) {
        let changed = exchange(&mut self.failed, failed.iter().map(String::as_str));
        self.recount_all(&changed);
    }

    /// uids of all pods that are available, but not for as long as their workload wants before they count so (`minReadySeconds`), or that
    /// wait for a hook of their workload. To others they are unavailable; each is itself judged as the available pod that it is.
    pub fn set_recently_ready<'u>(&mut self, recently_ready: impl IntoIterator<Item = &'u str>) {
        let changed = exchange(&mut self.recently_ready, recently_ready);
        self.recount_all(&changed);
    }

    /// uids of all pods that have the version that their workload is being brought to, or are between two. Those of them that are not
    /// available count as unverified.
    pub fn set_updated<'u>(&mut self, updated: impl IntoIterator<Item = &'u str>) {
        let changed = exchange(&mut self.updated, updated);
        self.recount_all(&changed);
    }

    /// uids of all pods that others have operated for too long. In budgets of the whole cluster they count for pods of their own
    /// namespace only.
    pub fn set_overdue<'u>(&mut self, overdue: impl IntoIterator<Item = &'u str>) {
        let changed = exchange(&mut self.overdue, overdue);
        self.recount_all(&changed);
    }

    /// uids of all pods on nodes that are away for too long to be waited for. Unless they are available they count where somebody has
    /// written a rule or a PodDisruptionBudget, and not in the budgets that pods have by themselves: nothing that can't come back holds up
    /// the others.
    pub fn set_lost<'u>(&mut self, lost: impl IntoIterator<Item = &'u str>) {
        let changed = exchange(&mut self.lost, lost);
        self.recount_all(&changed);
    }

    fn recount_all(&mut self, uids: &[Uid]) {
        for uid in uids {
            self.recount(uid);
        }
    }

    /// Counts a pod anew after what is known of it elsewhere has changed.
    fn recount(&mut self, uid: &Uid) {
        let Some(known) = self.pod_id_of(&uid.borrowed()) else { return };
        let (held, failed) = (self.reserved.contains_key(uid), self.failed.contains(uid));
        let (recently_ready, updated) = (self.recently_ready.contains(uid), self.updated.contains(uid));
        let (overdue, lost) = (self.overdue.contains(uid), self.lost.contains(uid));
        self.change_state(known, |state| {
            state.reserved = held;
            state.failed = failed;
            state.recently_ready = recently_ready;
            state.updated = updated;
            state.overdue = overdue;
            state.lost = lost;
        });
    }

    /// How many failed operations a rollout of this pod bears before it halts: what the budgets that select it say, else one.
    #[must_use]
    pub fn tolerated_failures(&self, uid: &str) -> u32 {
        let Some(pod) = self.pod(uid) else { return 1 };
        let said = self.groups_of(pod).filter_map(|(_, group)| group.policy.max_failures).min();
        said.unwrap_or(1)
    }

    /// Whether a budget for the whole cluster counts this pod, so that it needs a reservation in the cluster's ledger too.
    #[must_use]
    pub fn counts_cluster_wide(&self, uid: &str) -> bool {
        self.pod(uid).is_some_and(|pod| self.groups_of(pod).any(|(_, group)| group.scope.is_none()))
    }

    /// How many pods a PodTransitionRule selects; 0 if it is not known.
    #[must_use]
    pub fn selected_by_rule_set(&self, namespace: &str, name: &str) -> u64 {
        self.selected(&Source::RuleSet(namespace.to_owned(), name.to_owned()))
    }

    /// How many pods a TransitionBudget selects; 0 if it is not known.
    #[must_use]
    pub fn selected_by_budget(&self, namespace: &str, name: &str) -> u64 {
        self.selected(&Source::Budget(namespace.to_owned(), name.to_owned()))
    }

    fn selected(&self, source: &Source) -> u64 {
        let group = self.by_source.get(source).and_then(|id| self.groups.get(*id as usize));
        group.map_or(0, |group| group.counts.unavailable + group.counts.available + group.counts.aside)
    }

    /// Number of pods that are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether no pod is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// A pod is new or has changed.
    pub fn upsert_pod(&mut self, facts: &PodFacts) {
        pods::upsert(self, facts);
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, uid: &str) {
        pods::remove(self, uid);
    }
}

/// `known` has these uids from now on. Those that it did not have, or has no more.
fn exchange<'u>(known: &mut HashSet<Uid>, uids: impl IntoIterator<Item = &'u str>) -> Vec<Uid> {
    let next: HashSet<Uid> = uids.into_iter().map(|uid| Uid::of(uid).kept()).collect();
    let changed = known.symmetric_difference(&next).cloned().collect();
    *known = next;
    changed
}

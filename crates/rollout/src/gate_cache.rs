//! The gate, kept from round to round: of each snapshot it is told only what differs from the one before.
//!
//! Nothing is remembered that the snapshot does not say; a cache that starts anew answers the same.

mod crowds;
mod owners;
mod replaced;
mod spec_faults;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hitless_api::event::EventNote;
use hitless_api::pod::PodView;
use hitless_gate::{Budget, DisruptionBudget, Gate, PodFacts, Reserved, RuleSet, Settings};
use hitless_workloads::World;

use crate::snapshot::{NodeView, RuleView, Snapshot};
use owners::TopOwners;
use spec_faults::SpecFaults;

/// Namespace and name.
type Key = (String, String);

/// A gate that follows snapshots.
#[derive(Default)]
pub struct GateCache {
    gate: Gate,
    pods: HashSet<ByUid>,
    owners: TopOwners,
    nodes: BTreeMap<String, Arc<NodeView>>,
    rules: BTreeMap<Key, Arc<RuleView>>,
    budgets: BTreeMap<Key, Arc<Budget>>,
    disruption_budgets: BTreeMap<Key, Arc<DisruptionBudget>>,
    faults: SpecFaults,
}

/// A pod, found by its uid.
struct ByUid(Arc<PodView>);

impl Borrow<str> for ByUid {
    fn borrow(&self) -> &str {
        &self.0.id.uid
    }
}

impl Hash for ByUid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.uid.hash(state);
    }
}

impl PartialEq for ByUid {
    fn eq(&self, other: &Self) -> bool {
        self.0.id.uid == other.0.id.uid
    }
}

impl Eq for ByUid {}

/// A gate that still has the reservations and failures of an earlier round, so it can't be asked yet.
pub(crate) struct Synced<'g> {
    gate: &'g mut Gate,
    faults: &'g SpecFaults,
    budgets: &'g BTreeMap<Key, Arc<Budget>>,
}

impl<'g> Synced<'g> {
    /// Tells it of pods whose operation was judged bad, of those that are not Ready for long enough, of those that have the version
    /// that their workload is being brought to, of those that others have operated for too long, of those on nodes that are lost, and
    /// of those that are reserved, all by uid.
    pub(crate) fn tell<'u>(
        self,
        failed: &BTreeSet<String>,
        recently_ready: impl IntoIterator<Item = &'u str>,
        updated: impl IntoIterator<Item = &'u str>,
        overdue: impl IntoIterator<Item = &'u str>,
        lost: impl IntoIterator<Item = &'u str>,
        held: BTreeMap<String, Reserved>,
    ) -> &'g Gate {
        self.gate.set_failed(failed);
        self.gate.set_recently_ready(recently_ready);
        self.gate.set_updated(updated);
        self.gate.set_overdue(overdue);
        self.gate.set_lost(lost);
        self.gate.set_reserved(held);
        self.gate
    }

    /// What the authors of rules and budgets should mend.
    pub(crate) fn faults(&self) -> Vec<EventNote> {
        self.faults.notes(self.gate, self.budgets)
    }
}

impl GateCache {
    /// A cache that has seen nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { gate: Gate::new(settings), ..Self::default() }
    }

    /// The gate, told of everything in `snapshot` but reservations, failures and approvals, which the round itself moves.
    pub(crate) fn sync(&mut self, snapshot: &Snapshot, world: &World<'_>) -> Synced<'_> {
        self.rules(snapshot);
        self.nodes(snapshot);
        let moved = self.owners.sync(snapshot, world, &mut self.gate);
        self.pods(snapshot, world, &moved);
        Synced { gate: &mut self.gate, faults: &self.faults, budgets: &self.budgets }
    }

    /// Pods that have finished for good, or are being deleted and have been replaced, take nothing from a budget and give nothing.
    fn pods(&mut self, snapshot: &Snapshot, world: &World<'_>, moved: &BTreeSet<String>) {
        let replaced = replaced::replaced(snapshot, world);
        let counts = |pod: &&Arc<PodView>| !(pod.finished || pod.terminating && replaced.contains(pod.id.uid.as_str()));
        let mut listed = 0;
        for pod in snapshot.pods.iter().filter(counts) {
            listed += 1;
            let has_moved = || pod.owner.as_ref().is_some_and(|owner| moved.contains(&owner.uid));
            let known = self.pods.get(pod.id.uid.as_str());
            if known.is_some_and(|known| Arc::ptr_eq(&known.0, pod)) && (moved.is_empty() || !has_moved()) {
                continue;
            }
            self.gate.upsert_pod(&PodFacts::of(pod, world.top(pod).cloned()));
            self.pods.replace(ByUid(pod.clone()));
        }
        if self.pods.len() > listed {
            let here: HashSet<&str> = snapshot.pods.iter().filter(counts).map(|pod| pod.id.uid.as_str()).collect();
            let gate = &mut self.gate;
            self.pods.retain(|known| {
                let stays = here.contains(known.0.id.uid.as_str());
                if !stays {
                    gate.remove_pod(&known.0.id.uid);
                }
                stays
            });
        }
    }

    fn nodes(&mut self, snapshot: &Snapshot) {
        let gate = &mut self.gate;
        follow(&mut self.nodes, snapshot.nodes.clone(), |name, node| match node {
            Some(node) => gate.set_node(name, node.labels.clone()),
            None => gate.remove_node(name),
        });
    }

    fn rules(&mut self, snapshot: &Snapshot) {
        let (gate, faults) = (&mut self.gate, &mut self.faults);
        let rules = crowds::rules(&snapshot.rules, &self.rules);
        follow(&mut self.rules, rules, |key, rule| {
            if let Some(rule) = rule {
                let set = RuleSet::from(rule);
                gate.set_rule_set(&set);
                faults.set_rule(key, &rule.version.uid, &set);
            } else {
                gate.remove_rule_set(&key.0, &key.1);
                faults.remove_rule(key);
            }
        });
        let budgets = crowds::budgets(&snapshot.budgets, &self.budgets);
        follow(&mut self.budgets, budgets, |key, budget| {
            if let Some(budget) = budget {
                gate.set_budget(budget);
                faults.set_budget(key, budget);
            } else {
                gate.remove_budget(&key.0, &key.1);
                faults.remove_budget(key);
            }
        });
        let budgets =
            snapshot.disruption_budgets.iter().map(|each| ((each.namespace.clone(), each.name.clone()), each.clone()));
        follow(&mut self.disruption_budgets, budgets.collect(), |(namespace, name), budget| match budget {
            Some(budget) => gate.set_disruption_budget(budget),
            None => gate.remove_disruption_budget(namespace, name),
        });
    }
}

/// Makes `known` equal to `next` and tells of every difference; `None`: it is gone.
fn follow<K: Ord, V>(known: &mut BTreeMap<K, Arc<V>>, next: BTreeMap<K, Arc<V>>, mut tell: impl FnMut(&K, Option<&V>)) {
    for key in known.keys().filter(|key| !next.contains_key(*key)) {
        tell(key, None);
    }
    for (key, value) in &next {
        if known.get(key).is_none_or(|old| !Arc::ptr_eq(old, value)) {
            tell(key, Some(value));
        }
    }
    *known = next;
}

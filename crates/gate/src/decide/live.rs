//! A group of pods in mid-round: its counters, as those that go have left them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use crate::Because;
use crate::index::{Counts, Gate, Group, Pod, Symbol};
use crate::policy::{Bound, Limits};
use crate::verdict::{Holder, Holding};

/// Most holders that a verdict names.
const NAMED: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) counts: Counts,
    counts_nodes: bool,
    /// Nodes with an unavailable member.
    down_on: BTreeSet<Symbol>,
    /// Members taken in this round, by node.
    taken_on: HashMap<Symbol, u64>,
    /// Values of a node's label with an unavailable member; looked up when asked for.
    domains: Option<BTreeSet<String>>,
    /// Taken in this round.
    taken: Vec<u32>,
    /// The holders as they were when so many were taken.
    named: Option<(usize, Arc<[Holder]>, Option<Timestamp>)>,
}

impl Live {
    pub(super) fn of(group: &Group) -> Self {
        let down = group.nodes.iter().filter(|(_, count)| count.unavailable > 0).map(|(node, _)| *node);
        Self {
            counts: group.counts,
            counts_nodes: group.policy.counts_nodes,
            down_on: down.collect(),
            ..Self::default()
        }
    }

    /// The group of a pod that has no owner.
    pub(super) fn of_one() -> Self {
        Self { counts: Counts { total: 1, available: 1, ..Counts::default() }, ..Self::default() }
    }

    /// Whether one more available pod may go under these limits; the maximum is asked first, as upstream.
    pub(super) fn availability(&self, limits: Limits) -> Result<Because, Because> {
        let Counts { total, missing, available, .. } = self.counts;
        let unavailable = self.counts.gone();
        let max_unavailable = limits.max_unavailable.map(|limit| limit.of(total));
        let min_available = limits.min_available.map(|limit| limit.of(total));
        if let Some(quota) = max_unavailable.filter(|quota| unavailable >= *quota) {
            return Err(Because::MaxUnavailable { quota, unavailable, missing, total });
        }
        if let Some(quota) = min_available.filter(|quota| available <= *quota) {
            return Err(Because::MinAvailable { quota, available, total });
        }
        Ok(Because::WithinBudget { total, unavailable, max_unavailable, available, min_available })
    }

    pub(super) fn concurrent(&self, most: u64) -> Result<Because, Because> {
        let running = self.counts.held;
        if running < most {
            Ok(Because::FewRunning { most, running })
        } else {
            Err(Because::MaxConcurrent { most, running })
        }
    }

    pub(super) fn nodes(&self, group: &Group, pod: &Pod, bound: Bound) -> Result<Because, Because> {
        let total = group.nodes.len() as u64;
        let (quota, unavailable) = (bound.of(total), self.down_on.len() as u64);
        if pod.node.is_some_and(|node| self.down_on.contains(&node)) || unavailable < quota {
            Ok(Because::WithinNodes { quota, unavailable, total })
        } else {
            Err(Because::MaxUnavailableNodes { quota, unavailable, total })
        }
    }

    pub(super) fn topology(&mut self, gate: &Gate, pod: &Pod, key: &str, most: u64) -> Result<Because, Because> {
        let own = domain(gate, pod.node, key);
        let down_on = &self.down_on;
        let domains =
            self.domains.get_or_insert_with(|| down_on.iter().map(|node| domain(gate, Some(*node), key)).collect());
        let key = key.to_owned();
        if domains.contains(&own) || (domains.len() as u64) < most {
            Ok(Because::WithinDomains { key })
        } else {
            Err(Because::MaxUnavailableDomains { key, most, domains: domains.iter().take(NAMED).cloned().collect() })
        }
    }

    pub(super) fn per_node(&self, group: &Group, pod: &Pod, node: &str, fewest: u64) -> Result<Because, Because> {
        let taken = pod.node.and_then(|node| self.taken_on.get(&node)).copied().unwrap_or_default();
        let listed = pod.node.and_then(|node| group.nodes.get(&node)).map_or(1, |count| count.available);
        let available = listed.saturating_sub(taken);
        let node = node.to_owned();
        if available > fewest {
            Ok(Because::EnoughOnNode { node, fewest, available })
        } else {
            Err(Because::PerNodeMinAvailable { node, fewest, available })
        }
    }

    /// A member goes.
    pub(super) fn take(&mut self, id: u32, pod: &Pod) {
        self.counts.held += 1;
        self.taken.push(id);
        if !pod.is_free() {
            return;
        }
        self.counts.available = self.counts.available.saturating_sub(1);
        self.counts.unavailable += 1;
        if let Some(node) = pod.node.filter(|_| self.counts_nodes) {
            *self.taken_on.entry(node).or_default() += 1;
            if self.down_on.insert(node) {
                self.domains = None;
            }
        }
    }

    /// Some of those that hold the budget, the longest-standing first, and since when it is as full as it is.
    pub(super) fn holders(&mut self, gate: &Gate, group: &Group) -> (Arc<[Holder]>, Option<Timestamp>) {
        if let Some((taken, holders, since)) = &self.named
            && *taken == self.taken.len()
        {
            return (holders.clone(), *since);
        }
        let pod = |id: &u32| gate.pods.get(*id as usize);
        let holds = |pod: &Pod| Holder {
            pod: pod.name.to_string(),
            why: if pod.is_held() { Holding::Reserved } else { Holding::Unavailable },
            since: gate.held_since(pod).map(|held| held.since).or(pod.unavailable_since()),
        };
        let goes = |pod: &Pod| Holder { pod: pod.name.to_string(), why: Holding::GoesNow, since: None };
        let mut holders: Vec<Holder> = group.down.iter().filter_map(pod).map(holds).collect();
        let since = holders.iter().filter_map(|holder| holder.since).max();
        holders.extend(self.taken.iter().filter_map(pod).filter(|pod| pod.is_free()).map(goes));
        holders.sort_unstable_by(|a, b| {
            let rank = |each: &Holder| (each.why == Holding::GoesNow, each.since.is_none(), each.since);
            rank(a).cmp(&rank(b)).then_with(|| a.pod.cmp(&b.pod))
        });
        holders.truncate(NAMED);
        let holders: Arc<[Holder]> = holders.into();
        self.named = Some((self.taken.len(), holders.clone(), since));
        (holders, since)
    }
}

fn domain(gate: &Gate, node: Option<Symbol>, key: &str) -> String {
    node.and_then(|node| gate.node_label(node, key)).unwrap_or_default().to_owned()
}

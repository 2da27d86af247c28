//! A group of pods in mid-round: its counters, as those that go have left them.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use jiff::Timestamp;

use crate::index::{Counts, Gate, Group, Pod, Symbol};
use crate::policy::{Bound, Limits};
use crate::verdict::{BudgetConsumer, Consumption, Who};
use crate::{Allows, Denies};

/// Most holders that a verdict names.
const NAMED: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) counts: Counts,
    counts_nodes: bool,
    /// Nodes that have an unavailable member only since this round.
    newly_down_on: HashSet<Symbol>,
    /// Values of a node's label with an unavailable member, once somebody has asked for them.
    domains: Option<BTreeSet<String>>,
    /// Nodes that `domains` does not know yet.
    domains_lack: Vec<Symbol>,
    /// Whether no node has that label, once somebody has asked.
    is_unknown_label: Option<bool>,
    /// Members taken in this round, by node.
    taken_on: HashMap<Symbol, u64>,
    /// Members taken in this round that counted as down already, by node: nobody goes because they do.
    recent_on: HashMap<Symbol, u64>,
    /// Taken in this round.
    pub(super) taken: Vec<u32>,
    /// Members in trial by node, once somebody has asked, and with whether only operations under way count.
    pub(super) tries_on: HashMap<bool, HashMap<Option<Symbol>, u64>>,
    holders: HashMap<(Who, Option<Symbol>), Holders>,
}

/// Who holds a budget.
#[derive(Debug, Default)]
struct Holders {
    /// The longest-standing of those who held it when the round began.
    longest: Vec<BudgetConsumer>,
    since: Option<Timestamp>,
    /// How many were taken when the verdict's list was made.
    taken: usize,
    /// The verdict's list.
    named: Arc<[BudgetConsumer]>,
}

impl Live {
    pub(super) fn of(group: &Group) -> Self {
        Self { counts: group.counts, counts_nodes: group.policy.counts_nodes, ..Self::default() }
    }

    /// The group of a pod that has no owner.
    pub(super) fn of_one() -> Self {
        Self { counts: Counts { total: 1, available: 1, ..Counts::default() }, ..Self::default() }
    }

    /// The base of percentages, for pods of a namespace for which `own` members are set aside.
    pub(super) fn total(&self, own: u64) -> u64 {
        self.counts.total.saturating_sub(self.counts.aside.saturating_sub(own))
    }

    /// Whether one more available pod may go under these limits; the maximum is asked first, as upstream. One that is
    /// counted as unavailable does not stand in its own way. `own` members are set aside for its namespace.
    pub(super) fn availability(&self, limits: Limits, is_down: bool, own: u64) -> Result<Allows, Denies> {
        let itself = u64::from(is_down);
        let Counts { missing, available, .. } = self.counts;
        let total = self.total(own);
        let (available, unavailable) = (available + itself, (self.counts.gone() + own).saturating_sub(itself));
        let max_unavailable = limits.max_unavailable.map(|limit| limit.of(total));
        let min_available = limits.min_available.map(|limit| limit.of(total));
        let has_extra = |quota: u64| limits.counts_extra_pods && available + quota > total;
        if let Some(quota) = max_unavailable.filter(|quota| unavailable >= *quota && !has_extra(*quota)) {
            return Err(Denies::MaxUnavailable { quota, unavailable, missing, total });
        }
        if let Some(quota) = min_available.filter(|quota| available <= *quota) {
            return Err(Denies::MinAvailable { quota, available, total });
        }
        Ok(Allows::WithinBudget { total, unavailable, max_unavailable, available, min_available })
    }

    pub(super) fn concurrent(&self, most: u64, own: u64) -> Result<Allows, Denies> {
        let running = self.counts.reserved + own;
        if running < most {
            Ok(Allows::FewRunning { most, running })
        } else {
            Err(Denies::MaxConcurrent { most, running })
        }
    }

    pub(super) fn nodes(&self, group: &Group, pod: &Pod, bound: Bound) -> Result<Allows, Denies> {
        let total = group.nodes.len() as u64;
        let by_itself = self.is_down_by_itself(group, pod);
        let unavailable = group.down_on.len() + self.newly_down_on.len() - by_itself.iter().len();
        let (quota, unavailable) = (bound.of(total), unavailable as u64);
        let is_down =
            |node| by_itself != Some(node) && group.down_on.contains(&node) || self.newly_down_on.contains(&node);
        if pod.node.is_some_and(is_down) || unavailable < quota {
            Ok(Allows::WithinNodes { quota, unavailable, total })
        } else {
            Err(Denies::MaxUnavailableNodes { quota, unavailable, total })
        }
    }

    pub(super) fn topology(
        &mut self,
        (gate, group): (&Gate, &Group),
        pod: &Pod,
        key: &str,
        most: u64,
    ) -> Result<Allows, Denies> {
        let of = |node: &Symbol| domain(gate, Some(*node), key);
        let own = domain(gate, pod.node, key);
        if own.is_empty() && *self.is_unknown_label.get_or_insert_with(|| gate.is_unknown_node_label(key)) {
            return Err(Denies::NoNodeHasLabel { key: key.to_owned() });
        }
        // Not those that go in this very round: they may go because this one's domain counts as down already.
        let others_down = |itself: &Symbol| {
            let mut others =
                group.down_on.iter().filter(|node| *node != itself && self.unavailable_on(group, **node) > 0);
            others.any(|node| of(node) == own)
        };
        let by_itself = self.is_down_by_itself(group, pod).filter(|itself| !others_down(itself));
        let domains = self.domains.get_or_insert_with(|| group.down_on.iter().map(of).collect());
        domains.extend(self.domains_lack.drain(..).map(|node| of(&node)));
        let without_it: BTreeSet<String>;
        let domains = if by_itself.is_none() {
            &*domains
        } else {
            without_it = domains.iter().filter(|domain| **domain != own).cloned().collect();
            &without_it
        };
        let key = key.to_owned();
        if domains.contains(&own) || (domains.len() as u64) < most {
            Ok(Allows::WithinDomains { key })
        } else {
            let unavailable = domains.len() as u64;
            let domains = domains.iter().take(NAMED).cloned().collect();
            Err(Denies::MaxUnavailableDomains { key, most, unavailable, domains })
        }
    }

    pub(super) fn per_node(&self, group: &Group, pod: &Pod, node: &str, fewest: u64) -> Result<Allows, Denies> {
        let taken = pod.node.and_then(|node| self.taken_on.get(&node)).copied().unwrap_or_default();
        let listed = pod.node.and_then(|node| group.nodes.get(&node)).map_or(1, |count| count.available);
        let available = (listed + u64::from(pod.is_down_unreserved())).saturating_sub(taken);
        let node = node.to_owned();
        if available > fewest {
            Ok(Allows::EnoughOnNode { node, fewest, available })
        } else {
            Err(Denies::PerNodeMinAvailable { node, fewest, available })
        }
    }

    /// Its node, if that has no other unavailable member than this one.
    fn is_down_by_itself(&self, group: &Group, pod: &Pod) -> Option<Symbol> {
        let node = pod.node.filter(|_| pod.is_down_unreserved())?;
        (self.unavailable_on(group, node) <= 1 && group.down_on.contains(&node) && !self.newly_down_on.contains(&node))
            .then_some(node)
    }

    /// Unavailable members on the node, without those that go in this round and counted so already.
    fn unavailable_on(&self, group: &Group, node: Symbol) -> u64 {
        let all = group.nodes.get(&node).map_or(0, |count| count.unavailable);
        all.saturating_sub(self.recent_on.get(&node).copied().unwrap_or_default())
    }

    /// A member goes.
    pub(super) fn take(&mut self, group: &Group, id: u32, pod: &Pod) {
        self.counts.reserved += 1;
        self.counts.unverified -= u64::from(pod.is_unverified());
        self.taken.push(id);
        for (under_way_only, tries_on) in &mut self.tries_on {
            if *under_way_only || !pod.is_unverified() {
                *tries_on.entry(pod.node).or_default() += 1;
            }
        }
        if pod.is_down_unreserved()
            && let Some(node) = pod.node.filter(|_| self.counts_nodes)
        {
            *self.recent_on.entry(node).or_default() += 1;
        }
        // Who is counted as unavailable already takes nothing more.
        if !pod.is_free() || pod.is_down_unreserved() {
            return;
        }
        self.counts.available = self.counts.available.saturating_sub(1);
        self.counts.unavailable += 1;
        if let Some(node) = pod.node.filter(|_| self.counts_nodes) {
            *self.taken_on.entry(node).or_default() += 1;
            if !group.down_on.contains(&node) && self.newly_down_on.insert(node) {
                self.domains_lack.push(node);
            }
        }
    }

    /// Some of those that hold the budget, the longest-standing first, and since when it is as full as it is.
    pub(super) fn holders(
        &mut self,
        gate: &Gate,
        group: &Group,
        who: Who,
        node: Option<Symbol>,
    ) -> (Arc<[BudgetConsumer]>, Option<Timestamp>) {
        let node = node.filter(|_| who == Who::DownOnNode);
        let concerned = |pod: &Pod| who != Who::DownOnNode || pod.node == node;
        let holders = self.holders.entry((who, node)).or_insert_with(|| {
            let down = group.down.iter().filter_map(|id| gate.pods.get(*id as usize));
            let holds = |pod: &&Pod| {
                concerned(pod)
                    && match who {
                        Who::Down | Who::DownOnNode => true,
                        Who::Running => pod.is_reserved(),
                        Who::InTrial => pod.is_reserved() || pod.is_unverified(),
                    }
            };
            Holders::of(gate, down.filter(holds))
        });
        if holders.taken != self.taken.len() && holders.longest.len() < NAMED {
            let goes = self.taken.iter().filter_map(|id| gate.pods.get(*id as usize));
            let goes = goes.filter(|pod| {
                let always = matches!(who, Who::Running | Who::InTrial);
                concerned(pod) && (always || pod.is_free() && !pod.is_recently_ready())
            });
            let goes = goes.map(|pod| BudgetConsumer {
                pod: pod.name.text(&gate.symbols),
                why: Consumption::GoesNow,
                since: None,
            });
            holders.named = holders.longest.iter().cloned().chain(goes).take(NAMED).collect();
            holders.taken = self.taken.len();
        }
        (holders.named.clone(), holders.since)
    }
}

impl Holders {
    fn of<'g>(gate: &'g Gate, down: impl Iterator<Item = &'g Pod>) -> Self {
        let since = |pod: &Pod| gate.reservation_of(pod).map(|held| held.since).or(pod.unavailable_since());
        let mut down: Vec<(Option<Timestamp>, &Pod)> = down.map(|pod| (since(pod), pod)).collect();
        let full_since = down.iter().filter_map(|(since, _)| *since).max();
        let longer = |a: &(Option<Timestamp>, &Pod), b: &(Option<Timestamp>, &Pod)| {
            let by_time = (a.0.is_none(), a.0).cmp(&(b.0.is_none(), b.0));
            by_time.then_with(|| a.1.name.cmp(&b.1.name, &gate.symbols))
        };
        if down.len() > NAMED {
            down.select_nth_unstable_by(NAMED, longer);
            down.truncate(NAMED);
        }
        down.sort_unstable_by(longer);
        let holds = |(since, pod): &(Option<Timestamp>, &Pod)| BudgetConsumer {
            pod: pod.name.text(&gate.symbols),
            why: match pod {
                pod if pod.is_on_lost_node() => Consumption::Lost,
                pod if gate.reservation_of(pod).is_some_and(|held| held.is_over) => Consumption::NotBack,
                pod if pod.is_reserved() => Consumption::Reserved,
                pod if pod.is_recently_ready() => Consumption::RecentlyReady,
                pod if pod.is_leaving() => Consumption::Leaving,
                _ => Consumption::Unavailable,
            },
            since: *since,
        };
        let longest: Vec<BudgetConsumer> = down.iter().map(holds).collect();
        Self { named: longest.clone().into(), longest, since: full_since, taken: 0 }
    }
}

pub(super) fn domain(gate: &Gate, node: Option<Symbol>, key: &str) -> String {
    node.and_then(|node| gate.node_label(node, key)).unwrap_or_default().to_owned()
}

//! What has to be read before anything is decided about a namespace. What can't be read keeps its own namespace waiting, and no other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use hitless_api::ObjectRef;
use hitless_rollout::round::under_way;
use hitless_rollout::snapshot::{LeftOut, Snapshot, Unread};
use hitless_runtime::backoff::Pauses;
use hitless_runtime::liveness::Heartbeat;
use hitless_workloads::retention;
use jiff::Timestamp;
use tokio::time::Instant;

use super::memory::Memory;
use crate::watches::UnreadPods;

/// Reads that are under way at the same time.
const CONCURRENT: usize = 16;
/// No read is begun later than this after the first: the rest is for the next round.
const LONGEST: Duration = Duration::from_secs(2);
/// What was not answered is read again after so long, and after twice as long each time.
const AGAIN: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(30);

/// What the caches have.
pub(super) struct Look {
    pub(super) snapshot: Snapshot,
    /// Namespaces in which there is something to do.
    pub(super) named: BTreeSet<String>,
    pub(super) pods: UnreadPods,
    /// Namespaces with more objects than are kept of one.
    pub(super) full: BTreeSet<String>,
}

/// What has failed lately, and since when namespaces are left out.
pub(super) struct Reading {
    failed: Pauses<String, Instant>,
    left_out: BTreeMap<String, LeftOut>,
    /// Those of which the log tells already.
    told: BTreeSet<String>,
}

impl Default for Reading {
    fn default() -> Self {
        Self { failed: Pauses::new(LATEST), left_out: BTreeMap::new(), told: BTreeSet::new() }
    }
}

/// What is not known, though something may be decided there.
#[derive(Debug, Default)]
pub(super) struct Missing {
    pub(super) pods: UnreadPods,
    /// Of a leader that has just begun: workloads that are under way.
    pub(super) workloads: Vec<ObjectRef>,
    /// Parts of workloads that were seen before these opted in.
    pub(super) parts: Vec<ObjectRef>,
    /// Namespaces with more objects than are kept of one, and something to do.
    pub(super) full: BTreeSet<String>,
}

impl Missing {
    /// In `snapshot`, for the leader of this epoch.
    pub(super) fn of(look: &Look, memory: &mut Memory, epoch: i64) -> Self {
        let Look { snapshot, named, pods, full } = look;
        // What a workload's stage is can't be told without its pods.
        let known = named.iter().filter(|name| !pods.namespaces.contains(*name));
        let workloads = memory.to_read(epoch, known, || under_way(snapshot));
        let parts = retention::too_short(snapshot.objects.iter().map(|object| &**object), full);
        let full = full.intersection(named).cloned().collect();
        Self { pods: pods.clone(), workloads, parts: parts.into_iter().cloned().collect(), full }
    }

    /// The namespaces about which nothing can be decided.
    fn namespaces(&self) -> BTreeMap<&String, Unread> {
        let parts = self.parts.iter().map(|object| (&object.namespace, Unread::Parts));
        let workloads = self.workloads.iter().map(|object| (&object.namespace, Unread::Workloads));
        let pods = self.pods.namespaces.iter().map(|name| (name, Unread::Pods));
        let full = self.full.iter().map(|name| (name, Unread::TooMuch));
        parts.chain(workloads).chain(pods).chain(full).collect()
    }
}

impl Reading {
    /// Those of `objects` that may be tried now.
    pub(super) fn due<'o>(&self, objects: &'o [ObjectRef], now: Instant) -> Vec<&'o ObjectRef> {
        objects.iter().filter(|object| !self.failed.is_paused(&object.uid, now)).collect()
    }

    /// It was read, or not.
    pub(super) fn answered(&mut self, object: &ObjectRef, is_read: bool, now: Instant) {
        if is_read {
            self.failed.remove(&object.uid);
        } else {
            self.failed.grow(object.uid.clone(), AGAIN, Duration::ZERO, now);
        }
    }

    /// When to read the next of `missing`, if there is anything to read that no task of its own reads.
    pub(super) fn next(&self, missing: &Missing, now: Instant) -> Option<Instant> {
        let mut left = missing.workloads.iter().chain(&missing.parts).peekable();
        left.peek()?;
        let is_due = left.any(|object| !self.failed.is_paused(&object.uid, now));
        if is_due { Some(now) } else { self.failed.next(now) }
    }

    /// Leaves these namespaces out of the round.
    pub(super) fn leave_out(&mut self, missing: &Missing, snapshot: &mut Snapshot, now: Timestamp) {
        let unread = missing.namespaces();
        self.left_out.retain(|name, _| unread.contains_key(name));
        for (name, unread) in unread {
            self.left_out.entry(name.clone()).or_insert(LeftOut { unread, since: now }).unread = unread;
        }
        self.told.retain(|name| self.left_out.contains_key(name));
        for (name, left_out) in self.left_out.iter().filter(|(_, left_out)| left_out.is_told(now)) {
            if self.told.insert(name.clone()) {
                tracing::warn!("{}", left_out.text(name));
            }
        }
        (snapshot.left_out, snapshot.uncounted) = (self.left_out.clone(), missing.pods.uncounted);
    }
}

/// Asks some of these requests: [`CONCURRENT`] at the same time, none later than [`LONGEST`] after the first. Their answers.
pub(super) async fn ask<A>(mut requests: VecDeque<BoxFuture<'_, A>>, heartbeat: &Heartbeat) -> Vec<A> {
    let begun = Instant::now();
    let (mut running, mut answers) = (FuturesUnordered::new(), Vec::new());
    loop {
        while running.len() < CONCURRENT && begun.elapsed() < LONGEST {
            let Some(next) = requests.pop_front() else { break };
            running.push(next);
        }
        let Some(answer) = running.next().await else { return answers };
        heartbeat.beat(Instant::now());
        answers.push(answer);
    }
}

#[cfg(test)]
mod tests;

//! What a leader has to remember to count: which operations it has counted, and since when workloads roll.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use hitless_api::{ObjectRef, Outcome as End};
use hitless_rollout::round::Round;
use hitless_rollout::snapshot::Snapshot;
use jiff::Timestamp;

/// How a rollout has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All pods have a version: the new one, or after an undo the one before.
    Done,
    /// The version was judged bad.
    Halted,
    /// The native controller makes the pods anew.
    Native,
    /// A change came that can't be made in place, and may not be made otherwise.
    Refused,
}

impl Outcome {
    pub(super) const ALL: [Self; 4] = [Self::Done, Self::Halted, Self::Native, Self::Refused];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Halted => "halted",
            Self::Native => "native",
            Self::Refused => "refused",
        }
    }

    /// Of a workload that was rolling and is at this stage now; `None`: it rolls still.
    fn at(stage: &str) -> Option<Self> {
        match stage {
            "Rolling" | "Finishing" => None,
            "Halted" => Some(Self::Halted),
            "Native" | "SteppingAside" => Some(Self::Native),
            "Refused" => Some(Self::Refused),
            // At rest, though a restart of single pods may go on.
            _ => Some(Self::Done),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Operations that have ended and whose grants are still there: id, and when it was granted.
    counted: BTreeSet<(String, Timestamp)>,
    /// Since when workloads roll, by uid.
    rolling: HashMap<String, Timestamp>,
    /// uids of workloads that have a counter of their own.
    named: HashSet<String>,
}

impl Memory {
    /// Whether restarts of this workload are counted by its name: the first ones are.
    pub(super) fn is_counted(&mut self, uid: &str, most: usize) -> bool {
        if self.named.contains(uid) {
            return true;
        }
        self.named.len() < most && self.named.insert(uid.to_owned())
    }

    /// Restarts of containers in operations that have ended since the last look, by workload.
    pub(super) fn restarts(&mut self, snapshot: &Snapshot) -> Vec<(ObjectRef, u64)> {
        let mut ended = BTreeSet::new();
        let mut restarts: BTreeMap<ObjectRef, u64> = BTreeMap::new();
        for node in snapshot.node_transitions.values() {
            for grant in &node.spec.grants {
                let Some(result) = node.transition(grant).and_then(|report| report.result.as_ref()) else { continue };
                let key = (grant.id.clone(), grant.granted.0);
                let is_new = !self.counted.contains(&key);
                ended.insert(key);
                let (Some(owner), true) = (&grant.owner, is_new) else { continue };
                let times = match result.outcome {
                    End::Done | End::Failed => 1,
                    // There and back.
                    End::RolledBack => 2,
                    End::Cancelled | End::Refused => 0,
                };
                let containers = u64::try_from(grant.containers.len()).unwrap_or(u64::MAX);
                *restarts.entry(owner.clone()).or_default() += containers.saturating_mul(times);
            }
        }
        self.counted = ended;
        restarts.into_iter().filter(|(_, number)| *number > 0).collect()
    }

    /// Rollouts that have ended since the last look: how, and after which time. One that was under way when this process began to lead
    /// counts from then on; one whose workload was deleted does not count.
    pub(super) fn rollouts(&mut self, snapshot: &Snapshot, round: &Round, now: Timestamp) -> Vec<(Outcome, Duration)> {
        let stages: HashMap<&str, &'static str> =
            round.by_workload.iter().map(|each| (each.workload.uid.as_str(), each.stage)).collect();
        let is_there = |uid: &str| snapshot.objects.iter().any(|object| object.id.uid == uid);
        let mut ended = Vec::new();
        self.rolling.retain(|uid, since| {
            let Some(outcome) = Outcome::at(stages.get(uid.as_str()).copied().unwrap_or("Idle")) else { return true };
            if is_there(uid) {
                ended.push((outcome, Duration::try_from(now.duration_since(*since)).unwrap_or_default()));
            }
            false
        });
        for (uid, stage) in stages {
            if Outcome::at(stage).is_none() && !self.rolling.contains_key(uid) {
                self.rolling.insert(uid.to_owned(), now);
            }
        }
        ended
    }
}

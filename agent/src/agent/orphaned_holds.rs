//! Holds that end without their grant: somebody has deleted the NodeTransition while containers were being replaced. Clients are let in
//! as they would have been, by the new process or at the cap, and not at once, when the old process is about to end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitless_api::Grant;
use jiff::{SignedDuration, Timestamp};

use crate::decision::{Direction, Hold};
use crate::drain::hold::Target;
use crate::instant::after;
use crate::memory::Memory;
use crate::view::{NodePod, Observation, Stage};

/// What a Hold may take longer than its own times, so that its thread, and not this, ends it.
const SLACK: SignedDuration = SignedDuration::from_secs(2);

/// The Holds that go on, and what may have to.
#[derive(Default)]
pub(super) struct OrphanedHolds {
    /// What was wanted in the last round for grants, by pod uid.
    last: BTreeMap<String, Target>,
    orphans: BTreeMap<String, Orphan>,
    /// Pods that have a grant.
    granted: BTreeSet<String>,
    /// Those of them with such a Hold: the new operation is to find nothing of the one before.
    taken_over: BTreeSet<String>,
}

struct Orphan {
    target: Target,
    /// However its thread stands.
    until: Timestamp,
}

impl OrphanedHolds {
    /// What is remembered of grants that are not there any more is forgotten; where the patch was sent, the Hold goes on.
    pub(super) fn forget(&mut self, memories: &mut BTreeMap<String, Memory>, grants: &[Grant]) {
        self.granted = grants.iter().map(|grant| grant.pod.uid.clone()).collect();
        let ids: BTreeSet<&str> = grants.iter().map(|grant| grant.id.as_str()).collect();
        for (id, memory) in memories.extract_if(.., |id, _| !ids.contains(id.as_str())) {
            // What is wanted for a pod that has another grant is wanted for that one.
            if Grant::pod_uid_of(&id).is_some_and(|uid| !self.granted.contains(uid)) {
                self.lose(&id, &memory);
            }
        }
    }

    fn lose(&mut self, id: &str, memory: &Memory) {
        let Some((uid, target)) = Grant::pod_uid_of(id).and_then(|uid| self.last.remove_entry(uid)) else { return };
        let direction = match target.hold {
            Hold::Begin(direction) | Hold::Continue(direction) => direction,
            Hold::Prepare(_) | Hold::No => return,
        };
        let sent = match direction {
            Direction::Forward => &memory.operated,
            Direction::Back => &memory.undone,
        };
        let Some(sent) = sent else { return };
        // Who serves on until it is killed is held for once more.
        let cap = SignedDuration::from_millis(target.drain.hold_cap_milliseconds.into());
        let grace = SignedDuration::try_from(target.grace).unwrap_or_default();
        let until = [grace, cap, SLACK].into_iter().fold(sent.at, after);
        tracing::warn!(grant = id, "the grant is gone in mid-operation; clients who are held are let in as planned");
        let target = Target { hold: Hold::Continue(direction), ..target };
        self.orphans.insert(uid, Orphan { target, until });
    }

    /// Ends those that are over. What is told of all of them is taken out of `observations`: it is no grant's. Says whether there is
    /// more to do in another round at once.
    pub(super) fn update(
        &mut self,
        pods: &BTreeMap<String, Arc<NodePod>>,
        observations: &mut BTreeMap<String, Observation>,
        now: Timestamp,
    ) -> bool {
        self.taken_over = self.orphans.keys().filter(|uid| self.granted.contains(*uid)).cloned().collect();
        self.orphans.retain(|uid, orphan| {
            let is_there = pods.get(uid).is_some_and(|pod| !pod.view.terminating && !pod.view.finished);
            let is_over = observations.remove(uid).is_some_and(|told| is_over(&told));
            is_there && !is_over && now < orphan.until && !self.taken_over.contains(uid)
        });
        !self.taken_over.is_empty()
    }

    /// What the threads are told: what is wanted for grants, and these.
    pub(super) fn join(&mut self, mut targets: BTreeMap<String, Target>) -> BTreeMap<String, Target> {
        targets.retain(|uid, _| !self.taken_over.contains(uid));
        self.last.clone_from(&targets);
        targets.extend(self.orphans.iter().map(|(uid, orphan)| (uid.clone(), orphan.target.clone())));
        targets
    }
}

/// Nobody is held any more, and nobody will be.
fn is_over(told: &Observation) -> bool {
    match told {
        Observation::Held(held) => match held.stage {
            Stage::Settling(_) | Stage::Settled(_) => false,
            Stage::Released => held.listening.is_some(),
            Stage::Prepared(_) | Stage::Failed(_) => true,
        },
        Observation::None | Observation::Failed(_) | Observation::Counted(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hitless_api::DrainSpec;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;
    use crate::memory::Operated;
    use crate::view::{Held, HoldNumbers, Listening};

    const ID: &str = "uid.1";
    const BEGIN: Hold = Hold::Begin(Direction::Forward);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn target(hold: Hold) -> BTreeMap<String, Target> {
        let drain = DrainSpec { hold_cap_milliseconds: 2500, ..DrainSpec::default() };
        let (containers, grace) = (vec!["c://1".to_owned()], Duration::from_secs(30));
        let (unless_serving, has_left, must_listen, sctp) = (false, false, false, None);
        let (patience, pre_stop) = (Duration::ZERO, None);
        let target =
            Target { hold, containers, unless_serving, has_left, must_listen, sctp, drain, patience, pre_stop, grace };
        BTreeMap::from([("uid".to_owned(), target)])
    }

    fn patched(seconds: i64) -> Memory {
        Memory { operated: Some(Operated { at: at(seconds), before: BTreeMap::new() }), ..Memory::default() }
    }

    fn pods() -> BTreeMap<String, Arc<NodePod>> {
        let pod = json!({"metadata": {"name": "web", "uid": "uid"}, "spec": {"containers": []}});
        let pod = NodePod::from(&serde_json::from_value::<Pod>(pod).unwrap());
        BTreeMap::from([("uid".to_owned(), Arc::new(pod))])
    }

    fn held(stage: Stage, is_listening: bool) -> BTreeMap<String, Observation> {
        let listening = is_listening.then(|| Listening { at: at(11), killed: None });
        let (direction, numbers) = (Direction::Forward, HoldNumbers::default());
        BTreeMap::from([("uid".to_owned(), Observation::Held(Held { direction, stage, numbers, listening }))])
    }

    fn grant(id: &str) -> Grant {
        serde_json::from_value(json!({
            "id": id, "epoch": 1, "pod": {"namespace": "a", "name": "web", "uid": "uid"}, "op": "Update", "mode": "Hold",
            "containers": {}, "before": {}, "drain": {}, "verify": {}, "ttlSeconds": 60, "granted": "2026-01-01T00:00:09Z"}))
        .unwrap()
    }

    /// This was wanted for the grant, and then it is gone, and others are there.
    fn orphaned(hold: Hold, memory: &Memory, others: &[Grant]) -> OrphanedHolds {
        let mut holds = OrphanedHolds::default();
        assert_eq!(holds.join(target(hold)), target(hold));
        let mut memories = BTreeMap::from([(ID.to_owned(), memory.clone())]);
        holds.forget(&mut memories, &[grant(ID)]);
        assert_eq!(memories.len(), 1);
        holds.forget(&mut memories, others);
        assert!(memories.is_empty());
        holds
    }

    /// What the threads are told then, if this is how the Hold stands.
    fn wanted(holds: &mut OrphanedHolds, mut told: BTreeMap<String, Observation>, seconds: i64) -> Option<Hold> {
        assert!(!holds.update(&pods(), &mut told, at(seconds)));
        holds.join(BTreeMap::new()).remove("uid").map(|target| target.hold)
    }

    #[test]
    fn with_the_patch_sent_clients_are_held_until_the_new_process_listens() {
        let mut holds = orphaned(BEGIN, &patched(10), &[]);
        let goes_on = Some(Hold::Continue(Direction::Forward));
        assert_eq!(wanted(&mut holds, held(Stage::Settled(0), false), 11), goes_on);
        assert_eq!(wanted(&mut holds, held(Stage::Released, false), 12), goes_on, "it may serve on until it is killed");
        assert_eq!(wanted(&mut holds, held(Stage::Released, true), 12), None);
        assert_eq!(wanted(&mut holds, BTreeMap::new(), 12), None);
    }

    #[test]
    fn without_a_patch_nobody_is_held_any_longer_and_never_for_ever() {
        for (hold, memory) in [
            (BEGIN, Memory::default()),
            (Hold::Begin(Direction::Back), patched(10)),
            (Hold::Prepare(Direction::Forward), patched(10)),
        ] {
            assert_eq!(wanted(&mut orphaned(hold, &memory, &[]), BTreeMap::new(), 11), None, "{hold:?}");
        }
        let mut holds = orphaned(BEGIN, &patched(10), &[]);
        assert!(wanted(&mut holds, held(Stage::Settled(0), false), 44).is_some());
        assert_eq!(wanted(&mut holds, held(Stage::Settled(0), false), 45), None, "grace period, cap and slack");
    }

    #[test]
    fn it_ends_with_its_pod_and_before_another_operation_of_it() {
        let mut holds = orphaned(BEGIN, &patched(10), &[]);
        assert!(!holds.update(&BTreeMap::new(), &mut BTreeMap::new(), at(11)));
        assert_eq!(holds.join(BTreeMap::new()), BTreeMap::new());

        let mut holds = orphaned(BEGIN, &patched(10), &[]);
        let prepare = target(Hold::Prepare(Direction::Forward));
        let mut told = held(Stage::Settled(0), false);
        holds.forget(&mut BTreeMap::new(), &[grant("uid.2")]);
        assert!(holds.update(&pods(), &mut told, at(11)), "there is more to do at once");
        assert!(told.is_empty(), "the new operation would take it for its own");
        assert_eq!(holds.join(prepare.clone()), BTreeMap::new(), "first the one before ends");
        assert!(!holds.update(&pods(), &mut told, at(11)));
        assert_eq!(holds.join(prepare.clone()), prepare);
    }

    #[test]
    fn the_hold_of_another_grant_of_the_pod_is_left_alone() {
        let mut holds = orphaned(BEGIN, &patched(10), &[grant("uid.2")]);
        let mut told = held(Stage::Settled(0), false);
        assert!(!holds.update(&pods(), &mut told, at(11)));
        assert_eq!(told.len(), 1);
        assert_eq!(holds.join(target(BEGIN)), target(BEGIN));
    }
}

//! What is in the way of an operation but its own policies, the rules and Services.

use std::iter::once_with;

use hitless_api::pod::PodView;
use hitless_api::{GrantOp, ObjectRef};
use hitless_workloads::Obstacle;

use crate::companion;
use crate::round::facts::Facts;
use crate::round::facts::desired::PodOperation;
use crate::round::facts::endings::Failure;
use crate::round::facts::in_place_failed::InPlaceFailed;
use crate::round::features::start_up;
use crate::round::wait_reason::{self, Behind, WaitReason};
use crate::round::write_plan::WritePlan;
use crate::snapshot::Snapshot;

impl Facts<'_, '_> {
    /// What is in the way of the operation but its own policies, the rules and Services. The first is what is said of the pod.
    pub(crate) fn in_the_way<'s>(
        &'s self,
        wanted: &'s PodOperation<'_>,
        writes: &'s WritePlan<'_>,
    ) -> impl Iterator<Item = WaitReason> + 's {
        let pod = wanted.pod;
        let left_out = move || {
            let left_out = self.snapshot.left_out.get(&pod.id.namespace)?;
            Some(WaitReason::NamespaceUnread(left_out.unread))
        };
        let unreadable = move || self.unreadable(pod);
        // Its operation has ended, and what the kubelet has not done yet tells more.
        let is_late = matches!(&wanted.intent, Err(Obstacle::NotReplaced { .. }));
        let is_busy = move || self.ended.busy.contains(pod.id.uid.as_str()) && !is_late;
        let busy = move || is_busy().then_some(WaitReason::InProgress);
        let new_pods = move || self.old_secrets(wanted).or_else(|| self.in_place_failed(wanted));
        let obstacle = move || self.obstacle(wanted, writes).or_else(new_pods);
        let full = move || {
            let node = pod.node.as_ref().filter(|node| writes.is_full(node))?;
            Some(WaitReason::NodeFull(node.clone()))
        };
        let paused = move || self.paused(wanted).or_else(|| self.dependency(wanted));
        let first = once_with(left_out).chain(once_with(move || self.halted(wanted)));
        let first = first.chain(once_with(busy)).chain(once_with(paused));
        let first = first.chain(once_with(unreadable));
        let first = first.chain(once_with(obstacle));
        let of_agent = wait_reason::in_the_way(pod, self.snapshot).chain(once_with(full).flatten());
        // A pod that nobody's agent has to drain may be anywhere, or nowhere yet.
        first.flatten().chain(of_agent.filter(|_| wanted.removal.is_none()))
    }

    /// Where the pod waits for the turn of another one, that one may never come.
    fn obstacle(&self, wanted: &PodOperation<'_>, writes: &WritePlan<'_>) -> Option<WaitReason> {
        let Err(obstacle) = &wanted.intent else { return None };
        let behind = match obstacle {
            Obstacle::NotItsTurn { first, .. } | Obstacle::NewPodsUnavailable { first } => {
                self.behind(wanted, first, writes)
            }
            Obstacle::DigestUnknown { .. }
            | Obstacle::NotStarted { .. }
            | Obstacle::NotReplaced { .. }
            | Obstacle::RestartNotRecorded
            | Obstacle::UnknownRevision { .. }
            | Obstacle::UnknownContainer { .. } => None,
        };
        Some(behind.unwrap_or_else(|| WaitReason::Obstacle(obstacle.clone())))
    }

    fn old_secrets(&self, wanted: &PodOperation<'_>) -> Option<WaitReason> {
        let template = self.desired.template_of(wanted)?;
        let why = self.images.old_secrets(wanted.pod, wanted.intent.as_ref().ok()?, template)?;
        Some(WaitReason::PullSecretsChanged(why))
    }

    /// The version before did not start in place, so its workload is about to get new pods.
    fn in_place_failed(&self, wanted: &PodOperation<'_>) -> Option<WaitReason> {
        let before = InPlaceFailed::before(wanted.workload?, &self.desired)?;
        Some(WaitReason::Natively(before.words()))
    }

    fn behind(&self, wanted: &PodOperation<'_>, first: &str, writes: &WritePlan<'_>) -> Option<WaitReason> {
        let owner = &wanted.pod.owner.as_ref()?.uid;
        let own = self.desired.world.pods(owner).iter().find(|other| other.id.name == first)?;
        let uid = own.id.uid.as_str();
        let node = || own.node.clone().filter(|_| self.lost.has(uid)).map(Behind::NodeLost);
        // Of one that wants something its own verdict tells.
        let is_over = || self.ended.over().any(|failure| failure.grant.pod.uid == uid);
        let is_asked = self.desired.by_pod.contains_key(uid) || (self.ended.busy.contains(uid) && !is_over());
        // Of a pod that has the version.
        let plan = wanted.workload.map(|index| &self.desired.plans[index]);
        let plan = plan.filter(|plan| !is_asked && !own.terminating && !plan.behind.contains(uid));
        let words = || plan.and_then(|_| own.containers.iter().find_map(companion::failure)).map(Behind::NotRunning);
        let late = || {
            let by = start_up::ready_by(plan?, own).filter(|by| *by <= writes.now)?;
            (!own.ready()).then_some(Behind::NotReady(by))
        };
        Some(WaitReason::Behind { pod: Box::new(own.id.clone()), why: node().or_else(words).or_else(late)? })
    }

    /// The pod's workload is paused, opted in or not. What leaves for good because there are to be fewer pods, because the pod that
    /// takes its place serves, or as a companion pod, goes on leaving: Kubernetes' own pause does not keep a workload from being scaled
    /// either.
    fn paused(&self, wanted: &PodOperation<'_>) -> Option<WaitReason> {
        let pod = wanted.pod;
        let is_drain = wanted.intent.as_ref().is_ok_and(|intent| intent.operation.op == GrantOp::Drain);
        let is_outdated = || {
            let plan = wanted.workload.map(|index| &self.desired.plans[index]);
            plan.is_some_and(|plan| plan.behind.contains(&pod.id.uid))
        };
        if is_drain && (wanted.ends || companion::is_companion(pod) || !is_outdated()) {
            return None;
        }
        let owner = self.desired.owner(self.desired.pods.get(pod.id.uid.as_str())?)?;
        let pause = self.desired.world.object(&owner.uid)?.pause()?;
        Some(WaitReason::Paused { pause, workload: Box::new(owner.clone()) })
    }

    /// Another pod of the workload is being operated, and what all of them need is away.
    fn dependency(&self, wanted: &PodOperation<'_>) -> Option<WaitReason> {
        let operated = self.dependencies.away.get(&wanted.workload?)?;
        let changes = wanted.intent.as_ref().is_ok_and(|intent| match intent.operation.op {
            GrantOp::Update | GrantOp::Restart => true,
            GrantOp::Relabel | GrantOp::Drain | GrantOp::Foreign | GrantOp::Unknown(_) => false,
        });
        (changes && *operated != wanted.pod.id.name).then(|| WaitReason::Dependency(operated.clone()))
    }

    /// The workload that the pod belongs to can't be read now.
    fn unreadable(&self, pod: &PodView) -> Option<WaitReason> {
        let Snapshot { unreadable, left, managers, .. } = self.snapshot;
        if unreadable.is_empty() && managers.is_empty() {
            return None;
        }
        let direct: &ObjectRef = pod.owner.as_ref()?;
        let above =
            self.desired.world.object(&direct.uid).and_then(|object| self.desired.world.top_of(object).owner.as_ref());
        let kinds = [Some(direct), above].into_iter().flatten().map(|owner| &owner.group_kind);
        let left_to = |kind| left.contains(kind).then(|| managers.of_kind(kind)).flatten();
        kinds.into_iter().find_map(|kind| match left_to(kind) {
            Some(manager) => Some(WaitReason::LeftToForeignManager(manager.clone())),
            None => unreadable.contains(kind).then(|| WaitReason::OwnerUnreadable(kind.clone())),
        })
    }

    /// An operation of the pod itself has failed, or so many of its workload that nobody goes any more.
    fn halted(&self, wanted: &PodOperation<'_>) -> Option<WaitReason> {
        let (uid, failures) = (wanted.pod.id.uid.as_str(), &self.ended.failures);
        let own = |failure: &&Failure<'_>| failure.grant.pod.uid == uid;
        let of_workload = |failure: &&Failure<'_>| failure.workload.is_some() && failure.workload == wanted.workload;
        let of_others = || self.ended.halting().filter(of_workload);
        let too_many = || of_others().count() >= self.gate.tolerated_failures(uid) as usize;
        if wanted.intent.as_ref().is_ok_and(|intent| intent.operation.op == GrantOp::Foreign) {
            let is_foreign = |failure: &&Failure<'_>| failure.grant.op == GrantOp::Foreign;
            let failure = failures.iter().filter(is_foreign).find(own)?;
            return Some(WaitReason::NotDrained(failure.reason()));
        }
        let own = failures.iter().find(own);
        if let Some(failure) = own.filter(|failure| failure.result.is_by_application()) {
            return Some(WaitReason::ApplicationRefused(failure.message.to_owned()));
        }
        let halting = own.or_else(|| of_others().next().filter(|_| too_many()))?;
        Some(WaitReason::Halted {
            pod: halting.grant.pod.name.clone(),
            reason: halting.reason(),
            way_back: self.desired.workload_of_way_back(halting.grant).is_some(),
            again: halting.again_at(),
        })
    }
}

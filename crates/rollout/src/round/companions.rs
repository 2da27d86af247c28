//! Whether a companion pod tries a workload's next version before one of its pods gets it, whether it serves meanwhile, and
//! when it goes (docs/contract.md#companion-pod).

mod gates;
mod retire;
mod room;
mod stage;

use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantMode, GrantOp, Reservation};
use hitless_workloads::{CompanionPolicy, Object, Plan, registry};

use crate::companion::{self, Outcome, State, Tried};
use crate::mode::{Mode, Serving, StandIn, Traffic};
use crate::round::facts::Facts;
use crate::round::facts::companions::{is_known, is_moving, target_key, tried};
use crate::round::operable::Operable;
use crate::round::wait_reason::WaitReason;
use crate::round::wait_reason::companion::Companion;
use crate::round::write_plan::WritePlan;
use crate::snapshot::Snapshot;

pub(crate) use retire::retiring;
pub use room::wants_all;

fn waiting(plan: &Plan, stage: Companion) -> WaitReason {
    WaitReason::Companion { pod: companion::name(&plan.workload, &target_key(plan)), stage }
}

impl Facts<'_, '_> {
    /// Whether the pod, which nothing else keeps, waits for a companion of its workload. `mode` is how it would be operated now.
    pub(crate) fn companion(&self, operable: &Operable<'_>, mode: &Mode) -> Option<WaitReason> {
        let plan = self.tries_first(operable)?;
        // One that is there and ready serves, however short the pod is going to be away: nobody loses anything by it.
        let is_there = self.companions.of(plan).is_some_and(|pod| !pod.terminating);
        let serves = plan.total == 1 && self.has_clients(operable) && (is_there || needs_companion(operable, mode));
        Some(waiting(plan, self.stage(plan, serves)?))
    }

    /// Whether the companion of the pod's workload takes its clients while it is operated. Where nobody can read companion pods, one
    /// that would be made does. `mode` is how the pod would be operated without one.
    pub(crate) fn companion_serves(
        &self,
        operable: &Operable<'_>,
        mode: &Mode,
        serving: &impl Fn(&PodView) -> Serving,
    ) -> bool {
        if self.snapshot.unknown.companions {
            return self.expects_companion(operable, mode);
        }
        let Some(plan) = self.may_have(operable).filter(|plan| plan.total == 1) else { return false };
        let is_in_service = |pod: &&PodView| pod.in_service().is_some_and(|condition| condition.is_true);
        let serves = self.companions.of(plan).filter(is_in_service).is_some_and(|pod| serving(pod) == Serving::Serves);
        // What a pod rests on is asked again while it leaves (`last_endpoint`), and the answer has to be the same.
        // One that had no room on the pod's node serves none of those whom a Service keeps on their node.
        let takes_clients = || match self.traffic.stand_in(operable.pod, serving) {
            StandIn::Serves | StandIn::ExceptFor(_) | StandIn::ExceptOnNode(_) => true,
            StandIn::OnOtherNodes(_) | StandIn::None => false,
        };
        serves && takes_clients()
    }

    /// Whether a companion is going to take the pod's clients, if it wants what it does when its turn comes.
    pub(crate) fn expects_companion(&self, operable: &Operable<'_>, mode: &Mode) -> bool {
        let Some(plan) = self.may_have(operable).filter(|plan| plan.total == 1) else { return false };
        let is_there = self.companions.of(plan).is_some_and(|pod| !pod.terminating);
        self.has_clients(operable) && (is_there || !is_known(plan) || needs_companion(operable, mode))
    }

    /// The version was tried and did not run, or does not run for a while: the pod does not ask the rules, so that others may have
    /// the place that it would get and not take.
    pub(crate) fn stuck_companion(&self, operable: &Operable<'_>) -> Option<WaitReason> {
        // Every pod that wants something is asked this, and hardly any has a companion.
        let known = &self.desired.plans[self.workload_of_operation(operable)?];
        if !self.has_begun(known) || self.ended.regrant.contains_key(operable.pod.id.uid.as_str()) {
            return None;
        }
        let plan = self.tries_first(operable)?;
        if let Some(Tried { outcome: Outcome::Bad, message, .. }) = tried(plan) {
            return Some(waiting(plan, Companion::Failed(message)));
        }
        if is_known(plan) {
            return None;
        }
        let pod = self.companions.of(plan).filter(|pod| !pod.terminating && !companion::has_served(pod))?;
        let stage = self.unready(plan, pod, State::of(pod, self.companions.now));
        let is_stuck = matches!(stage, Companion::Slow(_) | Companion::Failing(_) | Companion::Tried(_));
        is_stuck.then(|| waiting(plan, stage))
    }

    /// The plan of the pod's workload, if a companion is to try what it brings to the pod.
    fn tries_first(&self, operable: &Operable<'_>) -> Option<&Plan> {
        let plan = self.may_run(operable).filter(|_| !self.snapshot.unknown.companions)?;
        if plan.total == 1 && self.never_ready(plan).is_some() {
            return None;
        }
        is_meant(plan.companion, plan.total, plan.up_to_date(), || self.has_begun(plan)).then_some(plan)
    }

    /// The plan of the pod's workload, if a companion may serve with what it brings to the pod.
    fn may_try(&self, operable: &Operable<'_>) -> Option<&Plan> {
        self.may_have(operable).filter(|_| !self.snapshot.unknown.companions)
    }

    /// The same, whether companion pods can be read or not.
    pub(crate) fn may_have(&self, operable: &Operable<'_>) -> Option<&Plan> {
        self.may_run(operable).filter(|plan| self.never_ready(plan).is_none())
    }

    /// The plan of the pod's workload, if a companion may run what it brings to the pod, whether it can serve or not.
    fn may_run(&self, operable: &Operable<'_>) -> Option<&Plan> {
        let plan = &self.desired.plans[self.workload_of_operation(operable)?];
        // A change of labels starts nothing that could be tried.
        let starts = operable.intent.operation.op != GrantOp::Relabel;
        let is_behind = is_moving(plan) && plan.behind.contains(&operable.pod.id.uid);
        let wants = starts && (is_behind || operable.intent.is_assumed());
        let may = wants && plan.companion != CompanionPolicy::Never && self.cannot_run(operable).is_none();
        may.then_some(plan)
    }

    /// A companion is trying the version, or it did not run there: that counts also when the workload gets more pods meanwhile.
    fn has_begun(&self, plan: &Plan) -> bool {
        self.companions.of(plan).is_some_and(|pod| !companion::has_served(pod))
            || tried(plan).is_some_and(|tried| tried.outcome == Outcome::Bad)
    }

    /// The companion is to leave service, but a pod of its workload is being operated, or goes in this very round, or is reserved and
    /// waits for its Service to be open.
    pub(crate) fn needed(&self, operable: &Operable<'_>, writes: &WritePlan<'_>) -> Option<WaitReason> {
        let Operable { pod, owner, .. } = operable;
        let is_leaving = operable.intent.operation.op == GrantOp::Drain && companion::is_companion(pod);
        let owner = owner.filter(|_| is_leaving)?;
        let is_operated = |grant: &&Grant| {
            let of_owner = grant.owner.as_ref().is_some_and(|other| other.uid == owner.uid);
            of_owner && grant.op != GrantOp::Drain && !self.has_ended(grant) && !self.lost.has(&grant.pod.uid)
        };
        let operated = writes.every_grant().find(is_operated).map(|grant| &grant.pod.name);
        let is_reserved = |(uid, _): &(&String, &Reservation)| {
            let other = self.desired.pods.get(uid.as_str());
            let other = other.filter(|other| !companion::is_companion(other) && !self.lost.has(&other.id.uid));
            other.and_then(|other| self.desired.owner(other)).is_some_and(|other| other.uid == owner.uid)
        };
        let reserved = || {
            let ledger = writes.ledger(&pod.id.namespace)?;
            ledger.reservations.iter().find(is_reserved).map(|(_, reservation)| &reservation.pod)
        };
        let stage = Companion::Needed(operated.or_else(reserved)?.clone());
        Some(WaitReason::Companion { pod: pod.id.name.clone(), stage })
    }

    /// Why no companion of the pod's workload may serve, as a clause for people.
    pub(crate) fn no_companion(&self, operable: &Operable<'_>) -> Option<String> {
        let plan = self.desired.workload_of(operable.pod).map(|index| &self.desired.plans[index]);
        self.cannot_run(operable).or_else(|| self.never_ready(plan?))
    }

    /// Why a companion of the workload could not become Ready.
    fn never_ready(&self, plan: &Plan) -> Option<String> {
        gates::never_ready(self.desired.world.object(&plan.workload.uid)?)
    }

    /// Why none may run, as a clause for people.
    fn cannot_run(&self, operable: &Operable<'_>) -> Option<String> {
        let plan = &self.desired.plans[self.desired.workload_of(operable.pod)?];
        let root = self.desired.world.object(&plan.workload.uid)?;
        if let Some(why) = never_beside(self.snapshot, &self.traffic, operable.pod) {
            return Some(why);
        }
        if let Some(refusal) = self.images.refusals.of_companion(&target_key(plan)) {
            return Some(format!("it is not accepted: {}", refusal.words));
        }
        if let Some(tried) = tried(plan).filter(|tried| tried.outcome == Outcome::Skipped) {
            let is_gone = self.companions.of(plan).is_none_or(|pod| self.is_lost_companion(pod));
            return Some(tried.message).filter(|_| is_gone);
        }
        registry::of_workload(&plan.workload.group_kind)?.surge(root).err()
    }

    /// A Service can send them to another pod, or its name gives them the address of another one.
    pub(crate) fn has_clients(&self, operable: &Operable<'_>) -> bool {
        self.traffic.takes_clients(operable.pod)
    }
}

/// Whether a companion tries a version before one of so many pods of the workload gets it, of which so many have it.
fn is_meant(wanted: CompanionPolicy, total: usize, up_to_date: usize, has_begun: impl FnOnce() -> bool) -> bool {
    match wanted {
        CompanionPolicy::Never => false,
        CompanionPolicy::Auto => total == 1 || has_begun(),
        CompanionPolicy::Always => total == 1 || up_to_date == 0 || has_begun(),
    }
}

/// Whether one is made for a workload of so many pods, beside this one, before any of them has the next version; `may_want_all`: a limit may
/// want all of its pods to stay. As far as it can be told beforehand, by what the round asks itself.
pub(crate) fn is_made(snapshot: &Snapshot, root: &Object, total: usize, beside: &PodView, may_want_all: bool) -> bool {
    let wanted = CompanionPolicy::of(root);
    let tries = is_meant(wanted, total, 0, || false);
    let makes_room = may_want_all && wanted != CompanionPolicy::Never;
    let has_to_serve = total == 1 || !tries;
    let traffic = Traffic::new(&snapshot.services, &snapshot.pods);
    let cannot_serve = has_to_serve && gates::never_ready(root).is_some();
    let may_run = registry::of_workload(&root.id.group_kind).is_some_and(|kind| kind.surge(root).is_ok());
    (tries || makes_room) && may_run && !cannot_serve && never_beside(snapshot, &traffic, beside).is_none()
}

/// Why no companion may run beside this pod, as far as its Services and the agent tell, as a clause for people.
fn never_beside(snapshot: &Snapshot, traffic: &Traffic<'_>, pod: &PodView) -> Option<String> {
    let node = pod.node.as_deref().unwrap_or_default();
    let agent = snapshot.node_transitions.get(node).and_then(|known| known.agent.as_ref());
    if agent.is_some_and(|agent| !agent.can(GrantOp::DRAIN_FEATURE)) {
        return Some(format!("the agent on node {node} is of an earlier version"));
    }
    if traffic.always_published(pod) {
        return Some("a Service sends connections to pods that are not Ready".to_owned());
    }
    None
}

/// The pod is the only one that serves, and would be away for longer than clients can be held, or for nobody knows how long.
fn needs_companion(operable: &Operable<'_>, mode: &Mode) -> bool {
    let serves = operable.pod.gated && operable.pod.ready();
    serves && (mode.mode != GrantMode::Hold || Mode::word(&mode.reason) == Mode::ONLY_POD)
}

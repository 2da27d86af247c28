//! How an operation begins: in which mode, which Services have to be open before, and what its grant says.

use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantMode, GrantOp, MicroTime, MountedConfig, PostCheck};
use jiff::Timestamp;

use crate::mode::{Forecast, Mode, NotOperable, ServiceConflict, ServiceReadiness, ServiceView, Serving, Start};
use crate::round::change::Change;
use crate::round::decided::Decided;
use crate::round::facts::Facts;
use crate::round::finalizers;
use crate::round::operable::Operable;
use crate::round::wait_reason::WaitReason;
use crate::round::write_plan::WritePlan;

/// Why a pod that is to be deleted leaves service.
const NOT_NEEDED: &str = "NotNeeded: the pods of its workload serve without it";
/// Why a pod that others operate leaves service.
const FOREIGN: &str = "Foreign: others operate the pod (PodOpsLifecycle), and it returns when all have finished";

/// How an operation begins.
pub(crate) struct Beginning<'a> {
    pub(crate) mode: Mode,
    /// Services that it needs open.
    services: Vec<&'a ServiceView>,
    /// They are not open yet.
    opening: bool,
}

impl<'a> Facts<'a, '_> {
    /// Adds the grant to the changes. If its Services are not open yet, they come first, and the pod waits with its reservation.
    pub(crate) fn granted(
        &self,
        operable: &Operable<'a>,
        begin: Beginning<'a>,
        grant: Grant,
        mut changes: Vec<Change<'a>>,
        writes: &WritePlan<'a>,
    ) -> Decided<'a> {
        let opening = begin.opening_for();
        let Beginning { mode, services, .. } = begin;
        if mode.mode == GrantMode::Hold {
            changes.push(Change::Hold { operation: operable.intent.id(), services });
        }
        if let Some(waiting) = opening {
            return Decided { changes, outcome: Err(waiting) };
        }
        changes.push(Change::Grant { node: operable.node, grant: Box::new(grant) });
        let serving = |pod: &PodView| self.serving(pod, writes);
        let expected = Forecast::of(operable.pod, &operable.settings, mode, &self.traffic, &serving);
        Decided { changes, outcome: Ok(expected) }
    }

    /// Leave or Hold, and whether Services have to be opened before.
    pub(crate) fn begin(&self, operable: &Operable<'a>, writes: &WritePlan<'a>) -> Result<Beginning<'a>, WaitReason> {
        let serving = |pod: &PodView| self.serving(pod, writes);
        let start = match operable.intent.operation.op {
            GrantOp::Drain => Ok(operable.settings.leave(NOT_NEEDED, operable.pod, &self.traffic, &serving)),
            GrantOp::Relabel => Ok(Start::staying()),
            GrantOp::Foreign => Ok(operable.settings.leave(FOREIGN, operable.pod, &self.traffic, &serving)),
            // In a Hold it would be Ready all the time, and whoever protects it would never learn of it.
            _ if self.is_protected(operable.pod, &operable.intent.operation.op) => {
                Ok(operable.settings.leave(finalizers::PROTECTED, operable.pod, &self.traffic, &serving))
            }
            _ => self.start(operable, &serving),
        };
        let Start { mut mode, begin } = start.map_err(|why| WaitReason::not_operable(why, operable.node))?;
        mode.unless_in_flight = mode.unless_in_flight && self.may_leave_instead(operable, &serving);
        let is_only_pod = Mode::word(&mode.reason) == Mode::ONLY_POD;
        if is_only_pod && let Some(other) = self.traffic.awaited_sibling(operable.pod, &serving) {
            return Err(WaitReason::SiblingAway(other.id.name.clone()));
        }
        if is_only_pod && let Some(why) = self.no_companion(operable) {
            mode.reason = format!("{}; no companion pod can serve: {why}", mode.reason);
        }
        match begin {
            ServiceReadiness::Now { open, note: _ } => {
                // One that is open for another operation is marked for this one first: who knows only of the other would close it.
                let id = operable.intent.id();
                let opening = open.iter().any(|service| service.mark() != Some(id.as_str()));
                Ok(Beginning { mode, services: open, opening })
            }
            ServiceReadiness::Opening(services) => Ok(Beginning { mode, services, opening: true }),
            ServiceReadiness::Wait(ServiceConflict::Open(service)) => Err(WaitReason::ServiceOpen(service)),
            ServiceReadiness::Wait(ServiceConflict::NoOther { service, pod }) => {
                Err(WaitReason::ServiceBusy { service, pod })
            }
        }
    }

    /// No other pod of its workload, nor a companion, serves: nobody stands in while its containers are started again and again.
    pub(crate) fn is_alone(&self, pod: &'a PodView, writes: &WritePlan<'_>) -> bool {
        let is_other = |other: &&PodView| other.id.uid != pod.id.uid;
        let serves = |other: &PodView| self.serving(other, writes) == Serving::Serves;
        if let Some(workload) = self.desired.workload_of(pod) {
            return !self.desired.pods_of(&self.desired.plans[workload]).filter(is_other).any(serves);
        }
        let owner = pod.owner.as_ref().map(|owner| owner.uid.as_str());
        let is_sibling =
            |other: &&PodView| owner.is_some() && other.owner.as_ref().map(|owner| owner.uid.as_str()) == owner;
        !self.snapshot.pods.iter().map(|pod| &**pod).filter(is_other).filter(is_sibling).any(serves)
    }

    /// As the pod is operated with a companion pod that serves, or without one.
    fn start(&self, operable: &Operable<'_>, serving: &impl Fn(&PodView) -> Serving) -> Result<Start<'a>, NotOperable> {
        let start = |serves| operable.settings.start(operable.pod, &self.traffic, serving, serves);
        let without = start(false)?;
        if self.companion_serves(operable, &without.mode, serving) { start(true) } else { Ok(without) }
    }

    /// But for what the rules have said.
    pub(crate) fn grant_of(
        &self,
        operable: &Operable<'a>,
        mode: &Mode,
        granted: Timestamp,
        writes: &WritePlan<'a>,
    ) -> Grant {
        let Operable { pod, intent, settings, .. } = operable;
        let operation = &intent.operation;
        let workload =
            self.desired.workload_of(pod).filter(|_| matches!(operation.op, GrantOp::Update | GrantOp::Restart));
        let config = workload.and_then(|workload| self.reloads.mounted(workload));
        let running = |name: &String| {
            let status = pod.container(name).and_then(|container| container.status.as_ref());
            status.map(|status| status.container_id.clone()).unwrap_or_default()
        };
        Grant {
            id: intent.id(),
            epoch: self.snapshot.epoch,
            pod: pod.id.clone(),
            owner: operable.owner.cloned(),
            op: operation.op.clone(),
            mode: mode.mode.clone(),
            mode_reason: mode.reason.chars().take(Grant::LONGEST_MODE_REASON).collect(),
            unless_serving: mode.unless_serving,
            unless_in_flight: mode.unless_in_flight,
            unfetched: settings.is_unfetched(),
            containers: operation.containers.clone(),
            labels: operation.labels.clone(),
            annotations: operation.annotations.clone(),
            before: operation.containers.keys().map(|name| (name.clone(), running(name))).collect(),
            drain: settings.drain.clone(),
            verify: self.verify(operable, writes),
            hooks: settings.hooks.clone(),
            config: config.cloned().map(Box::new),
            rules: Vec::new(),
            granted: MicroTime(granted),
            ttl_seconds: Grant::DEFAULT_TTL_SECONDS + config.map_or(0, |_| MountedConfig::WAIT_SECONDS),
            while_unavailable: false,
            post_check: settings.has_post_check().then_some(PostCheck::Pending),
            waits: self.waits(pod, &operation.op, &mode.mode),
            stands: None,
            cancel: None,
        }
    }
}

impl Beginning<'_> {
    /// What is waited for if its Services are not open yet.
    fn opening_for(&self) -> Option<WaitReason> {
        let names = || self.services.iter().map(|service| service.name.as_str()).collect::<Vec<_>>().join(", ");
        self.opening.then(|| WaitReason::ServicePublishing(names()))
    }
}

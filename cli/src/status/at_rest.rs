//! What is said where pods are operated although no rollout is under way.

use std::collections::BTreeSet;

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantOp};
use hitless_rollout::round::WorkloadReport;
use hitless_workloads::requests::operation_job;
use hitless_workloads::restart;

use super::observe::Observer;
use super::report::{PodStatus, Restart, State};

/// Stage of a workload that has not opted in.
pub(super) const NOT_OPTED_IN: &str = "NotOptedIn";
/// Stage of one of which nothing is to be done.
pub(super) const IDLE: &str = "Idle";
/// Stage of one of which no operation begins, though some are wanted.
pub(super) const PAUSED: &str = "Paused";
/// Stage of one whose pods are restarted while no rollout is under way.
pub(crate) const RESTARTING: &str = "Restarting";
/// Stage of one of whose pods something else is done meanwhile.
pub(crate) const OPERATING: &str = "Operating";

/// Whether no rollout is under way: also of pods without a workload.
fn at_rest(stage: &str) -> bool {
    ["", NOT_OPTED_IN, IDLE].contains(&stage)
}

/// Whether something is being done to a pod, or is to be done.
const fn is_open(state: State) -> bool {
    state.is_moving() || matches!(state, State::Waiting)
}

/// The stage, where something is done to pods although no rollout is under way.
pub(super) fn operated(
    stage: &'static str,
    restarts: bool,
    workload: Option<&WorkloadReport>,
    pods: &[PodStatus],
) -> &'static str {
    let is_moving = pods.iter().any(|pod| pod.state.is_moving());
    match (at_rest(stage), restarts, is_moving) {
        (true, true, false) if workload.is_some_and(|workload| workload.paused.is_some()) => PAUSED,
        (true, true, _) => RESTARTING,
        (true, false, true) => OPERATING,
        (true, false, false) | (false, _, _) => stage,
    }
}

impl Observer<'_> {
    /// How far restarts are, where no rollout is under way: of those that were asked for together also the pods that have restarted.
    pub(super) fn restart(&self, stage: &str, all: &[&PodView], pods: &[PodStatus]) -> Option<Restart> {
        if !at_rest(stage) {
            return None;
        }
        let open: BTreeSet<&str> = pods.iter().filter(|pod| is_open(pod.state)).map(|pod| pod.uid.as_str()).collect();
        let is_open = |pod: &PodView| open.contains(pod.id.uid.as_str());
        let grant = |pod: &PodView| self.operations.get(pod.id.uid.as_str()).map(|operation| operation.grant);
        let (open, others): (Vec<&PodView>, Vec<&PodView>) = all.iter().copied().partition(|pod| {
            let is_granted = grant(pod).is_some_and(|grant| grant.op == GrantOp::Restart);
            is_open(pod) && (is_granted || self.wanted(pod) == Some(&GrantOp::Restart))
        });
        let tokens: BTreeSet<String> = open.iter().flat_map(|pod| self.tokens(pod, grant(pod))).collect();
        let has_restarted = |pod: &&&PodView| {
            pod.annotations.get(annotations::RESTARTED).is_some_and(|token| tokens.contains(restart::asked(token)))
                && !is_open(pod)
        };
        let restarted = others.iter().filter(has_restarted).count();
        (!open.is_empty()).then_some(Restart { restarted, total: restarted + open.len() })
    }

    /// Names of the restarts that the pod is to get: of its annotation, of the OperationJob that asks for it, of its grant.
    fn tokens(&self, pod: &PodView, grant: Option<&Grant>) -> Vec<String> {
        let job = self.explanation.pods.get(&pod.id.uid).and_then(|known| known.asked_by.as_ref());
        let annotated = restart::wanted(pod).map(|wanted| wanted.token);
        let granted = grant.and_then(restart::token_of).map(ToOwned::to_owned);
        [annotated, granted, job.map(|job| operation_job::token(&job.uid))].into_iter().flatten().collect()
    }
}

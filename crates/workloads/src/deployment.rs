//! A Deployment driven in place while it is paused (DESIGN §6).
//!
//! `paused` is Kubernetes' own word for "do not roll": the Deployment controller goes on scaling and reporting. Under it, in
//! this order, each step derived from what is observed and only one write at a time:
//!
//! 1. keep the template that is being left as an empty ReplicaSet (`kubectl rollout undo` needs it);
//! 2. give the live ReplicaSet the target template with a mark, so that it equals neither the old nor the new one:
//!    `kubectl rollout status` can't say "done" too early, and pods that are made meanwhile come up new;
//! 3. operate the pods;
//! 4. give the live ReplicaSet exactly the target, delete an empty twin of it, lift the pause. The Deployment controller finds
//!    "its" ReplicaSet up to date and has nothing to do.

mod history;
mod in_place;
mod live;
mod pods;
mod template;
mod view;
mod write;

use std::collections::BTreeSet;

use hitless_api::names::{annotations, labels};
use hitless_api::pod::PodView;

pub use in_place::first_native_change;
pub use template::Template;
pub use view::{DeploymentView, OptIn, ReplicaSetView};
pub use write::{Kind, ObjectVersion, Request, WorkloadWrite};

use crate::intent::{PodWish, share};
use pods::Need;

/// Why a template change is left to the Deployment controller, or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    /// This field can't be changed in a running pod.
    Field(String),
    /// Several ReplicaSets have pods: a native rollout was under way when the Deployment was paused.
    NativeRollout,
    /// No ReplicaSet that could be driven is there.
    NoReplicaSet,
}

/// Where a Deployment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has not opted in, or is being deleted.
    NotOurs,
    /// Nothing to do.
    Idle,
    /// The Deployment controller is rolling it.
    Native,
    /// Pods are brought to the target one after the other.
    Rolling,
    /// All pods are as the target says; the objects follow.
    Finishing,
    /// The pause is lifted and the Deployment controller rolls.
    SteppingAside(Because),
    /// The change is refused and waits: it can't be made in place, and nothing else is allowed.
    Refused(Because),
}

/// What is to be done for one Deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct DeploymentPlan {
    /// Where it is.
    pub stage: Stage,
    /// Paused by its owner and not by the guard: driven, and never un-paused by us.
    pub permanent: bool,
    /// The next write to the workload's objects.
    pub next_write: Option<WorkloadWrite>,
    /// Pods that may be operated now.
    pub wishes: Vec<PodWish>,
    /// Revision that pods are brought to, or are at.
    pub target: String,
    /// uids of the live ReplicaSet's pods that are not as the target says.
    pub behind: BTreeSet<String>,
    /// Pods of the live ReplicaSet.
    pub total: usize,
}

impl DeploymentPlan {
    /// Pods of the live ReplicaSet that are as the target says.
    #[must_use]
    pub fn up_to_date(&self) -> usize {
        self.total - self.behind.len()
    }

    /// Whether operations that lead to [`DeploymentPlan::target`] are still wanted.
    #[must_use]
    pub fn drives(&self) -> bool {
        match self.stage {
            Stage::Rolling | Stage::Finishing | Stage::Idle => true,
            Stage::NotOurs | Stage::Native | Stage::SteppingAside(_) | Stage::Refused(_) => false,
        }
    }
}

/// What is observed of one Deployment.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The Deployment.
    pub deployment: &'a DeploymentView,
    /// ReplicaSets that it controls; others are ignored.
    pub replica_sets: &'a [&'a ReplicaSetView],
    /// Pods of its ReplicaSets; others are ignored.
    pub pods: &'a [&'a PodView],
    /// uids of pods with an operation that has not ended: a rollout does not finish over them.
    pub operating: &'a BTreeSet<String>,
}

/// Derives the next step. The same input always gives the same plan, and carrying out a plan's write leads to the next step.
#[must_use]
pub fn plan(observed: Observed<'_>) -> DeploymentPlan {
    let deployment = observed.deployment;
    let owned: Vec<&ReplicaSetView> = observed
        .replica_sets
        .iter()
        .copied()
        .filter(|set| !set.deleting && set.owner.as_ref().is_some_and(|owner| owner.uid == deployment.uid))
        .collect();
    let live = live::live(&owned, &deployment.template);
    let planner = Planner { deployment, owned: &owned, observed: &observed, permanent: !deployment.marked() };
    if deployment.deleting {
        return planner.idle(Stage::NotOurs, None);
    }
    if deployment.opt_in() == OptIn::No {
        let settled = || planner.strip(&[labels::SETTLED]);
        return planner.idle(Stage::NotOurs, planner.let_go().or_else(settled));
    }
    let Some(live) = live else {
        let stage = if deployment.paused { Stage::SteppingAside(Because::NoReplicaSet) } else { Stage::Native };
        return planner.idle(stage, planner.let_go());
    };
    if live.settled_at(deployment).is_some_and(|settled| settled > deployment.generation) {
        // An old view of the Deployment: what was to be done at this generation has been done, or is wished no more.
        return planner.idle(Stage::Finishing, None);
    }
    if !deployment.paused {
        return planner.unpaused(live);
    }
    if live::is_split(live, &owned) {
        return planner.step_aside(Because::NativeRollout);
    }
    if let Some(field) = first_native_change(&live.template, &deployment.template) {
        return planner.step_aside(Because::Field(field));
    }
    planner.drive(live)
}

fn remove_twin(twin: &ReplicaSetView) -> WorkloadWrite {
    if twin.is_history() {
        return WorkloadWrite::DeleteTwin { replica_set: twin.into() };
    }
    WorkloadWrite::LabelTwin { replica_set: twin.into(), revision: twin.template.revision().to_owned() }
}

struct Planner<'a> {
    deployment: &'a DeploymentView,
    owned: &'a [&'a ReplicaSetView],
    observed: &'a Observed<'a>,
    permanent: bool,
}

impl Planner<'_> {
    fn idle(&self, stage: Stage, next_write: Option<WorkloadWrite>) -> DeploymentPlan {
        DeploymentPlan {
            stage,
            permanent: self.deployment.paused && self.permanent,
            next_write,
            wishes: Vec::new(),
            target: self.deployment.template.revision().to_owned(),
            behind: BTreeSet::new(),
            total: 0,
        }
    }

    /// Takes everything of ours off, then lifts the guard's pause. A pause without the mark is somebody else's.
    fn let_go(&self) -> Option<WorkloadWrite> {
        self.unmix().or_else(|| self.strip(&[labels::HISTORY, labels::LIVE])).or_else(|| self.unpause())
    }

    /// Gives a ReplicaSet that was left in mid-rollout the last template that was complete. An `undo` to it would carry the
    /// mark into the Deployment's template otherwise. Not if that is the Deployment's template: the Deployment controller
    /// would believe that all pods have it.
    fn unmix(&self) -> Option<WorkloadWrite> {
        let number = |set: &ReplicaSetView| -> Option<u64> {
            set.annotations.get(annotations::DEPLOYMENT_REVISION)?.parse().ok()
        };
        let mixed = self.owned.iter().find(|set| set.template.is_mixed())?;
        let complete = self.owned.iter().filter(|set| set.is_history() && !set.template.is_mixed());
        let last = complete.max_by_key(|set| number(set))?;
        (last.template.revision() != self.deployment.template.revision()).then(|| WorkloadWrite::SetExact {
            live: (*mixed).into(),
            template: last.template.for_replica_set(mixed.template.hash(), false),
            marked: mixed.is_marked_live(),
            settled: None,
        })
    }

    fn strip(&self, names: &[&'static str]) -> Option<WorkloadWrite> {
        self.owned.iter().find_map(|set| {
            let present: Vec<_> = names.iter().copied().filter(|name| set.labels.contains_key(*name)).collect();
            (!present.is_empty()).then(|| WorkloadWrite::StripLabels { replica_set: (*set).into(), labels: present })
        })
    }

    fn unpause(&self) -> Option<WorkloadWrite> {
        self.deployment.marked().then(|| WorkloadWrite::Unpause { deployment: self.deployment.into() })
    }

    fn step_aside(&self, because: Because) -> DeploymentPlan {
        let only = self.deployment.opt_in() == OptIn::InPlaceOnly && matches!(because, Because::Field(_));
        if self.permanent || only {
            return self.idle(Stage::Refused(because), None);
        }
        self.idle(Stage::SteppingAside(because), self.let_go())
    }

    fn unpaused(&self, live: &ReplicaSetView) -> DeploymentPlan {
        // A mark without a pause guards nothing.
        if let Some(write) = self.unpause() {
            return self.idle(Stage::Idle, Some(write));
        }
        if live.template.revision() == self.deployment.template.revision() && !live.template.is_mixed() {
            let mut plan = self.idle(Stage::Idle, self.strip(&[labels::LIVE]));
            let pods = self.pods(live);
            plan.total = pods.len();
            let behind = pods.iter().filter(|pod| !matches!(self.need(pod), Need::Nothing));
            plan.behind = behind.map(|pod| pod.id.uid.clone()).collect();
            return plan;
        }
        // The Deployment controller may need any of them now.
        self.idle(Stage::Native, self.strip(&[labels::HISTORY, labels::LIVE]))
    }

    fn drive(&self, live: &ReplicaSetView) -> DeploymentPlan {
        let target = &self.deployment.template;
        let pods = self.pods(live);
        let mut wishes: Vec<PodWish> = pods
            .iter()
            .filter_map(|pod| match self.need(pod) {
                Need::Nothing => None,
                Need::Operation(intent) => Some(PodWish { pod: pod.id.clone(), intent }),
            })
            .collect();
        share(&mut wishes);
        let total = pods.len();
        let behind: BTreeSet<String> = wishes.iter().map(|wish| wish.pod.uid.clone()).collect();
        let at_target = live.template.revision() == target.revision();
        let exact = at_target && !live.template.is_mixed();
        // At replicas 0 the Deployment controller would raise the newest ReplicaSet, which is history: end at once.
        let rolling = !wishes.is_empty() && self.deployment.replicas > 0;
        // Old pods that are about to go may be saved by a scale-up in the last moment.
        let settled = wishes.is_empty() && self.settled(live, &pods);
        // A pause of the owner's own, and nothing changed under it (CONTRACT 20).
        if self.permanent && exact {
            return DeploymentPlan { behind, total, ..self.idle(Stage::Idle, None) };
        }

        let mixed_missing = !(at_target && live.template.is_mixed());
        let next_write = if rolling {
            mixed_missing.then(|| self.first_history(live, || self.set_mixed(live)))
        } else if !exact && (settled || (self.deployment.replicas == 0 && !self.permanent)) {
            Some(self.first_history(live, || self.set_exact(live)))
        } else if !exact {
            mixed_missing.then(|| self.first_history(live, || self.set_mixed(live)))
        } else if let Some(twin) = self.twin(live) {
            let empty = twin.replicas == 0 && twin.status_replicas == 0;
            empty.then(|| remove_twin(twin))
        } else {
            self.end(live).filter(|_| settled)
        };
        let stage = if rolling { Stage::Rolling } else { Stage::Finishing };
        let wishes = if rolling && next_write.is_none() { wishes } else { Vec::new() };
        DeploymentPlan {
            stage,
            permanent: self.permanent,
            next_write,
            wishes,
            target: target.revision().to_owned(),
            behind,
            total,
        }
    }

    fn pods(&self, live: &ReplicaSetView) -> Vec<&PodView> {
        let of_live = |pod: &PodView| pod.owner.as_ref().is_some_and(|owner| owner.uid == live.uid);
        self.observed.pods.iter().copied().filter(|pod| of_live(pod) && !pod.terminating && !pod.finished).collect()
    }

    fn need(&self, pod: &PodView) -> Need {
        pods::need(pod, &self.deployment.template, self.owned.iter().map(|set| &set.template))
    }

    /// Whether the pods that are listed are all there are and will be: the ReplicaSet controller has seen the template that
    /// the live ReplicaSet has now, and counts as many pods as are listed and wished. A pod that it made from an older
    /// template a moment ago would be missed otherwise.
    fn settled(&self, live: &ReplicaSetView, pods: &[&PodView]) -> bool {
        live.observed_generation >= live.generation
            && usize::try_from(live.status_replicas).is_ok_and(|count| count == pods.len())
            && (live.status_replicas == live.replicas || live.failing)
            && !pods.iter().any(|pod| self.observed.operating.contains(&pod.id.uid))
    }

    /// `write`, but before it the entry that keeps the live template, if there is to be one. A mixed template was never
    /// complete and is not kept; with a limit below 2 the Deployment controller would delete the entry at once.
    fn first_history(&self, live: &ReplicaSetView, write: impl Fn() -> WorkloadWrite) -> WorkloadWrite {
        let leaving = live.template.revision();
        let kept = self
            .owned
            .iter()
            .any(|set| set.uid != live.uid && set.template.revision() == leaving && !set.template.is_mixed());
        let keep = self.deployment.revision_history_limit >= 2
            && !live.template.is_mixed()
            && leaving != self.deployment.template.revision()
            && !kept;
        if keep {
            WorkloadWrite::CreateHistory { replica_set: history::entry(self.deployment, live, self.owned) }
        } else {
            write()
        }
    }

    fn set_mixed(&self, live: &ReplicaSetView) -> WorkloadWrite {
        let template = self.deployment.template.for_replica_set(live.template.hash(), true);
        WorkloadWrite::SetMixed { live: live.into(), template }
    }

    fn set_exact(&self, live: &ReplicaSetView) -> WorkloadWrite {
        let template = self.deployment.template.for_replica_set(live.template.hash(), false);
        let settled = Some(self.deployment.settled_mark());
        WorkloadWrite::SetExact { live: live.into(), template, marked: live.is_marked_live(), settled }
    }

    /// Lifts the pause, but only over a live ReplicaSet that says so: a leader that has not seen the latest change of the
    /// Deployment might otherwise give it a mixed template after that, and the Deployment controller would roll natively.
    fn end(&self, live: &ReplicaSetView) -> Option<WorkloadWrite> {
        let unpause = self.unpause()?;
        if live.settled_at(self.deployment) == Some(self.deployment.generation) {
            return Some(unpause);
        }
        Some(WorkloadWrite::Settle { live: live.into(), settled: self.deployment.settled_mark() })
    }

    /// Another ReplicaSet with the same template as the live one; the Deployment controller takes the oldest of equals.
    fn twin(&self, live: &ReplicaSetView) -> Option<&ReplicaSetView> {
        let same = |set: &&&ReplicaSetView| {
            set.uid != live.uid && set.template.revision() == live.template.revision() && !set.template.is_mixed()
        };
        self.owned.iter().find(same).copied()
    }
}

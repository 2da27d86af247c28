//! A version that may start in a new pod only (docs/contract.md#bad-version): it is not judged bad before a new pod was tried, and its workload goes
//! natively. What a pod keeps over a restart (a file in an `emptyDir`) may keep a version, or any version, from starting in it; and one
//! that has run in a companion pod does start.

use hitless_api::{Outcome, TransitionResult};
use hitless_workloads::{OncePerPod, OptIn, Plan, Stage};
use jiff::Timestamp;

use crate::round::attempts::kept;
use crate::round::facts::Facts;
use crate::round::facts::companions::has_run;
use crate::round::facts::desired::DesiredState;
use crate::round::facts::endings::{Ended, Failure};
use crate::round::facts::images::Images;
use crate::round::facts::in_place_failed::InPlaceFailed;
use crate::snapshot::Snapshot;

/// Reasons of a way back whose version has crashed.
const CRASHES: &str = "CrashLoopBackOff";

/// Those that say that its image was not there for the pod.
const NOT_PULLED: [&str; 2] = ["ErrImagePull", "ImagePullBackOff"];

/// Those that say that its containers have not started, or not in time. Hooks and rules judge the version itself.
const NOT_STARTED: [&str; 7] = [
    CRASHES,
    "ProgressDeadlineExceeded",
    "CreateContainerError",
    "CreateContainerConfigError",
    "RunContainerError",
    NOT_PULLED[0],
    NOT_PULLED[1],
];

/// Why a version may start in a new pod only.
enum Unfit {
    /// The version before does not start in this pod any more either.
    Dead,
    /// It has run in its companion pod.
    RanInCompanion,
    /// Its image was on the node, and the pod could not have it: it lacks what new pods pull with.
    NotPulled,
    /// It has crashed, and in place this is not done again.
    Kept(OncePerPod),
}

/// Looks for such versions.
pub(crate) struct Unfits<'s, 'a> {
    pub(crate) desired: &'s DesiredState<'a>,
    pub(crate) ended: &'s Ended<'a>,
    pub(crate) images: &'s Images<'a>,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) now: Timestamp,
}

impl<'s, 'a> Unfits<'s, 'a> {
    pub(crate) fn of(facts: &'s Facts<'a, '_>, now: Timestamp) -> Self {
        let Facts { desired, ended, images, snapshot, .. } = facts;
        Self { desired, ended, images, snapshot, now }
    }

    /// Whether the workload goes natively, so that its version is not put back as a bad one.
    pub(crate) fn goes_natively(&self, index: usize) -> bool {
        may_roll(&self.desired.plans[index]) && self.words(index).is_some()
    }

    /// Whether new pods come natively, or are about to: what has failed in place halts nothing then.
    pub(crate) fn is_native(&self, index: usize) -> bool {
        matches!(self.desired.plans[index].stage, Stage::Native | Stage::SteppingAside(_)) || self.goes_natively(index)
    }

    /// Why new pods are needed, for people.
    pub(crate) fn words(&self, index: usize) -> Option<String> {
        let before = || InPlaceFailed::before(index, self.desired).map(|before| before.words());
        self.old_secrets(index).or_else(|| self.of_failure(index)).or_else(before)
    }

    /// What the next rollout is to know of this one. Where a new pod pulls with other secrets, all later ones have them, too.
    pub(crate) fn lesson(&self, index: usize) -> Option<InPlaceFailed> {
        let plan = &self.desired.plans[index];
        match self.find(index) {
            None => InPlaceFailed::before(index, self.desired).map(|before| before.again(plan, self.now)),
            Some((_, Unfit::NotPulled)) => None,
            Some((failure, unfit)) => {
                let root = self.desired.world.object(&plan.workload.uid)?;
                Some(InPlaceFailed::of(plan, root, seen(failure, &unfit), self.now))
            }
        }
    }

    /// A pod can't pull with the secrets that it was made with.
    fn old_secrets(&self, index: usize) -> Option<String> {
        let own = self.desired.plans[index]
            .desired
            .iter()
            .filter_map(|wanted| self.desired.by_pod.get(wanted.pod.uid.as_str()));
        own.filter(|wanted| wanted.workload == Some(index)).find_map(|wanted| {
            let template = self.desired.template_of(wanted)?;
            let why = self.images.old_secrets(wanted.pod, wanted.intent.as_ref().ok()?, template)?;
            Some(format!("{why}, so new pods are needed"))
        })
    }

    fn of_failure(&self, index: usize) -> Option<String> {
        let (failure, unfit) = self.find(index)?;
        let follows = match unfit {
            Unfit::Dead | Unfit::RanInCompanion => "so new pods are needed",
            Unfit::NotPulled | Unfit::Kept(_) => "so new pods are tried",
        };
        Some(format!("{}, {follows}", seen(failure, &unfit)))
    }

    /// The operation that shows it. What all pods need may be away, and then it starts once that is back.
    fn find(&self, index: usize) -> Option<(&Failure<'a>, Unfit)> {
        self.of_version(index).or_else(|| Some((self.left_behind(index)?, Unfit::Dead)))
    }

    /// Of an earlier version, from which the owner has gone back meanwhile: the pod has the version that is wanted, and does not start
    /// with it any more.
    fn left_behind(&self, index: usize) -> Option<&Failure<'a>> {
        let plan = &self.desired.plans[index];
        let mut dead = self.ended.not_ready_after_end.iter().filter(|failure| is_dead(failure) && !failure.outside);
        dead.find(|failure| {
            let pod = self.desired.pods.get(failure.grant.pod.uid.as_str()).filter(|pod| !pod.ready());
            pod.is_some_and(|pod| self.desired.workload_of(pod) == Some(index) && !plan.behind.contains(&pod.id.uid))
        })
    }

    fn of_version(&self, index: usize) -> Option<(&Failure<'a>, Unfit)> {
        let plan = &self.desired.plans[index];
        let failures = self.ended.failures.iter().filter(|failure| failure.workload == Some(index));
        let mut failures = failures.filter(|failure| !failure.outside);
        failures.find_map(|failure| {
            let pod = self.desired.pods.get(failure.grant.pod.uid.as_str());
            if is_dead(failure) && pod.is_none_or(|pod| !pod.ready()) {
                return Some((failure, Unfit::Dead));
            }
            if !is_undone(failure, &NOT_STARTED) {
                return None;
            }
            if has_run(plan, self.snapshot, self.now) {
                return Some((failure, Unfit::RanInCompanion));
            }
            if is_undone(failure, &NOT_PULLED) && !failure.grant.unfetched {
                return Some((failure, Unfit::NotPulled));
            }
            let root = self.desired.world.object(&plan.workload.uid).filter(|_| is_undone(failure, &[CRASHES]))?;
            Some((failure, Unfit::Kept(kept(root)?)))
        })
    }
}

/// What has happened in place, for people.
fn seen(failure: &Failure<'_>, unfit: &Unfit) -> String {
    let (pod, reason) = (&failure.grant.pod.name, &failure.result.reason);
    match unfit {
        Unfit::Dead => format!("pod {pod} does not start again with the version before either"),
        Unfit::RanInCompanion => {
            format!("the version has run in its companion pod, and did not start in place in pod {pod} ({reason})")
        }
        Unfit::NotPulled => {
            format!("the image of the version was on its node, and pod {pod} could not pull it ({reason})")
        }
        Unfit::Kept(kept) => format!("the version did not start in place in pod {pod} ({reason}), where {kept}"),
    }
}

pub(crate) fn may_roll(plan: &Plan) -> bool {
    let is_rolling = matches!(plan.stage, Stage::Rolling | Stage::Finishing);
    is_rolling && plan.opt_in == OptIn::InPlace && !plan.permanent
}

fn is_dead(failure: &Failure<'_>) -> bool {
    let result = failure.result;
    result.outcome == Outcome::Failed && result.reason == TransitionResult::ROLLBACK_NOT_READY
}

fn is_undone(failure: &Failure<'_>, reasons: &[&str]) -> bool {
    failure.result.outcome == Outcome::RolledBack && reasons.contains(&failure.result.reason.as_str())
}

/// What an owner who lets no pod be made anew is told of a version that was undone: a new pod might start.
pub(crate) fn hint(failure: &Failure<'_>, desired: &DesiredState<'_>, plan: &Plan) -> Option<String> {
    let root = desired.world.object(&plan.workload.uid).filter(|_| is_undone(failure, &[CRASHES]))?;
    Some(format!("in place {}, and its owner lets no pod be made anew: a new pod may start", kept(root)?))
}

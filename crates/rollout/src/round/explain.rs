//! The same round, and what a person wants to know beside: where each workload is, everything that is in the way of a pod, and
//! what would be said of a pod that wants nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hitless_api::grant::ImageChange;
use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantOp, ObjectRef, Phase, PodRef};
use hitless_gate::{Allows, Candidate, Lasting, Reason, Verdict};
use hitless_workloads::{Object, OptIn, Pause, PodIntent, Stage, Write, registry, restart};
use jiff::Timestamp;

use crate::gate_cache::GateCache;
use crate::mode::{Forecast, Gaps, Mode};
use crate::round::facts::desired::{DesiredState, PodOperation};
use crate::round::facts::endings::Failure;
use crate::round::facts::inoperable::Inoperable;
use crate::round::facts::lost::Lost;
use crate::round::facts::reload::{Reload, Reloads};
use crate::round::facts::unfit::Unfits;
use crate::round::features::events;
use crate::round::lasting::Roots;
use crate::round::wait_reason::WaitReason;
use crate::round::{Finished, Pass, PodVerdict, Round};
use crate::snapshot::Snapshot;

/// A round and its reasons.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// The round, as [`super::round`] decides it.
    pub round: Round,
    /// Every workload, also those that have not opted in.
    pub workloads: Vec<WorkloadReport>,
    /// Every pod by its uid.
    pub pods: BTreeMap<String, PodReport>,
}

/// Where a workload is.
#[derive(Clone, Debug)]
pub struct WorkloadReport {
    /// The workload.
    pub id: ObjectRef,
    /// It has opted in.
    pub opted_in: bool,
    /// What its annotation for the opt-in says, if that means nothing.
    pub unknown_opt_in: Option<String>,
    /// The guard policy's mark is on it.
    pub held: bool,
    /// How many pods it is meant to have.
    pub replicas: u32,
    /// So many more may be there to stay.
    pub surplus: u32,
    /// Where it is.
    pub stage: Stage,
    /// Why its change is not made in place, if it is not.
    pub why: Option<String>,
    /// It goes natively, and has not got on in time, as its controller says.
    pub overdue: Option<String>,
    /// Paused by its owner, and driven under that pause.
    pub permanent: bool,
    /// Why no operation of its pods begins, if none does.
    pub paused: Option<Pause>,
    /// Revision that pods are brought to, or are at.
    pub target: String,
    /// uids of its pods that are not as the target says.
    pub behind: BTreeSet<String>,
    /// Pods that count.
    pub total: usize,
    /// What is to be written to its own objects next.
    pub writes: Vec<Write>,
    /// How it stands if its pods restart when a ConfigMap or Secret changes.
    pub reload: Option<Reload>,
    /// What its pods would wait for, whatever is wanted for them, if their drain, mode or hooks make no sense.
    pub inoperable: Option<WaitReason>,
    /// Operations that have failed on the way to the target: the pod, and outcome and reason. None where new pods come natively.
    pub failures: Vec<(PodRef, String)>,
}

/// What there is to know of a pod.
#[derive(Clone, Debug, Default)]
pub struct PodReport {
    /// `<kind>/<name>` of its workload, the kind in lower case; `pod/<name>` of one that nobody owns.
    pub workload: String,
    /// What is wanted and has not ended.
    pub wanted: Option<GrantOp>,
    /// The object whose request it is, such as an OperationJob; nothing of what the workload or an annotation wants.
    pub asked_by: Option<ObjectRef>,
    /// What the round says of it.
    pub verdict: Option<PodVerdict>,
    /// What it takes until it goes on: where it waits for the turn of another pod, what that one waits for.
    pub lasting: Option<Lasting>,
    /// Its operation has failed, and halts its workload or the pod itself.
    pub halts: bool,
    /// What was asked for.
    pub details: Option<Details>,
}

/// More about one pod.
#[derive(Clone, Debug)]
pub struct Details {
    /// What the round says of it. Of a pod of which it says nothing: what it would say if that pod alone wanted an operation.
    pub verdict: PodVerdict,
    /// All that is in the way but rules. The first is what the verdict says.
    pub in_the_way: Vec<WaitReason>,
    /// What the rules say; if the round did not ask them: what they would say of this pod alone. Of a pod whose operation waits
    /// for them at its end: the rules of stage PostCheck.
    pub rules: Option<Verdict>,
    /// What its containers get, by name: as it was granted, or as it would be now. Where a digest was chosen it is named.
    pub images: BTreeMap<String, ImageChange>,
    /// Leave or Hold: as it was granted, or as it would be now. `None` if it can't be operated, or not enough was read.
    pub expected: Option<Forecast>,
}

/// Decides as [`super::round`] does and says why, with [`Details`] of the pods for which `asked` holds.
#[must_use]
pub fn explain(
    snapshot: &Snapshot,
    cache: &mut GateCache,
    now: Timestamp,
    asked: impl Fn(&PodView) -> bool,
) -> Explanation {
    let pass = match Pass::begin(snapshot, cache, now) {
        Ok(pass) => pass,
        Err(round) => return Explanation { round: *round, ..Explanation::default() },
    };
    let of_interest = snapshot.pods.iter().map(|pod| &**pod).filter(|pod| asked(pod));
    let mut details: HashMap<&str, Details> =
        of_interest.filter_map(|pod| Some((pod.id.uid.as_str(), pass.details(pod)?))).collect();
    let Finished { round, desired, ended, images, lost, reloads, inoperable } = pass.finish();
    let mut verdicts: HashMap<&str, &PodVerdict> =
        round.verdicts.iter().map(|verdict| (verdict.pod.uid.as_str(), verdict)).collect();
    let roots = Roots::of(&round.verdicts);
    let unfits = Unfits { desired: &desired, ended: &ended, images: &images, snapshot, now };
    let failures = ended.halting().filter(|failure| !failure.workload.is_some_and(|index| unfits.is_native(index)));
    let failures: Vec<&Failure<'_>> = failures.collect();
    let halting: BTreeSet<&str> = failures.iter().map(|failure| failure.grant.pod.uid.as_str()).collect();
    let pods = snapshot.pods.iter().map(|pod| {
        let uid = pod.id.uid.as_str();
        let verdict = verdicts.remove(uid);
        let report = PodReport {
            workload: label(&desired, pod),
            wanted: op(&desired, pod),
            asked_by: desired.by_pod.get(uid).and_then(|wanted| wanted.asked_by.clone()),
            lasting: verdict.map(|verdict| roots.root(verdict).lasting()),
            halts: halting.contains(uid),
            details: details.remove(uid).map(|found| found.with(verdict, snapshot)),
            verdict: verdict.cloned(),
        };
        (pod.id.uid.clone(), report)
    });
    let pods = pods.collect();
    let workloads = workloads(snapshot, &desired, &failures, &lost, &reloads, &inoperable);
    Explanation { round, workloads, pods }
}

impl<'a> Pass<'a, '_> {
    /// As far as it can be told before the round is over.
    fn details(&self, pod: &'a PodView) -> Option<Details> {
        let (facts, writes) = (&self.facts, &self.writes);
        let (uid, ended) = (pod.id.uid.as_str(), &facts.ended);
        let needed = facts.desired.by_pod.get(uid);
        let assumed = || PodOperation::assumed(pod, PodIntent::assumed(pod), facts.desired.workload_of(pod));
        let wanted = needed.cloned().unwrap_or_else(assumed);
        let is_under_way = ended.busy.contains(uid) || ended.regrant.contains_key(uid);
        let mut in_the_way: Vec<WaitReason> = facts.in_the_way(&wanted, writes).collect();
        let expected = match (self.granted(pod), facts.settings(&wanted)) {
            (Some(granted), _) => Some(granted),
            (None, Ok(settings)) if super::wait_reason::of_pod(pod).is_none() => {
                let serving = |other: &PodView| facts.serving(other, writes);
                let start = |serves| settings.start(pod, &facts.traffic, &serving, serves).ok();
                let mode = start(false).map(|start| start.mode);
                let mut operable = facts.candidates([(&uid, &wanted)], writes.clone()).operable;
                let serves = |mode: &Mode| operable.remove(uid).is_some_and(|pod| facts.expects_companion(&pod, mode));
                let mode = if mode.as_ref().is_some_and(serves) { start(true).map(|start| start.mode) } else { mode };
                mode.map(|mode| Forecast::of(pod, &settings, mode, &facts.traffic, &serving))
            }
            (None, Ok(_)) => None,
            (None, Err(waiting)) => {
                in_the_way.extend((pod.node.is_some() && wanted.removal.is_none()).then_some(waiting));
                None
            }
        };
        let rules = if is_under_way {
            self.post_check(pod)
        } else if (in_the_way.is_empty() && needed.is_some()) || pod.terminating {
            // The round asks them; and of one that is being deleted nobody does.
            None
        } else {
            let operation = wanted.intent.as_ref().map(PodIntent::id).unwrap_or_default();
            let op = wanted.intent.as_ref().ok().map(|intent| &intent.operation.op);
            let candidate = Candidate { absence: facts.absence(pod, op), ..Candidate::of(pod, operation) };
            facts.gate.decide(&[candidate], &facts.snapshot.approvals, writes.now).pop()
        };
        let granted = unfinished(self.facts.snapshot, pod).map(|grant| &grant.containers);
        let changes = needed.and_then(|wanted| wanted.intent.as_ref().ok()).map(|intent| &intent.operation.containers);
        let images = granted.or(changes).cloned().unwrap_or_default();
        // What the round would say if this were the only operation that is wanted.
        let alone = facts.candidates([(&uid, &wanted)], writes.clone()).resume(facts).judge(facts).grant(facts);
        let mut verdict = alone.verdicts.into_iter().next_back()?;
        if needed.is_none() {
            // What we do first keeps it from nothing.
            verdict.waiting = verdict.waiting.filter(|waiting| !waiting.is_own_step());
        }
        Some(Details { verdict, in_the_way, rules, images, expected })
    }

    /// The mode of an operation that has not ended.
    fn granted(&self, pod: &'a PodView) -> Option<Forecast> {
        let grant = unfinished(self.facts.snapshot, pod)?;
        let desired = &self.facts.desired;
        let gaps = desired.workload_of(pod).and_then(|index| desired.plans[index].gaps.as_deref());
        Some(Forecast::granted(grant, Gaps::parse(gaps).longest()))
    }

    /// What the rules of stage PostCheck say of a pod whose operation has been verified; `None` if it is not that far.
    fn post_check(&self, pod: &PodView) -> Option<Verdict> {
        let snapshot = self.facts.snapshot;
        let grant = unfinished(snapshot, pod)?;
        let reports = snapshot.node_transitions.values().find_map(|node| node.transition(grant))?;
        let candidate = (reports.phase == Phase::Checking).then(|| Candidate::of(pod, grant.id.clone()))?;
        let mut verdict = self.facts.gate.post_check(&candidate, &snapshot.approvals, self.writes.now);
        verdict.rules.retain(|rule| !matches!(rule.because, Reason::Allows(Allows::OtherStage { .. })));
        Some(verdict)
    }
}

impl Details {
    /// With what the round has said of the pod, if it has.
    fn with(mut self, decided: Option<&PodVerdict>, snapshot: &Snapshot) -> Self {
        if let Some(verdict) = decided {
            self.verdict = verdict.clone();
        }
        if let Some(gate) = &self.verdict.gate {
            self.rules = Some(gate.clone());
        }
        self.in_the_way = match &self.verdict.waiting {
            None | Some(WaitReason::Rules) => Vec::new(),
            // Of a pod that is being operated nothing else is of interest.
            Some(WaitReason::InProgress) => vec![WaitReason::InProgress],
            Some(first) if self.in_the_way.contains(first) => {
                // It has failed; until that is proven by a read, its reservation stays.
                self.in_the_way.retain(|waiting| *waiting != WaitReason::InProgress);
                self.in_the_way
            }
            Some(first) => vec![first.clone()],
        };
        if let Some(expected) = &self.verdict.expected {
            self.expected = Some(expected.clone());
        }
        let is_open = self.verdict.waiting.as_ref().is_some_and(WaitReason::leaves_mode_open);
        self.expected = self.expected.filter(|_| !snapshot.unknown.modes && !is_open);
        self
    }

    /// Whether a rule says no.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.rules.iter().flat_map(|rules| &rules.rules).any(|rule| !rule.is_allowed())
    }
}

fn unfinished<'a>(snapshot: &'a Snapshot, pod: &PodView) -> Option<&'a Grant> {
    let node = snapshot.node_transitions.get(pod.node.as_ref()?)?;
    node.unfinished().find(|grant| grant.pod.uid == pod.id.uid)
}

fn label<'a>(desired: &DesiredState<'a>, pod: &'a PodView) -> String {
    desired.owner(pod).map_or_else(|| format!("pod/{}", pod.id.name), ObjectRef::target)
}

/// What is wanted for the pod, also where the workload's own objects are written first.
fn op<'a>(desired: &DesiredState<'a>, pod: &'a PodView) -> Option<GrantOp> {
    if pod.terminating || pod.finished {
        return None;
    }
    let wanted = desired.by_pod.get(pod.id.uid.as_str());
    if let Some(intent) = wanted.and_then(|wanted| wanted.intent.as_ref().ok()) {
        return Some(intent.operation.op.clone());
    }
    let plan = desired.workload_of(pod).map(|index| &desired.plans[index]);
    let is_behind = plan.is_some_and(|plan| {
        matches!(plan.stage, Stage::Rolling | Stage::Finishing) && plan.behind.contains(&pod.id.uid)
    });
    if is_behind {
        return Some(GrantOp::Update);
    }
    restart::wanted(pod).map(|_| GrantOp::Restart)
}

impl WorkloadReport {
    /// `<kind>/<name>` as users write it for a target: the kind in lower case.
    #[must_use]
    pub fn name(&self) -> String {
        self.id.target()
    }
}

fn workloads(
    snapshot: &Snapshot,
    desired: &DesiredState<'_>,
    failures: &[&Failure<'_>],
    lost: &Lost<'_>,
    reloads: &Reloads,
    inoperable: &Inoperable,
) -> Vec<WorkloadReport> {
    let index: HashMap<&str, usize> =
        desired.plans.iter().enumerate().map(|(index, plan)| (plan.workload.uid.as_str(), index)).collect();
    let report = |object: &Object| {
        let known = index.get(object.id.uid.as_str()).copied();
        let plan = known.map(|index| &desired.plans[index]);
        let size = registry::size(object);
        let failures = failures.iter().filter(|failure| known.is_some() && failure.workload == known);
        WorkloadReport {
            id: object.id.clone(),
            opted_in: object.opt_in() != OptIn::No,
            unknown_opt_in: object.unknown_opt_in().map(ToOwned::to_owned),
            held: object.held_by_guard(),
            replicas: size.map_or(0, |size| size.desired),
            surplus: size.map_or(0, |size| size.surplus),
            stage: plan.map_or(Stage::NotOurs, |plan| plan.stage.clone()),
            why: plan.and_then(|plan| {
                events::large(object).or_else(|| match &plan.stage {
                    Stage::SteppingAside(because) | Stage::Refused(because) | Stage::Halted(because) => {
                        Some(because.text.clone())
                    }
                    Stage::Finishing => lost.keeps(desired, plan),
                    Stage::NotOurs | Stage::Idle | Stage::Native | Stage::Rolling => None,
                })
            }),
            overdue: plan
                .filter(|plan| plan.stage == Stage::Native)
                .and_then(|_| registry::of_workload(&object.id.group_kind)?.overdue(object).map(ToOwned::to_owned)),
            permanent: plan.is_some_and(|plan| plan.permanent),
            paused: object.pause(),
            target: plan.map(|plan| plan.target.clone()).unwrap_or_default(),
            behind: plan.map(|plan| plan.behind.clone()).unwrap_or_default(),
            total: plan.map_or(0, |plan| plan.total),
            writes: plan.map(|plan| plan.writes.clone()).unwrap_or_default(),
            reload: known.and_then(|index| reloads.of(index)).cloned(),
            inoperable: known.and_then(|index| inoperable.get(&index)).cloned(),
            failures: failures.map(|failure| (failure.grant.pod.clone(), failure.reason())).collect(),
        }
    };
    let workloads = snapshot.objects.iter().filter(|object| registry::is_workload(&object.id.group_kind));
    workloads.map(|object| report(object)).collect()
}

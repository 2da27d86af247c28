//! Which pods nothing but the rules can keep from being operated.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantOp, Wait};
use hitless_gate::{Candidate, Verdict};
use hitless_workloads::{Obstacle, Operation, registry};
use jiff::{SignedDuration, Timestamp};

use crate::mode::{Forecast, Gaps, OperationSettings, PodContext, Serving, WorkloadFacts, start_seconds};
use crate::round::facts::Facts;
use crate::round::facts::desired::PodOperation;
use crate::round::facts::endings::Failure;
use crate::round::facts::learned::Learned;
use crate::round::operable::Operable;
use crate::round::pod_verdict::PodVerdict;
use crate::round::removals::Removable;
use crate::round::wait_reason::WaitReason;
use crate::round::write_plan::WritePlan;

/// For so long pods wait for what the first one of their workload teaches.
const LESSON: SignedDuration = SignedDuration::from_secs(30);

/// Pods that wait and before which no later one of their workload goes: the first of each workload, by its place.
#[derive(Default)]
pub(crate) struct InTurn<'a>(BTreeMap<usize, (i32, &'a str)>);

impl<'a> InTurn<'a> {
    /// The pod waits.
    pub(crate) fn wait(&mut self, workload: Option<usize>, rank: i32, pod: &'a PodView) {
        let Some(workload) = workload else { return };
        let place = (rank, pod.id.name.as_str());
        let known = self.0.entry(workload).or_insert(place);
        *known = place.min(*known);
    }

    /// Name of the one that comes before this place.
    fn before(&self, workload: usize, rank: i32) -> Option<&'a str> {
        self.0.get(&workload).filter(|(first, _)| *first < rank).map(|(_, name)| *name)
    }
}

/// Those that only rules can keep, and what is said of the others.
pub(crate) struct Candidates<'a> {
    pub(crate) writes: WritePlan<'a>,
    /// Pods that serve nobody, which nothing but the rules can keep from being deleted.
    pub(crate) removable: Vec<Removable<'a>>,
    pub(crate) operable: HashMap<&'a str, Operable<'a>>,
    pub(crate) verdicts: Vec<PodVerdict>,
}

impl<'a> Facts<'a, '_> {
    /// Of the pods that want these operations, once the planned writes have what has ended.
    pub(crate) fn candidates<'w>(
        &self,
        desired: impl IntoIterator<Item = (&'w &'a str, &'w PodOperation<'a>)>,
        writes: WritePlan<'a>,
    ) -> Candidates<'a>
    where
        'a: 'w,
    {
        let unseen = self.unseen(&writes);
        let (mut operable, mut removable, mut verdicts) = (HashMap::new(), Vec::new(), Vec::new());
        let mut in_turn = InTurn::default();
        for (uid, wanted) in desired {
            let is_counted = || {
                let is_uncounted = unseen.contains(wanted.pod.id.namespace.as_str())
                    || ((!unseen.is_empty() || self.snapshot.uncounted) && self.gate.counts_cluster_wide(uid));
                if is_uncounted { Err(WaitReason::PodNotCached) } else { Ok(()) }
            };
            if let Some(removal) = wanted.removal {
                match self.removable(wanted, removal, &writes).and_then(|found| is_counted().map(|()| found)) {
                    Ok(found) => removable.push(found),
                    Err(waiting) => verdicts.push(self.verdict(wanted.pod, Err(waiting), None)),
                }
                continue;
            }
            let found = self.candidate(wanted, &writes).and_then(|found| is_counted().map(|()| found));
            match found {
                Ok(found) => _ = operable.insert(*uid, found),
                Err(waiting) => {
                    if matches!(waiting, WaitReason::ImagePulling { .. } | WaitReason::ImageNotFetched { .. }) {
                        in_turn.wait(wanted.workload, wanted.rank, wanted.pod);
                    }
                    verdicts.push(self.verdict(wanted.pod, Err(waiting), None));
                }
            }
        }
        // Where pods go in order, none goes before one whose image is not there.
        let overtaking = operable.iter().filter_map(|(uid, pod)| Some((*uid, self.not_its_turn(&in_turn, pod)?)));
        for (uid, waiting) in overtaking.collect::<Vec<_>>() {
            if let Some(pod) = operable.remove(uid) {
                verdicts.push(self.verdict(pod.pod, Err(waiting), None));
            }
        }
        Candidates { writes, removable, operable, verdicts }
    }

    fn candidate(&self, wanted: &PodOperation<'a>, writes: &WritePlan<'a>) -> Result<Operable<'a>, WaitReason> {
        let pod = wanted.pod;
        if let Some(waiting) = self.in_the_way(wanted, writes).next() {
            return Err(waiting);
        }
        let intent = wanted.intent.clone().map_err(WaitReason::Obstacle)?;
        let Some(node) = pod.node.as_deref() else { return Err(WaitReason::NotScheduled) };
        if wanted.workload.is_some_and(|workload| self.reloads.restarts_soon(workload, writes.now)) {
            return Err(WaitReason::Reload);
        }
        let settings = self.settings(wanted)?;
        let operable = Operable { pod, node, intent, settings, owner: self.desired.owner(pod), rank: wanted.rank };
        let is_prefetched_only = wanted.workload.is_some_and(|index| self.desired.plans[index].prefetch_only);
        if let Some(waiting) = self.images.waiting(pod, &operable.intent) {
            return if !is_prefetched_only && self.goes_natively(&operable, writes) {
                Ok(operable)
            } else {
                Err(waiting)
            };
        }
        if let Some(waiting) = self.images.without_digest(&operable.intent) {
            return Err(waiting);
        }
        if is_prefetched_only {
            let waiting = self.images.waiting_to_be_fetched(pod, &operable.intent);
            return Err(waiting.unwrap_or(WaitReason::PrefetchOnly));
        }
        if let Some(waiting) = self.agent_is_too_old(node, pod, &operable.intent.operation) {
            return Err(waiting);
        }
        if !pod.gated && self.is_protected(pod, &operable.intent.operation.op) {
            return Err(WaitReason::NoReadinessGate(
                "and a finalizer of others or a hook of its workload wants it out of service",
            ));
        }
        if operable.intent.operation.op == GrantOp::Foreign {
            return Ok(operable);
        }
        self.stuck_companion(&operable).map_or(Ok(operable), Err)
    }

    /// Index of the plan of the workload that the operation is a part of. One of others is none: it follows no order, and tries no
    /// version.
    pub(crate) fn workload_of_operation(&self, operable: &Operable<'_>) -> Option<usize> {
        match operable.intent.operation.op {
            GrantOp::Foreign => None,
            GrantOp::Update | GrantOp::Restart | GrantOp::Relabel | GrantOp::Drain | GrantOp::Unknown(_) => {
                self.desired.workload_of(operable.pod)
            }
        }
    }

    /// The agent of the node has said what it can do, and this operation is not among it.
    fn agent_is_too_old(&self, node: &str, pod: &PodView, operation: &Operation) -> Option<WaitReason> {
        let (feature, cannot) = if operation.op == GrantOp::Foreign {
            (GrantOp::FOREIGN_FEATURE, "let others operate a pod")
        } else if operation.op == GrantOp::Relabel {
            (GrantOp::RELABEL_FEATURE, "change labels without replacing a container")
        } else if operation.annotations.contains_key(annotations::DECORATIONS) {
            (Grant::DECORATIONS_FEATURE, "write which PodDecorations a pod has")
        } else if operation.template_annotations().next().is_some() {
            (Grant::ANNOTATIONS_FEATURE, "change annotations of a pod's template")
        } else if self.is_protected(pod, &operation.op) {
            (Wait::FEATURE, "wait for finalizers of others")
        } else {
            return None;
        };
        let agent = self.snapshot.node_transitions.get(node)?.agent.as_ref()?;
        (!agent.can(feature)).then(|| WaitReason::AgentTooOld { node: node.to_owned(), cannot })
    }

    /// Whether a pod of its workload that comes before it waits. One that is not available anyway has no turn: those before it may wait
    /// for nothing but that it serves again.
    pub(crate) fn not_its_turn(&self, in_turn: &InTurn<'_>, pod: &Operable<'_>) -> Option<WaitReason> {
        let workload = self.workload_of_operation(pod).filter(|_| pod.pod.available())?;
        let first = in_turn.before(workload, pod.rank)?;
        let kind = registry::of_workload(&self.desired.plans[workload].workload.group_kind)?;
        let kind = kind.resources().first().map_or("", |own| own.group_kind.kind.as_ref());
        Some(WaitReason::Obstacle(Obstacle::NotItsTurn { kind, first: first.to_owned() }))
    }

    /// Namespaces with an operated pod that our cache does not have (yet): what it takes from a budget can't be counted.
    fn unseen(&self, writes: &WritePlan<'a>) -> BTreeSet<&'a str> {
        let unknown = |uid: &String| !self.desired.pods.contains_key(uid.as_str());
        let snapshot = self.snapshot;
        let reserved = snapshot
            .ledgers
            .keys()
            .filter(|namespace| writes.ledger(namespace).is_some_and(|ledger| ledger.reservations.keys().any(unknown)));
        let granted = snapshot.node_transitions.iter().flat_map(|(node, known)| {
            let kept = |id: &String| writes.grants(node).iter().any(|grant| grant.id == *id);
            known.unfinished().filter(move |grant| unknown(&grant.pod.uid) && kept(&grant.id))
        });
        let namespaces = reserved.map(String::as_str).chain(granted.map(|grant| grant.pod.namespace.as_str()));
        namespaces.filter(|namespace| snapshot.unknown.lists(namespace)).collect()
    }

    /// What holds for the pod of the operation.
    pub(crate) fn settings(&self, wanted: &PodOperation<'_>) -> Result<OperationSettings, WaitReason> {
        let node = wanted.pod.node.as_deref().unwrap_or_default();
        let mut workload = wanted.workload.map(|index| self.workload_facts(index)).unwrap_or_default();
        let is_unfetched =
            wanted.intent.as_ref().is_ok_and(|intent| self.images.not_fetched(wanted.pod, intent).is_some());
        if is_unfetched {
            // The pull comes on top, and nobody knows how long that takes.
            workload.gap_milliseconds = None;
        }
        let context = PodContext {
            pod: wanted.pod,
            workload,
            post_check: self.gate.has_post_check(&wanted.pod.id.uid, || Candidate::of(wanted.pod, String::new())),
            agent: self.snapshot.node_transitions.get(node).map(|known| known.agent_status()).unwrap_or_default(),
            operation: wanted.intent.as_ref().ok().map(|intent| &*intent.operation),
            delay_seconds: wanted.delay_seconds,
            is_unfetched,
        };
        let settings = OperationSettings::of(context, &self.policies, &self.traffic);
        settings.map_err(|why| WaitReason::not_operable(why, node))
    }

    fn workload_facts(&self, index: usize) -> WorkloadFacts<'_> {
        let known = WorkloadFacts::of(&self.desired.plans[index]);
        let plan = &self.desired.plans[index];
        let learned = self.learned.get(&index);
        let of_target = |gaps: &Gaps| gaps.of(&plan.target);
        let news = |learned: &Learned| {
            let parse = |news: &Option<Gaps>, known: &Option<String>| {
                news.clone().unwrap_or_else(|| Gaps::parse(known.as_deref()))
            };
            parse(&learned.to_ready, &plan.gaps_to_ready).since(&parse(&learned.to_listen, &plan.gaps), &plan.target)
        };
        let longest = learned.and_then(|learned| learned.to_listen.as_ref()?.longest()).max(known.gap_milliseconds);
        let ready = learned.and_then(|learned| learned.to_ready.as_ref().and_then(of_target));
        // A companion shows how long a start takes, and never how long the process before takes to stop: what it shows makes a gap
        // longer that was seen, and none known.
        let start = self.companions.start_milliseconds(plan);
        let shown = || longest.map(|gap| gap.saturating_add(start.unwrap_or_default())).filter(|_| start.is_some());
        WorkloadFacts {
            gap_milliseconds: longest.map(|gap| gap.max(start.unwrap_or_default())),
            ready_milliseconds: ready.max(known.ready_milliseconds).or_else(shown),
            unready_milliseconds: learned.map_or(known.unready_milliseconds, news),
            losses: self.losses.get(&index).map(|known| &known.losses),
            ..known
        }
    }

    /// The pod of the same workload that is being operated as the first one, and that will teach how long the workload is away.
    /// Nobody waits for one that takes long, nor where one that is done has taught nothing.
    pub(crate) fn teacher<'s>(&'s self, pod: &'a PodView, writes: &'s WritePlan<'_>) -> Option<&'s str> {
        let workload = self.desired.workload_of(pod)?;
        let plan = &self.desired.plans[workload];
        let others = writes.every_grant().filter(|grant| grant.pod.uid != pod.id.uid);
        let of_workload = |grant: &&Grant| self.desired.workload_of_target(grant) == Some(workload);
        let operated: Vec<&Grant> = others.filter(of_workload).filter(|grant| !self.has_ended(grant)).collect();
        // Once its image is patched it is as the target says, and has still to show how long it is away.
        let patched = operated.iter().filter(|grant| !plan.behind.contains(&grant.pod.uid)).count();
        if plan.up_to_date() > patched {
            return None;
        }
        let is_recent = |grant: &&Grant| writes.now.duration_since(grant.granted.0) < LESSON;
        operated.into_iter().find(is_recent).map(|grant| grant.pod.name.as_str())
    }

    pub(crate) fn has_ended(&self, grant: &Grant) -> bool {
        let node = self.desired.pods.get(grant.pod.uid.as_str()).and_then(|pod| pod.node.as_ref());
        node.and_then(|node| self.snapshot.node_transitions.get(node)).is_some_and(|known| known.has_ended(grant))
    }

    /// How the pod is now: it may have been granted in this very round.
    pub(crate) fn serving(&self, pod: &PodView, writes: &WritePlan<'_>) -> Serving {
        let taken = writes.reservation(&pod.id.namespace, &pod.id.uid).is_some() || self.ended.is_taken(&pod.id.uid);
        Serving::of(pod, taken && !self.is_down(pod, writes.now))
    }

    /// Its operation is over, and nobody knows until when it is not Ready: others would wait for it for ever.
    fn is_down(&self, pod: &PodView, now: Timestamp) -> bool {
        let mut own = self.ended.over().filter(|over| over.grant.pod.uid == pod.id.uid);
        own.any(|over| self.down_from(over).is_some_and(|from| from <= now))
    }

    /// When a pod whose operation is over, and that is not Ready, has had as long again as its owner allows for a start: from then on nobody
    /// knows until when it is down.
    pub(crate) fn down_from(&self, over: &Failure<'_>) -> Option<Timestamp> {
        let pod = self.desired.pods.get(over.grant.pod.uid.as_str()).filter(|pod| !pod.ready() && !pod.terminating)?;
        let plan = self.desired.workload_of(pod).map(|workload| &self.desired.plans[workload]);
        let allowed = start_seconds(pod, plan.and_then(|plan| plan.progress_deadline_seconds));
        over.since.saturating_add(SignedDuration::from_secs(allowed.into())).ok()
    }

    pub(crate) fn verdict(
        &self,
        pod: &'a PodView,
        decision: Result<Forecast, WaitReason>,
        gate: Option<Verdict>,
    ) -> PodVerdict {
        let (expected, waiting) = match decision {
            Ok(expected) => (Some(expected), None),
            Err(waiting) => (None, Some(waiting)),
        };
        let (pod, owner) = (pod.id.clone(), self.desired.owner(pod).cloned());
        PodVerdict { pod, owner, waiting, gate, expected, beside_companion: false }
    }
}

//! Who goes next: those whose grants were lost, without a question; then those that the rules allow, in their order.

mod beginning;

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::ledger::CLUSTER;
use hitless_api::{Grant, GrantOp, Outcome, Reservation};
use hitless_gate::{Candidate, Reserved, Verdict};
use jiff::Timestamp;

use crate::gate_cache::Synced;
use crate::mode::Mode;
use crate::round::candidates::{Candidates, InTurn};
use crate::round::decided::Decided;
use crate::round::facts::Facts;
use crate::round::facts::desired::DesiredState;
use crate::round::facts::endings::Ended;
use crate::round::facts::lost::Lost;
use crate::round::facts::overdue::Overdue;
use crate::round::facts::trials::Trials;
use crate::round::operable::Operable;
use crate::round::pod_verdict::PodVerdict;
use crate::round::removals::Removable;
use crate::round::reserve::reservation_of;
use crate::round::wait_reason::WaitReason;
use crate::round::write_plan::WritePlan;
use crate::snapshot::OperationKey;

/// Those with a reservation have gone; the others are still to be judged.
pub(crate) struct Resumed<'a>(Candidates<'a>);

/// What the rules say, in the order in which pods may go.
pub(crate) struct Judged<'a> {
    writes: WritePlan<'a>,
    removals: Vec<(Removable<'a>, Verdict)>,
    answers: Vec<(Operable<'a>, Verdict)>,
    verdicts: Vec<PodVerdict>,
    in_turn: InTurn<'a>,
}

/// Who goes, and what is said of every pod that wants something.
pub(crate) struct Granted<'a> {
    pub(crate) writes: WritePlan<'a>,
    pub(crate) verdicts: Vec<PodVerdict>,
}

/// Tells the gate what has ended and what is reserved. Only then it can be asked.
pub(crate) fn tell<'g>(
    gate: Synced<'g>,
    desired: &DesiredState<'_>,
    ended: &Ended<'_>,
    (trials, overdue, lost): (&Trials<'_>, &Overdue<'_>, &Lost<'_>),
    writes: &WritePlan<'_>,
) -> &'g hitless_gate::Gate {
    // A kubelet that is late may take a pod away at any moment, whatever is wanted of that pod meanwhile.
    let recently_ready = desired.world.recently_ready.keys().chain(&ended.late).copied();
    let unsettled = desired.plans.iter().flat_map(|plan| plan.unsettled.iter().map(String::as_str));
    let recently_ready = recently_ready.chain(unsettled);
    let updated = trials.updated.iter().copied();
    gate.tell(&failed(ended), recently_ready, updated, overdue.uids(), lost.uids(), held(desired, ended, writes))
}

impl<'a> Candidates<'a> {
    /// Those that have their reservation already need no rule; their grants were lost on the way.
    pub(crate) fn resume(self, facts: &Facts<'a, '_>) -> Resumed<'a> {
        let Self { mut writes, removable, mut operable, mut verdicts } = self;
        for (uid, key) in &facts.ended.regrant {
            let Some(pod) = operable.remove(uid) else { continue };
            let Decided { changes, outcome } = facts.resume(&pod, key, &writes);
            writes = writes.with(changes);
            verdicts.push(facts.verdict(pod.pod, outcome, None));
        }
        Resumed(Self { writes, removable, operable, verdicts })
    }
}

impl<'a> Resumed<'a> {
    /// Asks the gate about all candidates together.
    pub(crate) fn judge(self, facts: &Facts<'a, '_>) -> Judged<'a> {
        let Candidates { writes, removable, mut operable, mut verdicts } = self.0;
        // One that can't leave its load balancer now takes nothing of a budget from those that can be operated.
        let mut in_turn = InTurn::default();
        let stuck = operable.iter().filter_map(|(uid, pod)| Some((*uid, facts.stays_in_pools(pod, &writes)?)));
        for (uid, waiting) in stuck.collect::<Vec<_>>() {
            let Some(pod) = operable.remove(uid) else { continue };
            in_turn.wait(facts.workload_of_operation(&pod), pod.rank, pod.pod);
            verdicts.push(facts.verdict(pod.pod, Err(waiting), None));
        }
        let candidate = |each: &Operable<'a>| Candidate {
            again: facts.ended.retry_first.contains(each.pod.id.uid.as_str()),
            rank: each.rank,
            // Where a grant is removed anyway, the next one costs no write more.
            preferred: writes.is_touched(each.node),
            absence: facts.absence(each.pod, Some(&each.intent.operation.op)),
            ..Candidate::of(each.pod, each.intent.id())
        };
        let candidates = operable.values().map(candidate).chain(removable.iter().map(|each| each.candidate(facts)));
        let candidates: Vec<Candidate> = candidates.collect();
        let answers = if candidates.is_empty() {
            Vec::new()
        } else {
            facts.gate.decide(&candidates, &facts.snapshot.approvals, writes.now)
        };
        let mut removable: BTreeMap<&str, Removable<'_>> =
            removable.into_iter().map(|each| (each.pod.id.uid.as_str(), each)).collect();
        let (mut removals, mut others) = (Vec::new(), Vec::new());
        for answer in answers {
            if let Some(pod) = removable.remove(answer.pod_uid.as_str()) {
                removals.push((pod, answer));
            } else if let Some(pod) = operable.remove(answer.pod_uid.as_str()) {
                others.push((pod, answer));
            }
        }
        Judged { writes, removals, answers: others, verdicts, in_turn }
    }
}

impl<'a> Judged<'a> {
    /// Reserves and grants, each on what the ones before have left.
    pub(crate) fn grant(self, facts: &Facts<'a, '_>) -> Granted<'a> {
        let Self { mut writes, removals, mut answers, mut verdicts, mut in_turn } = self;
        for (pod, answer) in removals {
            let Decided { changes, outcome } = facts.remove(&pod, &answer, &writes);
            writes = writes.with(changes);
            verdicts.push(facts.verdict(pod.pod, outcome, Some(answer)));
        }
        // An operator's pod leaves whoever else serves, so others are chosen Leave or Hold with that in mind. Companions that are to
        // leave come last: one stays while another pod of its workload goes.
        answers.sort_by_key(|(pod, _)| match pod.intent.operation.op {
            GrantOp::Foreign => 0,
            GrantOp::Drain => 2,
            _ => 1,
        });
        for (pod, answer) in answers {
            let answer = facts.unless_labels_only(&pod, answer, &writes);
            let goes = answer.allowed || facts.assumes_room(&pod, &answer, &writes);
            let Decided { changes, outcome } = if !goes {
                Decided::waits(facts.waits_for_rules(&pod, &answer))
            } else if let Some(waiting) = facts.not_its_turn(&in_turn, &pod) {
                Decided::waits(waiting)
            } else {
                facts.grant(&pod, &answer, &writes)
            };
            if answer.allowed && outcome.is_err() && changes.is_empty() {
                in_turn.wait(facts.workload_of_operation(&pod), pod.rank, pod.pod);
            }
            writes = writes.with(changes);
            let beside_companion = facts.helps_beside(&pod, &answer, &outcome);
            verdicts.push(PodVerdict { beside_companion, ..facts.verdict(pod.pod, outcome, Some(answer)) });
        }
        verdicts.sort_by(|a, b| a.pod.cmp(&b.pod));
        Granted { writes, verdicts }
    }
}

impl<'a> Facts<'a, '_> {
    /// Grants an operation that has its reservation already.
    fn resume(&self, operable: &Operable<'a>, key: &OperationKey, writes: &WritePlan<'a>) -> Decided<'a> {
        let pod = &operable.pod.id;
        // Of an operation that has ended, a release may be on its way that the cluster's ledger has had already.
        let misses_cluster = self.gate.counts_cluster_wide(&pod.uid)
            && self.snapshot.unknown.lists(CLUSTER)
            && !writes.is_in_both(&pod.namespace, &pod.uid);
        let Some(reservation) = writes.reservation(&pod.namespace, &pod.uid).filter(|_| !misses_cluster) else {
            return Decided::waits(WaitReason::ReleasePending);
        };
        let begin = match self.begin(operable, writes) {
            Ok(begin) => begin,
            Err(waiting) => return Decided::waits(waiting),
        };
        if let Some(waiting) = self.leaves_pools(operable, &begin.mode.mode, writes) {
            return Decided::waits(waiting);
        }
        let grant = Grant {
            rules: reservation.rules.clone(),
            while_unavailable: reservation.while_unavailable,
            ..self.grant_of(operable, &begin.mode, key.since, writes)
        };
        self.granted(operable, begin, grant, Vec::new(), writes)
    }

    /// Why the pod could not leave the pools of its load balancers if it were operated as things are.
    fn stays_in_pools(&self, operable: &Operable<'a>, writes: &WritePlan<'a>) -> Option<WaitReason> {
        // Asked of every pod that wants something, and most are in no pool.
        if self.pools.flaw_of(operable.pod).is_none() && self.pools.of_pod(operable.pod).is_empty() {
            return None;
        }
        let begin = self.begin(operable, writes).ok()?;
        self.leaves_pools(operable, &begin.mode.mode, writes)
    }

    /// The rules deny it. A companion pod may help, if what it takes to try the version is there.
    fn waits_for_rules(&self, operable: &Operable<'_>, answer: &Verdict) -> WaitReason {
        let Some(companion) = self.makes_room(operable, answer) else { return WaitReason::Rules };
        self.images.waiting_for_answer(operable.pod, &operable.intent).unwrap_or(companion)
    }

    /// Reserves the pod and grants; says what it waits for if there is no room.
    fn grant(&self, operable: &Operable<'a>, answer: &Verdict, writes: &WritePlan<'a>) -> Decided<'a> {
        let pod = &operable.pod.id;
        if writes.is_full(operable.node) {
            return Decided::waits(WaitReason::NodeFull(operable.node.to_owned()));
        }
        if let Some(waiting) = self.needed(operable, writes) {
            return Decided::waits(waiting);
        }
        let begin = self.begin(operable, writes);
        // It needs no image on this node.
        let natively = begin.as_ref().ok().and_then(|begin| self.natively(operable, &begin.mode, writes));
        if let Some(decided) = natively {
            return decided;
        }
        // Where the registry is asked at every start, one that does not answer would keep the container down.
        if let Some(waiting) = self.images.waiting_for_answer(operable.pod, &operable.intent) {
            return Decided::waits(waiting);
        }
        let begin = match begin {
            Ok(begin) => begin,
            Err(waiting) => return Decided::waits(waiting),
        };
        if let Some(waiting) = self.leaves_nobody(operable, &begin.mode, writes) {
            return Decided::waits(waiting);
        }
        if let Some(waiting) = self.leaves_pools(operable, &begin.mode.mode, writes) {
            return Decided::waits(waiting);
        }
        if let Some(waiting) = self.companion(operable, &begin.mode) {
            return Decided::waits(waiting);
        }
        // One pod teaches how long the workload is away; the others may then be held, or go natively.
        let is_untaught = match Mode::word(&begin.mode.reason) {
            Mode::UNKNOWN_GAP => true,
            Mode::NO_READINESS_GATE => operable.settings.gap_milliseconds().is_none(),
            _ => false,
        };
        if is_untaught && let Some(teacher) = self.teacher(operable.pod, writes) {
            return Decided::waits(WaitReason::Learning(teacher.to_owned()));
        }
        let (rules, while_unavailable) = (answer.agreed(), answer.rests_on_unavailability());
        let reservation = |since| Reservation {
            rules: rules.clone(),
            while_unavailable,
            ..reservation_of(&operable.pod.id, operable.node, operable.owner, &operable.intent, since)
        };
        let (since, changes) = match self.reserve(pod, reservation, writes) {
            Ok(reserved) => reserved,
            Err(waiting) => return Decided::waits(waiting),
        };
        let grant = Grant { rules, while_unavailable, ..self.grant_of(operable, &begin.mode, since, writes) };
        self.granted(operable, begin, grant, changes, writes)
    }
}

/// Pods whose operation was judged bad.
fn failed(ended: &Ended<'_>) -> BTreeSet<String> {
    let bad = ended.failures.iter().filter(|failure| failure.result.outcome != Outcome::Refused);
    bad.map(|failure| failure.grant.pod.uid.clone()).collect()
}

/// Reservations in the ledgers, and operations without one that are under way, or whose pods are not known to be back: somebody may
/// have deleted a ledger.
fn held(desired: &DesiredState<'_>, ended: &Ended<'_>, writes: &WritePlan<'_>) -> BTreeMap<String, Reserved> {
    let all = writes.snapshot.node_transitions.values();
    let all = all.flat_map(|view| view.spec.grants.iter().filter(|grant| view.has_ended(grant)));
    // One that has left for good is not Ready on purpose.
    let is_down = |grant: &&Grant| {
        let pod = desired.pods.get(grant.pod.uid.as_str()).filter(|_| grant.op != GrantOp::Drain);
        pod.is_some_and(|pod| !pod.ready() && !pod.terminating)
    };
    let over: BTreeSet<(&str, Timestamp)> =
        all.filter(is_down).map(|grant| (grant.pod.uid.as_str(), grant.granted.0)).collect();
    let reserved = |uid: &String, since: Timestamp| {
        (uid.clone(), Reserved { since, is_over: over.contains(&(uid.as_str(), since)) })
    };
    let running = writes.snapshot.node_transitions.iter().flat_map(|(node, view)| {
        let counts = |grant: &&Grant| !view.has_ended(grant) || ended.is_taken(&grant.pod.uid);
        writes.grants(node).iter().filter(counts).map(|grant| reserved(&grant.pod.uid, grant.granted.0))
    });
    let ledgers = writes.snapshot.ledgers.keys().filter_map(|namespace| writes.ledger(namespace));
    let reservations = ledgers.flat_map(|ledger| &ledger.reservations);
    let reservations = reservations.map(|(uid, reservation)| reserved(uid, reservation.since.0));
    // A pod whose reservation is transferred is asked about anew; it counts as what it is, unavailable.
    running.chain(reservations).filter(|(uid, _)| !ended.transfers.contains_key(uid.as_str())).collect()
}

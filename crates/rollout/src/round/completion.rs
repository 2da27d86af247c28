//! Which operations have ended, and on what evidence a pod's place in the budgets is given back (CONTRACT 10).

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::ledger::CLUSTER;
use hitless_api::{Cancel, Grant, Outcome, PodRef, TransitionResult, digest};
use hitless_workloads::Stage;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::draft::Draft;
use super::intents::Wishes;
use super::{blocked, micro};
use crate::snapshot::{Evidence, OperationKey, Snapshot};

/// Orphaned reservations younger than this are granted after all if the wish is still there; an older one would reach the
/// agent expired.
const REGRANT_SECONDS: i64 = 30;

/// A pod to be read afresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The operation that the answer is evidence for.
    pub operation: OperationKey,
    /// The pod.
    pub pod: PodRef,
}

/// A result that halts its workload on the way to its target, or that speaks for one pod.
pub(super) struct Failure<'a> {
    pub(super) grant: &'a Grant,
    pub(super) result: &'a TransitionResult,
    pub(super) message: &'a str,
    /// Index of the workload.
    pub(super) workload: Option<usize>,
}

impl Failure<'_> {
    /// Outcome and reason, for people.
    pub(super) fn reason(&self) -> String {
        format!("{:?}/{}", self.result.outcome, self.result.reason)
    }
}

#[derive(Default)]
pub(super) struct Ended<'a> {
    pub(super) reads: Vec<Read>,
    pub(super) failures: Vec<Failure<'a>>,
    /// Pods with a grant, or with a place that is not free yet.
    pub(super) busy: BTreeSet<&'a str>,
    /// Of these, those that are back from an operation that has failed and halts them: they serve.
    pub(super) back: BTreeSet<&'a str>,
    /// Reservations without a grant whose operation is still wished: ids by pod uid.
    pub(super) regrant: BTreeMap<&'a str, OperationKey>,
    /// Pods that are not Ready after an operation that has ended, and wish one: their places pass on to that, and are
    /// never free in between. Without it a pod whose old image is as bad as the new one could never be mended. With the
    /// grants that have ended.
    pub(super) passing: BTreeMap<&'a str, (&'a str, &'a Grant)>,
    /// Operations that are over and speak for nothing else, on pods that are not Ready and wish nothing: their places stay.
    pub(super) lingering: Vec<Failure<'a>>,
    /// Pods whose operation was cancelled, or refused for a moment, and is over: they go first.
    pub(super) again: BTreeSet<&'a str>,
    /// When such a reservation gets too old for that.
    pub(super) wake_at: Option<Timestamp>,
}

impl Ended<'_> {
    /// Whether the pod is being operated, or has its place still.
    pub(super) fn is_taken(&self, uid: &str) -> bool {
        self.busy.contains(uid) && !self.back.contains(uid)
    }
}

pub(super) fn complete<'a>(wishes: &Wishes<'a>, draft: &mut Draft<'a>) -> Ended<'a> {
    let mut ended = Ended::default();
    let snapshot = draft.snapshot;
    for (node, view) in &snapshot.node_transitions {
        for grant in &view.spec.grants {
            let transition = view.transition(grant);
            match transition.and_then(|transition| Some((transition, transition.result.as_ref()?))) {
                None => running(node, grant, wishes, draft, &mut ended),
                Some((transition, result)) => {
                    let failure = Failure {
                        grant,
                        result,
                        message: &transition.message,
                        workload: wishes.workload_of_target(grant),
                    };
                    over(node, failure, wishes, draft, &mut ended);
                }
            }
        }
    }
    orphans(wishes, draft, &mut ended);
    cluster_orphans(draft, &mut ended);
    ended
}

/// No result yet.
fn running<'a>(node: &'a str, grant: &'a Grant, wishes: &Wishes<'a>, draft: &mut Draft<'a>, ended: &mut Ended<'a>) {
    let snapshot = draft.snapshot;
    if snapshot.evidence.get(&key(grant)) == Some(&Evidence::Gone) {
        draft.remove_grant(node, grant);
        release(grant, draft);
        return;
    }
    ended.busy.insert(&grant.pod.uid);
    if !wishes.pods.contains_key(grant.pod.uid.as_str()) {
        ended.reads.push(Read { operation: key(grant), pod: grant.pod.clone() });
    } else if grant.cancel.is_none() && !wishes.wants(grant) {
        let cancel = Cancel { reason: "WishGone".to_owned(), since: micro(draft.now) };
        draft.cancel_grant(node, grant, &cancel);
    }
}

/// The agent has reported a result.
fn over<'a>(node: &'a str, failure: Failure<'a>, wishes: &Wishes<'a>, draft: &mut Draft<'a>, ended: &mut Ended<'a>) {
    let Failure { grant, result, .. } = failure;
    let snapshot = draft.snapshot;
    if has_passed_on(grant, snapshot) {
        draft.remove_grant(node, grant);
        return;
    }
    let pod = wishes.pods.get(grant.pod.uid.as_str());
    let evidence = snapshot.evidence.get(&key(grant));
    // A Done was seen Ready by the agent; what is derived from the pod must know of it, or it would be wished again.
    let proven = match (result.outcome, evidence) {
        (_, Some(Evidence::Ready | Evidence::Gone)) | (Outcome::Done, Some(Evidence::NotReady)) => true,
        (Outcome::Done, None) => pod.is_some_and(|pod| blocked::shows(grant, pod)),
        (_, Some(Evidence::NotReady) | None) => false,
    };
    let lasting =
        result.is_lasting() && grant.cancel.is_none() && (wishes.is_the_wish(grant) || is_halting(&failure, wishes));
    // The same operation too, where it may be tried again: the pod may need it to become Ready.
    let tried_again = !lasting && result.outcome != Outcome::Done && wishes.is_the_wish(grant);
    let may_pass = tried_again || wishes.has_another_wish(grant);
    if proven {
        release(grant, draft);
        if !lasting {
            draft.remove_grant(node, grant);
        }
        if result.outcome != Outcome::Done {
            ended.again.insert(&grant.pod.uid);
        }
    } else if pod.is_none_or(|pod| result.outcome == Outcome::Done || pod.ready()) || (evidence.is_none() && may_pass) {
        // The cache may be behind or ahead: ask.
        ended.reads.push(Read { operation: key(grant), pod: grant.pod.clone() });
    }
    let is_down = evidence == Some(&Evidence::NotReady) && pod.is_some_and(|pod| !pod.ready());
    let passes = !proven && is_down && may_pass;
    if passes {
        ended.passing.insert(&grant.pod.uid, (node, grant));
    } else if !proven || lasting {
        ended.busy.insert(&grant.pod.uid);
    }
    if lasting {
        if proven {
            ended.back.insert(&failure.grant.pod.uid);
        }
        ended.failures.push(failure);
    } else if !proven && pod.is_some_and(|pod| !pod.ready()) && !may_pass {
        ended.lingering.push(failure);
    }
}

/// The ledger has a later place of its pod: its own was passed on, and the write that was to remove the grant has not followed.
fn has_passed_on(grant: &Grant, snapshot: &Snapshot) -> bool {
    let ledger = snapshot.ledgers.get(&grant.pod.namespace);
    let place = ledger.and_then(|ledger| ledger.spec.reservations.get(&grant.pod.uid));
    place.is_some_and(|place| place.since > grant.granted)
}

/// Whether it stands for the target of a rollout that is still going on, even if the pod itself is gone.
fn is_halting(failure: &Failure<'_>, wishes: &Wishes<'_>) -> bool {
    let rolling = |index: usize| matches!(wishes.plans[index].stage, Stage::Rolling | Stage::Finishing);
    failure.result.outcome != Outcome::Refused && failure.workload.is_some_and(rolling)
}

/// Places without a grant: this controller or an earlier one was stopped between the two writes.
fn orphans<'a>(wishes: &Wishes<'a>, draft: &mut Draft<'a>, ended: &mut Ended<'a>) {
    let snapshot = draft.snapshot;
    let mut fenced: BTreeMap<&'a str, Vec<(&'a str, &'a str, OperationKey)>> = BTreeMap::new();
    for (namespace, ledger) in snapshot.ledgers.iter().filter(|(namespace, _)| *namespace != CLUSTER) {
        for (uid, reservation) in &ledger.spec.reservations {
            let node = reservation.node.as_str();
            let known = snapshot.node_transitions.get(node);
            let named =
                || known.into_iter().flat_map(|known| &known.spec.grants).filter(|grant| grant.id == reservation.id);
            // The same wish has the same id whenever it is granted: a result that halts may stand there from an earlier time.
            if named().any(|grant| grant.granted == reservation.since) {
                if !ended.passing.contains_key(uid.as_str()) {
                    ended.busy.insert(uid);
                }
                continue;
            }
            let key = OperationKey { id: reservation.id.clone(), since: reservation.since.0 };
            if snapshot.evidence.get(&key) == Some(&Evidence::Gone) {
                draft.release(namespace, uid);
                continue;
            }
            let wish = wishes.by_pod.get(uid.as_str());
            let still_due = wish.is_some_and(|wish| wish.intent.as_ref().is_ok_and(|intent| intent.id() == key.id));
            let old = key.since.saturating_add(SignedDuration::from_secs(REGRANT_SECONDS)).unwrap_or(draft.now);
            if still_due && draft.now < old && named().next().is_none() {
                if settles_by_a_write(namespace, draft) {
                    ended.busy.insert(uid);
                    continue;
                }
                ended.wake_at = Some(ended.wake_at.map_or(old, |other| other.min(old)));
                ended.regrant.insert(uid, key);
                continue;
            }
            ended.busy.insert(uid);
            if !wishes.pods.contains_key(uid.as_str()) {
                let (namespace, name) = (namespace.clone(), reservation.pod.clone());
                ended.reads.push(Read { operation: key.clone(), pod: PodRef { namespace, name, uid: uid.clone() } });
            }
            fenced.entry(node).or_default().push((namespace, uid, key));
        }
    }
    for (node, places) in fenced {
        free_behind_a_fence(node, &places, draft, ended);
    }
}

/// A write to the ledger that was not answered may have given the place back, and still arrive: before anything rests on the place,
/// the ledger is written, so that it can't. Says whether that is to be done first.
fn settles_by_a_write<'a>(namespace: &'a str, draft: &mut Draft<'a>) -> bool {
    let uncertain = &draft.snapshot.uncertain;
    let unsettled: Vec<&'a str> =
        [namespace, CLUSTER].into_iter().filter(|ledger| uncertain.ledgers.contains(*ledger)).collect();
    for ledger in &unsettled {
        // With the time in it, because a write that changes nothing would be no write.
        draft.fence_ledger(ledger, draft.now.as_microsecond().to_string());
    }
    !unsettled.is_empty()
}

/// Before a place is given back that may have a grant on its way, the NodeTransition is rewritten (CONTRACT 11): what was
/// prepared on an older version of it, by a deposed leader or by ourselves in a write without an answer, then fails. Only a
/// round that sees the fence standing, and still no grant, gives the place back.
fn free_behind_a_fence<'a>(
    node: &'a str,
    places: &[(&'a str, &'a str, OperationKey)],
    draft: &mut Draft<'a>,
    ended: &mut Ended<'a>,
) {
    let name = fence_name(draft.snapshot.epoch, places.iter().map(|(_, _, key)| key));
    let known = draft.snapshot.node_transitions.get(node).and_then(|known| known.fence.as_deref());
    let standing = known.and_then(|fence| fence.split_once('.')).is_some_and(|(standing, _)| standing == name);
    if !standing || draft.snapshot.uncertain.nodes.contains(node) {
        // With the time in it, because a write that changes nothing would be no write.
        draft.fence(node, format!("{name}.{}", draft.now.as_microsecond()));
        return;
    }
    for (namespace, uid, _) in places {
        draft.release(namespace, uid);
        ended.busy.remove(uid);
    }
}

/// Places in the cluster's ledger that the namespace's ledger does not have: the write that was to follow has failed, or is still
/// on its way. They are freed behind a fence in that ledger, as those without a grant are behind one in the NodeTransition.
fn cluster_orphans<'a>(draft: &mut Draft<'a>, ended: &mut Ended<'a>) {
    let snapshot = draft.snapshot;
    let Some(cluster) = snapshot.ledgers.get(CLUSTER) else { return };
    let granted: BTreeSet<&str> =
        snapshot.node_transitions.values().flat_map(|node| &node.spec.grants).map(|grant| grant.id.as_str()).collect();
    let mut fenced: BTreeMap<&'a str, Vec<(&'a str, OperationKey)>> = BTreeMap::new();
    for (uid, place) in &cluster.spec.reservations {
        let Some((namespace, _)) = place.pod.split_once('/') else { continue };
        let own = snapshot.ledgers.get(namespace).and_then(|ledger| ledger.spec.reservations.get(uid));
        if own.is_some_and(|own| own.id == place.id && own.since == place.since) {
            continue;
        }
        ended.busy.insert(uid);
        if !granted.contains(place.id.as_str()) {
            let key = OperationKey { id: place.id.clone(), since: place.since.0 };
            fenced.entry(namespace).or_default().push((uid, key));
        }
    }
    for (namespace, places) in fenced {
        let name = fence_name(snapshot.epoch, places.iter().map(|(_, key)| key));
        let known = snapshot.ledgers.get(namespace).and_then(|known| known.spec.fence.as_deref());
        if known != Some(name.as_str()) {
            draft.fence_ledger(namespace, name);
            continue;
        }
        for (uid, _) in places {
            draft.release_in(CLUSTER, uid);
            ended.busy.remove(uid);
        }
    }
}

/// Name of the fence behind which the places of these operations are freed; another leader's is another one.
fn fence_name<'k>(epoch: i64, keys: impl Iterator<Item = &'k OperationKey>) -> String {
    let keys: Vec<_> = keys.map(|key| json!([key.id, key.since.to_string()])).collect();
    digest::short(&json!([epoch, keys]))
}

/// Gives the place of the grant's operation back, if it is this operation's.
fn release<'a>(grant: &'a Grant, draft: &mut Draft<'a>) {
    let has = |namespace: &str| {
        let place = draft.reservation(namespace, &grant.pod.uid);
        place.is_some_and(|place| place.id == grant.id && place.since == grant.granted)
    };
    match (has(&grant.pod.namespace), has(CLUSTER)) {
        (true, _) => draft.release(&grant.pod.namespace, &grant.pod.uid),
        // Of the two writes of an earlier release this one was not done.
        (false, true) => draft.release_in(CLUSTER, &grant.pod.uid),
        (false, false) => {}
    }
}

pub(super) fn key(grant: &Grant) -> OperationKey {
    OperationKey { id: grant.id.clone(), since: grant.granted.0 }
}

//! Who may go next.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter::once_with;

use crate::mode::{self as drain, Begin, Busy, Mode, Policies, Prospect, ServiceView, Subject, Traffic, WorkloadFacts};
use hitless_api::ledger::CLUSTER;
use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantMode, ObjectRef, Outcome, PostCheck, Reservation};
use hitless_gate::{Candidate, Gate, Held, LedgerError, Verdict};
use hitless_workloads::PodIntent;
use jiff::{SignedDuration, Timestamp};

use super::blocked::{self, Waiting};
use super::completion::{Ended, Failure};
use super::draft::Draft;
use super::holds::{self, Holds};
use super::intents::{Wish, Wishes};
use super::{Forecast, PodVerdict, micro};
use crate::snapshot::Snapshot;

/// A pod that nothing but the rules can keep from being operated.
struct Ready<'a> {
    pod: &'a PodView,
    node: &'a str,
    intent: PodIntent,
    /// How it is kept from losing requests, but for who else serves at that moment.
    prospect: Prospect,
    /// Its top workload.
    owner: Option<&'a ObjectRef>,
    /// Place in the workload's order.
    rank: i32,
}

/// What an operation begins with.
struct Start<'a> {
    mode: Mode,
    /// Services that it needs open.
    services: Vec<&'a ServiceView>,
    /// They are not open yet.
    opening: bool,
}

/// Tells the gate what has moved since the snapshot: a kept one would judge by the places of an earlier round.
pub(super) fn tell_places(ended: &Ended<'_>, draft: &Draft<'_>, gate: &mut Gate) {
    gate.set_failed(&failed(ended));
    gate.set_held(held(ended, draft));
}

pub(super) fn grant<'a>(
    wishes: &Wishes<'a>,
    ended: &Ended<'a>,
    draft: &mut Draft<'a>,
    gate: &Gate,
    policies: &Policies<'_>,
    holds: &mut Holds<'a>,
) -> Vec<PodVerdict> {
    let mut verdicts = Vec::new();
    let unseen = unseen(wishes, draft);
    let mut candidates: HashMap<&'a str, Ready<'a>> = HashMap::new();
    for (uid, wish) in &wishes.by_pod {
        match candidate(wish, wishes, ended, draft, gate, policies, holds) {
            Ok(ready)
                if unseen.contains(ready.pod.id.namespace.as_str())
                    || (!unseen.is_empty() && gate.counts_cluster_wide(uid)) =>
            {
                verdicts.push(verdict(ready.pod, wishes, Err(Waiting::Unseen), None));
            }
            Ok(ready) => {
                candidates.insert(uid, ready);
            }
            Err(waiting) => verdicts.push(verdict(wish.pod, wishes, Err(waiting), None)),
        }
    }
    // Those that have their place already need no rule; their grants were lost on the way.
    for (uid, key) in &ended.regrant {
        if let Some(ready) = candidates.remove(uid) {
            // Of an operation that has ended, a release may be on its way that the cluster's ledger has had already.
            if gate.counts_cluster_wide(uid)
                && draft.snapshot.unknown.lists(CLUSTER)
                && !draft.is_in_both(&ready.pod.id.namespace, uid)
            {
                verdicts.push(verdict(ready.pod, wishes, Err(Waiting::Clearing), None));
                continue;
            }
            let start = match start(&ready, ended, draft, holds) {
                Ok(start) => start,
                Err(waiting) => {
                    verdicts.push(verdict(ready.pod, wishes, Err(waiting), None));
                    continue;
                }
            };
            if let Some(waiting) = start.register(&ready, holds) {
                verdicts.push(verdict(ready.pod, wishes, Err(waiting), None));
                continue;
            }
            let Some(place) = draft.reservation(&ready.pod.id.namespace, uid) else { continue };
            let (rules, while_unavailable) = (place.rules.clone(), place.while_unavailable);
            let expected = expected(&ready, &start.mode, ended, draft, holds);
            verdicts.push(verdict(ready.pod, wishes, Ok(expected), None));
            let post_check = gate.has_post_check(uid).then_some(PostCheck::Pending);
            let grant = grant_of(&ready, start.mode, draft.snapshot.epoch, rules, key.since);
            let grant = Grant { while_unavailable, post_check, ..grant };
            draft.add_grant(ready.node, grant);
        }
    }
    if !candidates.is_empty() {
        for answer in ask(ended, draft, gate, &candidates) {
            let Some(ready) = candidates.remove(answer.pod_uid.as_str()) else { continue };
            let decision = if answer.allowed {
                take_place(&ready, &answer, ended, draft, gate, holds)
            } else {
                Err(Waiting::Rules)
            };
            verdicts.push(verdict(ready.pod, wishes, decision, Some(answer)));
        }
    }
    verdicts.sort_by(|a, b| a.pod.cmp(&b.pod));
    verdicts
}

/// Namespaces with an operated pod that our cache does not have (yet): what it takes from a budget can't be counted.
fn unseen<'a>(wishes: &Wishes<'a>, draft: &Draft<'a>) -> BTreeSet<&'a str> {
    let unknown = |uid: &String| !wishes.pods.contains_key(uid.as_str());
    let reserved = draft
        .snapshot
        .ledgers
        .keys()
        .filter(|namespace| draft.ledger(namespace).is_some_and(|ledger| ledger.reservations.keys().any(unknown)));
    let granted = draft.snapshot.node_transitions.iter().flat_map(|(node, known)| {
        let kept = |id: &String| draft.grants(node).iter().any(|grant| grant.id == *id);
        known.unfinished().filter(move |grant| unknown(&grant.pod.uid) && kept(&grant.id))
    });
    let namespaces = reserved.map(String::as_str).chain(granted.map(|grant| grant.pod.namespace.as_str()));
    namespaces.filter(|namespace| draft.snapshot.unknown.lists(namespace)).collect()
}

fn verdict<'a>(
    pod: &'a PodView,
    wishes: &Wishes<'a>,
    decision: Result<Forecast, Waiting>,
    gate: Option<Verdict>,
) -> PodVerdict {
    let (expected, waiting) = match decision {
        Ok(expected) => (Some(expected), None),
        Err(waiting) => (None, Some(waiting)),
    };
    PodVerdict { pod: pod.id.clone(), owner: wishes.owner(pod).cloned(), waiting, gate, expected }
}

fn candidate<'a>(
    wish: &Wish<'a>,
    wishes: &Wishes<'a>,
    ended: &Ended<'a>,
    draft: &Draft<'a>,
    gate: &Gate,
    policies: &Policies<'_>,
    holds: &Holds<'a>,
) -> Result<Ready<'a>, Waiting> {
    let pod = wish.pod;
    if let Some(waiting) = in_the_way(wish, ended, draft, gate).next() {
        return Err(waiting);
    }
    let intent = wish.intent.clone().map_err(Waiting::Obstacle)?;
    let Some(node) = pod.node.as_deref() else { return Err(Waiting::NotScheduled) };
    let prospect = prospect(wish, wishes, draft.snapshot, gate, policies, &holds.traffic)?;
    Ok(Ready { pod, node, intent, prospect, owner: wishes.owner(pod), rank: wish.rank })
}

/// What is in the way of the wish but its own policies, the rules and Services. The first is what is said of the pod.
pub(super) fn in_the_way<'s>(
    wish: &'s Wish<'_>,
    ended: &'s Ended<'_>,
    draft: &'s Draft<'_>,
    gate: &'s Gate,
) -> impl Iterator<Item = Waiting> + 's {
    let pod = wish.pod;
    let busy = move || ended.busy.contains(pod.id.uid.as_str()).then_some(Waiting::InProgress);
    let obstacle = || wish.intent.as_ref().err().cloned().map(Waiting::Obstacle);
    let full = move || {
        let node = pod.node.as_ref().filter(|node| draft.is_full(node))?;
        Some(Waiting::NodeFull(node.clone()))
    };
    let first = once_with(move || halted(wish, ended, gate)).chain(once_with(busy)).chain(once_with(obstacle));
    first.flatten().chain(blocked::in_the_way(pod, draft.snapshot)).chain(once_with(full).flatten())
}

/// An operation of the pod itself has failed, or so many of its workload that nobody goes any more.
fn halted(wish: &Wish<'_>, ended: &Ended<'_>, gate: &Gate) -> Option<Waiting> {
    let uid = wish.pod.id.uid.as_str();
    let own = |failure: &&Failure<'_>| failure.grant.pod.uid == uid;
    let of_workload = |failure: &&Failure<'_>| failure.workload.is_some() && failure.workload == wish.workload;
    let too_many = || ended.failures.iter().filter(of_workload).count() >= gate.tolerated_failures(uid) as usize;
    let halting =
        ended.failures.iter().find(own).or_else(|| ended.failures.iter().find(of_workload).filter(|_| too_many()))?;
    Some(Waiting::Halted { pod: halting.grant.pod.name.clone(), reason: halting.reason() })
}

/// What holds for the pod of the wish.
pub(super) fn prospect(
    wish: &Wish<'_>,
    wishes: &Wishes<'_>,
    snapshot: &Snapshot,
    gate: &Gate,
    policies: &Policies<'_>,
    traffic: &Traffic<'_>,
) -> Result<Prospect, Waiting> {
    let node = wish.pod.node.as_deref().unwrap_or_default();
    let subject = Subject {
        pod: wish.pod,
        workload: wish.workload.map(|index| WorkloadFacts::of(&wishes.plans[index])).unwrap_or_default(),
        post_check: gate.has_post_check(&wish.pod.id.uid),
        agent: snapshot.node_transitions.get(node).map(|known| known.says()).unwrap_or_default(),
    };
    Prospect::of(subject, policies, traffic).map_err(|hindrance| Waiting::hindered(hindrance, node))
}

/// What is expected of an operation that begins now.
fn expected(ready: &Ready<'_>, mode: &Mode, ended: &Ended<'_>, draft: &Draft<'_>, holds: &Holds<'_>) -> Forecast {
    let presence = |pod: &PodView| holds::presence(pod, draft, ended);
    Forecast::of(ready.pod, &ready.prospect, mode.clone(), &holds.traffic, &presence)
}

/// Leave or Hold, and whether Services have to be opened before.
fn start<'a>(ready: &Ready<'a>, ended: &Ended<'a>, draft: &Draft<'a>, holds: &Holds<'a>) -> Result<Start<'a>, Waiting> {
    let presence = |pod: &PodView| holds::presence(pod, draft, ended);
    let start = ready.prospect.start(ready.pod, &holds.traffic, &presence);
    let drain::Start { mode, begin } = start.map_err(|hindrance| Waiting::hindered(hindrance, ready.node))?;
    match begin {
        Begin::Now { open, note: _ } => {
            // One that is open for another operation is marked for this one first: who knows only of the other would close it.
            let id = ready.intent.id();
            let opening = open.iter().any(|service| service.mark() != Some(id.as_str()));
            Ok(Start { mode, services: open, opening })
        }
        Begin::Opening(services) => Ok(Start { mode, services, opening: true }),
        Begin::Wait(Busy::Open(service)) => Err(Waiting::ServiceOpen(service)),
        Begin::Wait(Busy::NoOther { service, pod }) => Err(Waiting::ServiceBusy { service, pod }),
    }
}

impl<'a> Start<'a> {
    /// Makes sure of the Services; says what is waited for if they are not open yet.
    fn register(&self, ready: &Ready<'a>, holds: &mut Holds<'a>) -> Option<Waiting> {
        if self.mode.mode == GrantMode::Hold {
            holds.hold(&ready.intent.id(), &self.services);
        }
        let names = || self.services.iter().map(|service| service.name.as_str()).collect::<Vec<_>>().join(", ");
        self.opening.then(|| Waiting::Opening(names()))
    }
}

/// Pods whose operation was judged bad.
fn failed(ended: &Ended<'_>) -> BTreeSet<String> {
    let bad = ended.failures.iter().filter(|failure| failure.result.outcome != Outcome::Refused);
    bad.map(|failure| failure.grant.pod.uid.clone()).collect()
}

/// Takes the pod's place in the ledger and adds the grant; says what it waits for if there is no room.
fn take_place<'a>(
    ready: &Ready<'a>,
    answer: &Verdict,
    ended: &Ended<'a>,
    draft: &mut Draft<'a>,
    gate: &Gate,
    holds: &mut Holds<'a>,
) -> Result<Forecast, Waiting> {
    let rules = answer.agreed();
    let pod = &ready.pod.id;
    if draft.is_full(ready.node) {
        return Err(Waiting::NodeFull(ready.node.to_owned()));
    }
    let start = start(ready, ended, draft, holds)?;
    let expected = expected(ready, &start.mode, ended, draft, holds);
    let passing = ended.passing.get(pod.uid.as_str());
    let since = passing.map_or(draft.now, |(_, grant)| after(grant.granted.0).max(draft.now));
    let reservation = Reservation {
        id: ready.intent.id(),
        pod: pod.name.clone(),
        node: ready.node.to_owned(),
        owner: ready.owner.map(ObjectRef::label).unwrap_or_default(),
        rules: rules.clone(),
        since: micro(since),
        images: ready
            .intent
            .operation
            .containers
            .iter()
            .map(|(name, change)| (name.clone(), change.to.clone()))
            .collect(),
        while_unavailable: answer.rests_on_unavailability(),
        from_images: ready
            .intent
            .operation
            .containers
            .iter()
            .map(|(name, change)| (name.clone(), change.from.clone()))
            .collect(),
        labels: ready
            .intent
            .operation
            .labels
            .iter()
            .filter_map(|(name, change)| Some((name.clone(), change.to.clone()?)))
            .collect(),
    };
    if let Some((node, grant)) = passing {
        // One write of the ledger: the place is never free.
        draft.release(&grant.pod.namespace, &grant.pod.uid);
        draft.remove_grant(node, grant);
    }
    match draft.reserve(pod, reservation, gate.counts_cluster_wide(&pod.uid)) {
        Ok(()) => {
            // Its place is taken first; it is granted once the Services are seen open.
            if let Some(waiting) = start.register(ready, holds) {
                return Err(waiting);
            }
            let grant = Grant {
                while_unavailable: answer.rests_on_unavailability(),
                post_check: gate.has_post_check(&pod.uid).then_some(PostCheck::Pending),
                ..grant_of(ready, start.mode, draft.snapshot.epoch, rules, since)
            };
            draft.add_grant(ready.node, grant);
            Ok(expected)
        }
        Err(LedgerError::LedgerFull { .. }) => Err(Waiting::LedgerFull),
        Err(LedgerError::Taken { .. } | LedgerError::Deposed { .. }) => Err(Waiting::Clearing),
    }
}

/// Later, whatever the clock of the leader was that granted then: of two places of a pod the later one is the one that counts.
fn after(granted: Timestamp) -> Timestamp {
    granted.saturating_add(SignedDuration::from_micros(1)).unwrap_or(granted)
}

fn grant_of(ready: &Ready<'_>, mode: Mode, epoch: i64, rules: Vec<String>, granted: Timestamp) -> Grant {
    let running = |name: &String| {
        let status = ready.pod.container(name).and_then(|container| container.status.as_ref());
        status.map(|status| status.container_id.clone()).unwrap_or_default()
    };
    Grant {
        id: ready.intent.id(),
        epoch,
        pod: ready.pod.id.clone(),
        owner: ready.owner.cloned(),
        op: ready.intent.operation.op.clone(),
        mode: mode.mode,
        mode_reason: mode.reason.chars().take(Grant::LONGEST_MODE_REASON).collect(),
        containers: ready.intent.operation.containers.clone(),
        labels: ready.intent.operation.labels.clone(),
        annotations: ready.intent.operation.annotations.clone(),
        before: ready.intent.operation.containers.keys().map(|name| (name.clone(), running(name))).collect(),
        drain: ready.prospect.drain.clone(),
        verify: ready.prospect.verify,
        hooks: ready.prospect.hooks.clone(),
        rules,
        granted: micro(granted),
        ttl_seconds: Grant::DEFAULT_TTL_SECONDS,
        while_unavailable: false,
        post_check: None,
        cancel: None,
    }
}

/// Asks the gate about all candidates together.
fn ask(ended: &Ended<'_>, draft: &Draft<'_>, gate: &Gate, candidates: &HashMap<&str, Ready<'_>>) -> Vec<Verdict> {
    // Where a grant is removed anyway, the next one costs no write more.
    let asking: Vec<Candidate> = candidates
        .values()
        .map(|ready| Candidate {
            again: ended.again.contains(ready.pod.id.uid.as_str()),
            rank: ready.rank,
            preferred: draft.is_touched(ready.node),
            ..Candidate::of(ready.pod, ready.intent.id())
        })
        .collect();
    gate.decide(&asking, &draft.snapshot.approvals, draft.now)
}

/// Places in the ledgers, and operations that are under way without one: somebody may have deleted a ledger.
fn held(ended: &Ended<'_>, draft: &Draft<'_>) -> BTreeMap<String, Held> {
    let running = draft
        .snapshot
        .node_transitions
        .values()
        .flat_map(|node| node.unfinished().map(|grant| (grant.pod.uid.clone(), Held { since: grant.granted.0 })));
    let ledgers = draft.snapshot.ledgers.keys().filter_map(|namespace| draft.ledger(namespace));
    let places = ledgers
        .flat_map(|ledger| &ledger.reservations)
        .map(|(uid, place)| (uid.clone(), Held { since: place.since.0 }));
    // A pod whose place passes on is asked about anew; it counts as what it is, unavailable.
    running.chain(places).filter(|(uid, _)| !ended.passing.contains_key(uid.as_str())).collect()
}

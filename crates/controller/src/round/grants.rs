//! Who may go next.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::pod::PodView;
use hitless_api::{DrainSpec, Grant, GrantMode, Reservation, VerifySpec};
use hitless_gate::{
    Approvals, Candidate, GateInput, Held, LedgerError, OwnerFacts, OwnerKey, PodFacts, RuleSet, Settings, Verdict,
};
use hitless_workloads::PodIntent;
use jiff::Timestamp;

use super::blocked::{self, Waiting};
use super::completion::Ended;
use super::draft::Draft;
use super::drain;
use super::intents::{Wish, Wishes};
use super::{PodVerdict, micro};
use crate::snapshot::Snapshot;

/// A pod that nothing but the rules can keep from being operated.
struct Ready<'a> {
    pod: &'a PodView,
    node: &'a str,
    intent: PodIntent,
    drain: DrainSpec,
    verify: VerifySpec,
    owner: String,
}

pub(super) fn grant<'a>(wishes: &Wishes<'a>, ended: &Ended<'a>, draft: &mut Draft<'a>) -> Vec<PodVerdict> {
    let mut verdicts = Vec::new();
    let unseen = unseen(wishes, draft);
    let mut candidates: BTreeMap<&'a str, Ready<'a>> = BTreeMap::new();
    for (uid, wish) in &wishes.by_pod {
        match candidate(wish, wishes, ended, draft) {
            Ok(ready) if unseen.contains(ready.pod.id.namespace.as_str()) => {
                verdicts.push(verdict(ready.pod, wishes, Some(Waiting::Unseen), None));
            }
            Ok(ready) => {
                candidates.insert(uid, ready);
            }
            Err(waiting) => verdicts.push(verdict(wish.pod, wishes, Some(waiting), None)),
        }
    }
    // Those that have their place already need no rule; their grants were lost on the way.
    for (uid, key) in &ended.regrant {
        if let Some(ready) = candidates.remove(uid) {
            let rules =
                draft.reservation(&ready.pod.id.namespace, uid).map(|place| place.rules.clone()).unwrap_or_default();
            verdicts.push(verdict(ready.pod, wishes, None, None));
            let grant = grant_of(&ready, draft.snapshot.epoch, rules, key.since);
            draft.add_grant(ready.node, grant);
        }
    }
    if !candidates.is_empty() {
        for answer in ask(wishes, draft, &candidates) {
            let Some(ready) = candidates.remove(answer.pod_uid.as_str()) else { continue };
            let waiting = if answer.allowed { take_place(&ready, &answer, draft) } else { Some(refusal(&answer)) };
            verdicts.push(verdict(ready.pod, wishes, waiting, Some(answer)));
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
        let live = |grant: &&Grant| known.transition(grant).is_none_or(|transition| transition.result.is_none());
        known.spec.grants.iter().filter(live).filter(move |grant| unknown(&grant.pod.uid) && kept(&grant.id))
    });
    reserved.map(String::as_str).chain(granted.map(|grant| grant.pod.namespace.as_str())).collect()
}

fn verdict(pod: &PodView, wishes: &Wishes<'_>, waiting: Option<Waiting>, gate: Option<Verdict>) -> PodVerdict {
    PodVerdict { pod: pod.id.clone(), owner: wishes.owners.label(pod), waiting, gate }
}

fn refusal(answer: &Verdict) -> Waiting {
    Waiting::Rules(answer.denied().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn candidate<'a>(
    wish: &Wish<'a>,
    wishes: &Wishes<'a>,
    ended: &Ended<'a>,
    draft: &Draft<'a>,
) -> Result<Ready<'a>, Waiting> {
    let pod = wish.pod;
    let uid = pod.id.uid.as_str();
    let halted = |failure: &&super::completion::Failure<'_>| {
        failure.grant.pod.uid == uid || (failure.workload.is_some() && failure.workload == wish.workload)
    };
    if let Some(failure) = ended.failures.iter().find(halted) {
        return Err(Waiting::Halted {
            pod: failure.grant.pod.name.clone(),
            reason: format!("{:?}/{}", failure.result.outcome, failure.result.reason),
        });
    }
    if ended.busy.contains(uid) {
        return Err(Waiting::InProgress);
    }
    let intent = wish.intent.clone().map_err(Waiting::Obstacle)?;
    blocked::check(pod, draft.snapshot)?;
    let Some(node) = pod.node.as_deref() else { return Err(Waiting::NotScheduled) };
    if draft.is_full(node) {
        return Err(Waiting::NodeFull(node.to_owned()));
    }
    let drain = drain::resolve(pod).map_err(Waiting::Drain)?;
    let progress_seconds = wish.workload.map_or_else(
        || VerifySpec::default().progress_seconds,
        |index| wishes.workloads[index].deployment.progress_deadline_seconds,
    );
    let verify = VerifySpec { progress_seconds, ..VerifySpec::default() };
    Ok(Ready { pod, node, intent, drain, verify, owner: wishes.owners.label(pod) })
}

/// Takes the pod's place in the ledger and adds the grant; says what it waits for if there is no room.
fn take_place<'a>(ready: &Ready<'a>, answer: &Verdict, draft: &mut Draft<'a>) -> Option<Waiting> {
    let rules = answer.agreed();
    let pod = &ready.pod.id;
    if draft.is_full(ready.node) {
        return Some(Waiting::NodeFull(ready.node.to_owned()));
    }
    let reservation = Reservation {
        id: ready.intent.id(),
        pod: pod.name.clone(),
        node: ready.node.to_owned(),
        owner: ready.owner.clone(),
        rules: rules.clone(),
        since: micro(draft.now),
        images: ready.intent.containers.iter().map(|(name, change)| (name.clone(), change.to.clone())).collect(),
        from_images: ready.intent.containers.iter().map(|(name, change)| (name.clone(), change.from.clone())).collect(),
        labels: ready
            .intent
            .labels
            .iter()
            .filter_map(|(name, change)| Some((name.clone(), change.to.clone()?)))
            .collect(),
    };
    let empty = hitless_api::TransitionLedgerSpec::default();
    let leader = draft.leader();
    let ledger = draft.ledger(&pod.namespace).unwrap_or(&empty);
    match hitless_gate::reserve(ledger, vec![(pod.uid.clone(), reservation)], &leader) {
        Ok(spec) => {
            draft.set_ledger(&ready.pod.id.namespace, spec);
            let grant = grant_of(ready, draft.snapshot.epoch, rules, draft.now);
            draft.add_grant(ready.node, grant);
            None
        }
        Err(LedgerError::LedgerFull { .. }) => Some(Waiting::LedgerFull),
        Err(LedgerError::Taken { .. } | LedgerError::Deposed { .. }) => Some(Waiting::Clearing),
    }
}

fn grant_of(ready: &Ready<'_>, epoch: i64, rules: Vec<String>, granted: Timestamp) -> Grant {
    let running = |name: &String| {
        let status = ready.pod.container(name).and_then(|container| container.status.as_ref());
        status.map(|status| status.container_id.clone()).unwrap_or_default()
    };
    Grant {
        id: ready.intent.id(),
        epoch,
        pod: ready.pod.id.clone(),
        op: ready.intent.op.clone(),
        mode: GrantMode::Leave,
        containers: ready.intent.containers.clone(),
        labels: ready.intent.labels.clone(),
        annotations: ready.intent.annotations.clone(),
        before: ready.intent.containers.keys().map(|name| (name.clone(), running(name))).collect(),
        drain: ready.drain.clone(),
        verify: ready.verify,
        rules,
        granted: micro(granted),
        ttl_seconds: Grant::DEFAULT_TTL_SECONDS,
        while_unavailable: false,
        post_check: None,
        cancel: None,
    }
}

/// Asks the gate about all candidates together.
fn ask(wishes: &Wishes<'_>, draft: &Draft<'_>, candidates: &BTreeMap<&str, Ready<'_>>) -> Vec<Verdict> {
    let namespaces: BTreeSet<&str> = candidates.values().map(|ready| ready.pod.id.namespace.as_str()).collect();
    let (pods, owners) = facts(draft.snapshot, wishes, &namespaces);
    let rule_sets: Vec<RuleSet> = draft
        .snapshot
        .rules
        .iter()
        .filter(|rule| namespaces.contains(rule.namespace.as_str()))
        .map(|rule| RuleSet { name: rule.name.clone(), namespace: rule.namespace.clone(), spec: rule.spec.clone() })
        .collect();
    let reserved = reserved(draft, &namespaces);
    // Where a grant is removed anyway, the next one costs no write more.
    let asking: Vec<Candidate> = candidates
        .iter()
        .map(|(_, ready)| Candidate {
            preferred: draft.is_touched(ready.node),
            ..Candidate::of(ready.pod, ready.intent.id())
        })
        .collect();
    let input = GateInput {
        pods: &pods,
        owners: &owners,
        nodes: &BTreeMap::new(),
        rule_sets: &rule_sets,
        budgets: &[],
        disruption_budgets: &[],
        reserved: &reserved.into_iter().map(|uid| (uid, Held { since: draft.now })).collect(),
        failed: &BTreeSet::new(),
        approvals: &Approvals::new(),
        settings: &Settings::default(),
    };
    hitless_gate::decide(&input, &asking, draft.now)
}

fn facts(
    snapshot: &Snapshot,
    wishes: &Wishes<'_>,
    namespaces: &BTreeSet<&str>,
) -> (Vec<PodFacts>, BTreeMap<OwnerKey, OwnerFacts>) {
    let mut owners = BTreeMap::new();
    let mut pods = Vec::new();
    for pod in snapshot.pods.iter().filter(|pod| namespaces.contains(pod.id.namespace.as_str()) && !pod.finished) {
        let owner = wishes.owners.of(pod);
        if let Some((owner, Some(desired))) = &owner {
            owners.entry(owner.clone()).or_insert(OwnerFacts { desired: *desired });
        }
        pods.push(PodFacts::of(pod, owner.map(|(owner, _)| owner)));
    }
    (pods, owners)
}

/// Places in the ledgers, and operations that are under way without one: somebody may have deleted a ledger.
fn reserved(draft: &Draft<'_>, namespaces: &BTreeSet<&str>) -> BTreeSet<String> {
    let places = namespaces
        .iter()
        .filter_map(|namespace| draft.ledger(namespace))
        .flat_map(|ledger| ledger.reservations.keys().cloned());
    let running = draft.snapshot.node_transitions.values().flat_map(|node| {
        node.spec
            .grants
            .iter()
            .filter(|grant| node.transition(grant).is_none_or(|transition| transition.result.is_none()))
            .map(|grant| grant.pod.uid.clone())
    });
    places.chain(running).collect()
}

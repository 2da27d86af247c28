//! What people should know of workloads, as Events: the same note for as long as it is true.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::event::{EventNote, Severity};
use hitless_api::names::{UPDATE_IN_PLACE, UPDATE_IN_PLACE_ONLY, UPDATE_NATIVE, annotations};
use hitless_api::{GrantOp, ObjectRef, Outcome, TransitionResult};
use hitless_workloads::{Cause, Object, OptIn, Pause, Plan, Stage, registry};
use jiff::Timestamp;

use crate::round::facts::Facts;
use crate::round::facts::agents::AGENT_IS_AWAY;
use crate::round::facts::companions::target_key;
use crate::round::facts::desired::DesiredState;
use crate::round::facts::endings::{Ended, Failure};
use crate::round::facts::images::Images;
use crate::round::features::{Effects, FeatureContext};
use crate::round::lasting::Roots;
use crate::round::note::{note, pod_reference, regarding};
use crate::round::pod_verdict::PodVerdict;
use crate::round::wait_reason::{WaitReason, no_agent};
use crate::snapshot::{AgentState, OwnWrites, Snapshot};

/// All that no other feature says.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let FeatureContext { facts, verdicts, now, .. } = *context;
    let Facts { snapshot, desired, ended, images, .. } = facts;
    Effects::default()
        .telling(notes(desired, ended, verdicts, &snapshot.own_writes))
        .telling(misspelt(snapshot))
        .telling(not_fetched(desired, images))
        .telling(fetching(desired, verdicts))
        .telling(without_agent(desired, ended, snapshot, now))
        .telling(too_large(snapshot))
        .telling(facts.dependencies.notes.iter().cloned())
        .telling(facts.faults.iter().cloned())
}

pub(crate) fn notes(
    desired: &DesiredState<'_>,
    ended: &Ended<'_>,
    verdicts: &[PodVerdict],
    own: &OwnWrites,
) -> Vec<EventNote> {
    let stages = desired.plans.iter().flat_map(|plan| plan.notes.clone());
    // Each verdict is looked at once: a cluster has many workloads, and many pods that wait.
    let mut waiting: Vec<Vec<&PodVerdict>> = desired.plans.iter().map(|_| Vec::new()).collect();
    for verdict in verdicts {
        let wanted = desired.by_pod.get(verdict.pod.uid.as_str());
        if let Some(own) = wanted.and_then(|wanted| waiting.get_mut(wanted.workload?)) {
            own.push(verdict);
        }
    }
    let busy = ended.busy.iter().filter_map(|uid| desired.pods.get(uid)).filter_map(|pod| desired.owner(pod));
    let moving: BTreeSet<&str> = busy.map(|owner| owner.uid.as_str()).collect();
    let blocked = desired.plans.iter().zip(waiting).enumerate().filter_map(|(index, (plan, own))| {
        if ended.is_halted(index) || moving.contains(plan.workload.uid.as_str()) { None } else { blocked(plan, &own) }
    });
    let refused = desired.plans.iter().flat_map(|plan| [refused(plan, own), companion_refused(plan, own)]).flatten();
    // First: what is in the way is the newer Event.
    let requested = requested(desired).into_iter();
    let restarts = verdicts.iter().filter_map(|verdict| lone(desired, verdict));
    let failed = ended.failures.iter().map(|failure| failed(desired, failure));
    let not_ready = ended.not_ready_after_end.iter().map(|failure| not_ready(desired, failure));
    requested.chain(stages).chain(refused).chain(blocked).chain(restarts).chain(failed).chain(not_ready).collect()
}

/// Workloads of which a pod is being operated on a node that has had no Ready agent for a while, each with the first of them: nothing goes
/// on there, and the owner can't see why.
fn without_agent(desired: &DesiredState<'_>, ended: &Ended<'_>, snapshot: &Snapshot, now: Timestamp) -> Vec<EventNote> {
    let is_away = |node: &str| match snapshot.agents.get(node) {
        Some(AgentState::MissingSince(since)) => now.duration_since(*since) >= AGENT_IS_AWAY,
        Some(AgentState::Ready | AgentState::Never) | None => false,
    };
    let mut first: BTreeMap<usize, EventNote> = BTreeMap::new();
    for pod in ended.busy.iter().filter_map(|uid| desired.pods.get(uid)) {
        let is_stuck = pod.node.as_deref().is_some_and(is_away);
        let waiting = is_stuck.then(|| no_agent(pod, snapshot)).flatten();
        let Some((workload, waiting)) = desired.workload_of(pod).zip(waiting) else { continue };
        let text = format!("pod {} is being operated, and does not go on: {}", pod.id.name, waiting.text());
        let note = |plan: &Plan| note(regarding(plan), Severity::Warning, waiting.reason(), text);
        if let Some(note) = desired.plans.get(workload).map(note) {
            first.entry(workload).or_insert(note);
        }
    }
    first.into_values().collect()
}

/// Workloads for which images are being fetched: what the pods are that do it, and that their end is no failure.
fn fetching(desired: &DesiredState<'_>, verdicts: &[PodVerdict]) -> Vec<EventNote> {
    let mut images: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for verdict in verdicts {
        let Some(WaitReason::ImagePulling { image, .. }) = &verdict.waiting else { continue };
        let workload = desired.by_pod.get(verdict.pod.uid.as_str()).and_then(|wanted| wanted.workload);
        if let Some(workload) = workload {
            images.entry(workload).or_default().insert(image.as_str());
        }
    }
    let words = |images: BTreeSet<&str>| {
        format!(
            "{} is fetched to the nodes of its pods before any of them is operated, by pods hitless-prefetch-…: they run nothing, so that they \
             end with StartError is no failure, and they are deleted then",
            images.into_iter().collect::<Vec<_>>().join(", ")
        )
    };
    let notes = images.into_iter().filter_map(|(index, images)| Some((desired.plans.get(index)?, words(images))));
    notes.map(|(plan, text)| note(regarding(plan), Severity::Normal, "FetchingImages", text)).collect()
}

/// Workloads whose pods go although their next image is not on the node, each with the first of them.
fn not_fetched(desired: &DesiredState<'_>, images: &Images<'_>) -> Vec<EventNote> {
    let mut first: BTreeMap<usize, EventNote> = BTreeMap::new();
    for wanted in desired.by_pod.values() {
        let (Some(workload), Ok(intent)) = (wanted.workload, &wanted.intent) else { continue };
        let Some((pull, words)) = images.not_fetched(wanted.pod, intent) else { continue };
        let does = if intent.operation.op == GrantOp::Drain { "is made anew" } else { "is operated" };
        let text = format!(
            "pod {} {does} without image {} being fetched to node {} before, because the pod that would fetch it is turned away; whether the \
             image can be pulled shows only then: {words}",
            wanted.pod.id.name, pull.image, pull.node
        );
        let note = |plan: &Plan| note(regarding(plan), Severity::Normal, "ImageNotFetched", text);
        if let Some(note) = desired.plans.get(workload).map(note) {
            first.entry(workload).or_insert(note);
        }
    }
    first.into_values().collect()
}

/// Workloads whose opt-in means nothing: the next change of each rolls natively, and its owner may not expect that.
fn misspelt(snapshot: &Snapshot) -> impl Iterator<Item = EventNote> {
    // Few objects have such a word; whether one is a workload is asked of those only.
    let misspelt = snapshot.objects.iter().filter_map(|object| Some((object, object.unknown_opt_in()?)));
    let of_workloads = misspelt.filter(|(object, _)| registry::is_workload(&object.id.group_kind));
    of_workloads.map(|(object, word)| {
        let text = format!(
            "{}: {word:?} means nothing, so its changes roll natively; write {UPDATE_IN_PLACE}, {UPDATE_IN_PLACE_ONLY} or {UPDATE_NATIVE}",
            annotations::UPDATE
        );
        let regarding = object.id.reference(registry::version(&object.id.group_kind));
        note(regarding, Severity::Warning, "OptInInvalid", text)
    })
}

/// Workloads of namespaces that are left out for longer than a leader takes to begin.
pub(crate) fn left_out(snapshot: &Snapshot, now: Timestamp) -> Vec<EventNote> {
    if !snapshot.left_out.values().any(|each| each.is_told(now)) {
        return Vec::new();
    }
    let workloads = snapshot.objects.iter().filter(|object| object.opt_in() != OptIn::No);
    let told = workloads.filter_map(|object| {
        let left_out = snapshot.left_out.get(&object.id.namespace).filter(|each| each.is_told(now))?;
        let regarding = object.id.reference(registry::version(&object.id.group_kind));
        Some(note(regarding, Severity::Warning, left_out.unread.reason(), left_out.text(&object.id.namespace)))
    });
    told.collect()
}

/// Workloads of which hardly anything is known: each change of them goes the native way or waits, and nobody may expect that.
fn too_large(snapshot: &Snapshot) -> impl Iterator<Item = EventNote> {
    let opted = snapshot.objects.iter().filter(|object| object.opt_in() != OptIn::No);
    let large = opted.filter_map(|object| Some((object, large(object)?)));
    large.map(|(object, text)| {
        let regarding = object.id.reference(registry::version(&object.id.group_kind));
        note(regarding, Severity::Warning, Cause::TooLarge.name(), text)
    })
}

/// What is said of a workload that is too large to look after.
pub(crate) fn large(object: &Object) -> Option<String> {
    let large = object.template()?.too_large()?;
    let otherwise = match object.opt_in() {
        OptIn::No => return Some(large.to_string()),
        _ if object.is_pod_set() => "until then nothing is done for it",
        OptIn::InPlaceOnly => "until then its changes wait",
        OptIn::InPlace => "until then its changes roll natively",
    };
    Some(format!("{large}; {otherwise}"))
}

/// A workload of which something was to be written and was not accepted: quota, admission, or an object that does not parse.
fn refused(plan: &Plan, own: &OwnWrites) -> Option<EventNote> {
    let (write, refusal) = plan.writes.iter().find_map(|write| Some((write, own.refused.get(&write.key())?)))?;
    let text = format!("{} of {} was refused, and is tried again: {}", write.verb, write.on.label(), refusal.words);
    Some(note(regarding(plan), Severity::Warning, "WriteRefused", text))
}

/// A workload whose companion pod was not accepted: it is operated without one, and nobody may serve meanwhile.
fn companion_refused(plan: &Plan, own: &OwnWrites) -> Option<EventNote> {
    let refusal = own.refused.get(&target_key(plan)).filter(|_| plan.stage == Stage::Rolling)?;
    let text = format!("its pod is operated without a companion pod, which is not accepted: {}", refusal.words);
    Some(note(regarding(plan), Severity::Warning, "CompanionRefused", text))
}

/// A workload of which no pod moves: with the reason of the pod that the first one waits for in the end.
fn blocked(plan: &Plan, own: &[&PodVerdict]) -> Option<EventNote> {
    let waits = |verdict: &&PodVerdict| verdict.waiting.as_ref().is_some_and(|waiting| !waiting.is_brief());
    if !own.iter().all(waits) {
        return None;
    }
    let verdict = Roots::of(own.iter().copied()).root(own.first().copied()?);
    if let Some(WaitReason::Paused { pause, workload }) = &verdict.waiting {
        // Of Reloader's the kind tells.
        let text = format!("{} pods wait: {}", own.len(), pause.advice(workload));
        return (*pause != Pause::Reloader).then(|| note(regarding(plan), Severity::Normal, "RolloutPaused", text));
    }
    let text = format!("{} pods wait; pod {}: {}", own.len(), verdict.pod.name, verdict.text().unwrap_or_default());
    Some(note(regarding(plan), Severity::Warning, "RolloutBlocked", text))
}

/// Workloads with pods that are to be restarted because annotations on these ask for it, each with the last token. How many are left is
/// `status`'s to say.
fn requested(desired: &DesiredState<'_>) -> Vec<EventNote> {
    let mut tokens: BTreeMap<&ObjectRef, &str> = BTreeMap::new();
    for wanted in desired.by_pod.values() {
        if let Some((token, owner)) = wanted.restart_token().and_then(|token| Some((token, desired.owner(wanted.pod)?)))
        {
            let last = tokens.entry(owner).or_insert(token);
            *last = token.max(last);
        }
    }
    let said = |(owner, token): (&ObjectRef, &str)| {
        let text = format!("its pods are to be restarted in place: {} on them is {token}", annotations::RESTART);
        note(owner.reference(registry::version(&owner.group_kind)), Severity::Normal, "RestartRequested", text)
    };
    tokens.into_iter().map(said).collect()
}

/// A restart of a pod that no workload of ours stands behind.
fn lone(desired: &DesiredState<'_>, verdict: &PodVerdict) -> Option<EventNote> {
    let wanted = desired.by_pod.get(verdict.pod.uid.as_str())?;
    if wanted.workload.is_some() || verdict.waiting.as_ref()?.is_brief() {
        return None;
    }
    let is_foreign = wanted.intent.as_ref().is_ok_and(|intent| intent.operation.op == GrantOp::Foreign);
    let reason = if is_foreign { "OperationBlocked" } else { "RestartBlocked" };
    Some(note(pod_reference(&verdict.pod), Severity::Warning, reason, verdict.text()?))
}

fn failed(desired: &DesiredState<'_>, failure: &Failure<'_>) -> EventNote {
    let (reason, what) = match failure.result.outcome {
        Outcome::RolledBack => ("PodRolledBack", "was operated and rolled back"),
        Outcome::Refused => ("PodRefused", "was refused by the node's agent"),
        Outcome::Failed | Outcome::Done | Outcome::Cancelled => ("PodFailed", "could not be operated"),
    };
    let way_back = desired.workload_of_way_back(failure.grant).filter(|_| failure.workload.is_none());
    let at = failure.workload.or(way_back);
    let at = at.map_or_else(|| pod_reference(&failure.grant.pod), |index| regarding(&desired.plans[index]));
    let words = if failure.message.is_empty() { String::new() } else { format!(": {}", failure.message) };
    let text = format!("pod {} {what}: {}{words}", failure.grant.pod.name, failure.result.reason);
    let text = if failure.result.outcome == Outcome::Failed
        && failure.result.reason == TransitionResult::ROLLBACK_NOT_READY
    {
        format!(
            "{text}; the version before does not come up in this pod either. A new pod has an empty emptyDir, and today's pull secrets; its owner \
             makes one once you delete this one: kubectl delete pod -n {} {}",
            failure.grant.pod.namespace, failure.grant.pod.name
        )
    } else {
        text
    };
    let text = format!("{text}{}", WaitReason::tried_again(failure.again_at()));
    let text = match way_back {
        Some(_) => format!("{text}; the partition keeps it at the version before: {}", WaitReason::WAY_BACK),
        None => text,
    };
    note(at, Severity::Warning, reason, text)
}

/// A pod that is as it should be but for not being Ready after its operation: a rollout does not end over it.
fn not_ready(desired: &DesiredState<'_>, failure: &Failure<'_>) -> EventNote {
    let Failure { grant, result, .. } = failure;
    let workload = desired.pods.get(grant.pod.uid.as_str()).and_then(|pod| desired.workload_of(pod));
    let at = workload.map_or_else(|| pod_reference(&grant.pod), |index| regarding(&desired.plans[index]));
    let text = format!(
        "pod {} is not Ready after its operation ended with {:?}/{}, and keeps its reservation until it is; look at its containers, \
         delete it, or change the template",
        grant.pod.name, result.outcome, result.reason
    );
    note(at, Severity::Warning, "PodNotReady", text)
}

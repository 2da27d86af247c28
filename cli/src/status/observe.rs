//! From what is in the cluster to what is said of it. Pure; what is decided is the controller's own round.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantOp, MicroTime, Outcome, Phase, Reservation, Transition};
use hitless_rollout::companion::is_companion;
use hitless_rollout::round::{Explanation, Lasting, Reload, WaitReason, WorkloadReport, no_agent};
use hitless_workloads::{Stage, foreign};
use jiff::Timestamp;

use super::at_rest::{IDLE, NOT_OPTED_IN, PAUSED, RESTARTING, operated};
use super::jobs;
use super::report::{PodStatus, Report, State, WorkloadStatus, finishing};
use super::unwell::{dead, kubelet, not_ready};
use crate::obstacle::InTheWay;
use crate::snapshot::{EventView, Snapshot};

/// What is to be said as of `now`.
pub(crate) fn observe(snapshot: &Snapshot, now: Timestamp) -> Report {
    let explanation = snapshot.explain(now, |_| false);
    Observer::new(snapshot, &explanation, now).report(|observer, group| observer.is_of_interest(group))
}

/// The same of every workload and pod.
pub(crate) fn observe_all(snapshot: &Snapshot, explanation: &Explanation, now: Timestamp) -> Report {
    Observer::new(snapshot, explanation, now).report(|_, _| true)
}

/// What is under way for a pod.
#[derive(Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) grant: &'a Grant,
    transition: Option<&'a Transition>,
}

pub(super) struct Observer<'a> {
    snapshot: &'a Snapshot,
    pub(super) explanation: &'a Explanation,
    pub(super) operations: HashMap<&'a str, Operation<'a>>,
    reservations: HashMap<&'a str, &'a Reservation>,
    now: Timestamp,
}

/// A workload with its pods.
#[derive(Default)]
struct Group<'a> {
    workload: Option<&'a WorkloadReport>,
    pods: Vec<&'a PodView>,
}

impl<'a> Observer<'a> {
    fn new(snapshot: &'a Snapshot, explanation: &'a Explanation, now: Timestamp) -> Self {
        let nodes = snapshot.cluster.node_transitions.values();
        let operations = nodes.flat_map(|node| {
            let of = |grant: &'a Grant| Operation { grant, transition: node.transition(grant) };
            node.spec.grants.iter().map(move |grant| (grant.pod.uid.as_str(), of(grant)))
        });
        let places = snapshot.cluster.ledgers.values().flat_map(|ledger| &ledger.spec.reservations);
        let reservations = places.map(|(uid, place)| (uid.as_str(), place)).collect();
        Self { snapshot, explanation, operations: operations.collect(), reservations, now }
    }

    fn report(&self, is_of_interest: impl Fn(&Self, &Group<'a>) -> bool) -> Report {
        let mut groups: BTreeMap<(String, String), Group<'a>> = BTreeMap::new();
        for workload in &self.explanation.workloads {
            let key = (workload.id.namespace.clone(), workload.name());
            groups.insert(key, Group { workload: Some(workload), pods: Vec::new() });
        }
        for pod in self.snapshot.pods() {
            let Some(known) = self.explanation.pods.get(&pod.id.uid) else { continue };
            groups.entry((pod.id.namespace.clone(), known.workload.clone())).or_default().pods.push(pod);
        }
        groups.retain(|_, group| is_of_interest(self, group));
        let workloads = groups.into_iter().map(|((namespace, name), group)| self.workload(namespace, name, &group));
        let workloads: Vec<WorkloadStatus> = workloads.collect();
        let jobs = jobs::open(self.snapshot, self.explanation, &workloads);
        Report { workloads, jobs }
    }

    fn is_of_interest(&self, group: &Group<'_>) -> bool {
        let is_touched = |pod: &&PodView| {
            self.operations.contains_key(pod.id.uid.as_str()) || self.wanted(pod) == Some(&GrantOp::Restart)
        };
        group.workload.is_some_and(|workload| workload.opted_in || workload.unknown_opt_in.is_some())
            || group.pods.iter().any(is_touched)
    }

    pub(super) fn wanted(&self, pod: &PodView) -> Option<&GrantOp> {
        self.explanation.pods.get(&pod.id.uid)?.wanted.as_ref()
    }

    fn workload(&self, namespace: String, name: String, group: &Group<'_>) -> WorkloadStatus {
        let mut pods: Vec<PodStatus> = group.pods.iter().map(|pod| self.pod(pod, group)).collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        let workload = group.workload;
        let companions: BTreeSet<&str> =
            group.pods.iter().filter(|pod| is_companion(pod)).map(|pod| pod.id.uid.as_str()).collect();
        // A pod whose image was only patched, or that is not Ready yet, is not updated. A companion pod is one more than those that count.
        let is_under_way = |pod: &&PodStatus| {
            if companions.contains(pod.uid.as_str()) || pod.leaves {
                return false;
            }
            let is_behind = workload.is_some_and(|workload| workload.behind.contains(&pod.uid));
            !is_behind && (!pod.ready || matches!(pod.state, State::Running(_) | State::Reserved))
        };
        let under_way = pods.iter().filter(is_under_way).count();
        let (stage, why) = workload.map_or_else(Default::default, stage);
        let why = if stage == "Finishing" && why.is_empty() { finishing(under_way) } else { why };
        let native = workload.filter(|workload| matches!(workload.stage, Stage::Native) && workload.why.is_none());
        let why = match native.and_then(|workload| self.natively(workload)) {
            Some(because) => because,
            None => why,
        };
        let overdue = workload.and_then(|workload| workload.overdue.as_ref());
        let overdue = overdue.map(|words| format!("its native rollout has not got on in time: {words}"));
        let why = joined(overdue.iter().cloned().chain([why]));
        let failure = workload.and_then(|workload| workload.failures.first());
        let halted = failure.map(|(pod, reason)| format!("halted, because {} ended as {reason}", pod.name));
        // So many have failed that nobody goes any more, and the mark is not written yet or can't be.
        let is_halted = stage == "Rolling" && halted.is_some() && self.nobody_goes(group);
        let stage = if is_halted { "Halted" } else { stage };
        let driven = stage != NOT_OPTED_IN;
        let restart = self.restart(stage, &group.pods, &pods);
        let stage = operated(stage, restart.is_some(), workload, &pods);
        let advice = format!(
            "go back: kubectl hitless undo -n {namespace} {name}; try again: kubectl hitless retry -n {namespace} {name}; or give it \
             another image"
        );
        let why = match (&halted, stage) {
            (Some(halted), _) if why.is_empty() => format!("{halted}; {advice}"),
            (_, "Halted") => format!("{why}; {advice}"),
            (Some(_) | None, _) => why,
        };
        let reload = workload.and_then(|workload| self.reload(workload));
        let is_told =
            matches!(workload.and_then(|workload| workload.reload.as_ref()), Some(Reload::Unread { recorded: true }));
        let why = if why.is_empty() && !is_told { reload.clone().unwrap_or_default() } else { why };
        let inoperable = workload.and_then(|workload| workload.inoperable.as_ref());
        let inoperable = inoperable.map(|why| InTheWay::from(why).to_string());
        // A pod that waits for it says so itself.
        let unsaid = inoperable.filter(|text| !pods.iter().any(|pod| pod.why == *text));
        let why = joined([why].into_iter().chain(unsaid));
        let is_moving = ["Rolling", RESTARTING].contains(&stage);
        let progress = if is_moving { progress(&pods) } else { String::new() };
        let at_target = workload.map_or(0, |workload| workload.total - workload.behind.len());
        WorkloadStatus {
            stage,
            held: workload.is_some_and(|workload| workload.held),
            updated: at_target.saturating_sub(under_way),
            total: workload.map_or(pods.len(), counted),
            replicas: workload.map(|workload| workload.replicas),
            restart,
            why,
            progress,
            paused: workload.and_then(|workload| Some(workload.paused?.advice(&workload.id))),
            reload,
            pods,
            driven,
            surplus: workload.map_or(0, |workload| workload.surplus),
            overdue,
            halted,
            namespace,
            name,
        }
    }

    /// All pods of the group that want something wait because it is halted.
    fn nobody_goes(&self, group: &Group<'_>) -> bool {
        group.pods.iter().filter(|pod| self.wanted(pod).is_some()).all(|pod| {
            let verdict = self.explanation.pods.get(&pod.id.uid).and_then(|known| known.verdict.as_ref());
            let waiting = verdict.and_then(|verdict| verdict.waiting.as_ref());
            matches!(waiting, Some(WaitReason::Halted { .. }))
        })
    }

    fn pod(&self, pod: &PodView, group: &Group<'_>) -> PodStatus {
        let uid = pod.id.uid.as_str();
        let mut status = PodStatus {
            name: pod.id.name.clone(),
            uid: pod.id.uid.clone(),
            node: pod.node.clone(),
            ready: pod.ready(),
            leaves: pod.terminating,
            state: State::UpToDate,
            connections: None,
            elapsed_seconds: None,
            deadline_seconds: None,
            images: pod.containers.iter().map(|each| (each.name.clone(), each.image.clone())).collect(),
            why: String::new(),
            stays: false,
            needs_change: false,
            blocked: false,
            halts: self.explanation.pods.get(uid).is_some_and(|known| known.halts),
        };
        if let Some(operation) = self.operations.get(uid) {
            self.describe(*operation, &mut status);
            status.why = joined([std::mem::take(&mut status.why), kubelet(pod, status.state)]);
            if matches!(status.state, State::Running(_)) {
                let away = no_agent(pod, &self.snapshot.cluster);
                status.why.extend(away.map(|away| format!("; nothing goes on: {}", away.text())));
            }
            if operation.grant.op == GrantOp::Foreign && matches!(status.state, State::Running(_)) {
                status.why.extend(foreign::operators(pod).map(|words| format!(": {words}")));
            }
        } else if let Some(reservation) = self.reservations.get(uid) {
            status.state = State::Reserved;
            status.elapsed_seconds = Some(self.seconds_since(&reservation.since));
            let why = if reservation.removal {
                "it serves nobody, and is deleted now"
            } else {
                "its place in the budget is taken, the grant is being written"
            };
            why.clone_into(&mut status.why);
        } else if self.wanted(pod).is_some() {
            status.state = State::Waiting;
            (status.why, status.blocked) = self.why(group, pod);
            let lasting = self.explanation.pods.get(uid).and_then(|known| known.lasting);
            status.stays = lasting.is_some_and(|lasting| lasting != Lasting::ByItself);
            status.needs_change = lasting == Some(Lasting::ByChange);
        } else if group.workload.is_some_and(|workload| is_held_off(workload, uid)) {
            status.state = State::Waiting;
            status.why = match not_ready(pod) {
                Some(words) => format!("its workload is halted; {}", dead(pod, &words)),
                None => "its workload is halted".to_owned(),
            };
            status.stays = true;
        } else if group.workload.is_some_and(|workload| is_refused(workload, uid)) {
            status.state = State::Waiting;
            "its workload's change, which is refused".clone_into(&mut status.why);
            status.stays = true;
        } else if pod.terminating {
            "the pod is being deleted".clone_into(&mut status.why);
        } else if group.workload.is_some_and(|workload| is_replaced(workload, uid)) {
            status.state = State::Waiting;
            "its native controller, which replaces it".clone_into(&mut status.why);
        } else if let Some(words) = not_ready(pod) {
            let is_halted = group.workload.is_some_and(|workload| matches!(workload.stage, Stage::Halted(_)));
            status.why = if is_halted { dead(pod, &words) } else { words };
        }
        status
    }

    fn describe(&self, operation: Operation<'_>, status: &mut PodStatus) {
        let Operation { grant, transition } = operation;
        let mode = mode(grant);
        let Some(transition) = transition else {
            status.state = State::Running(Phase::Granted);
            status.elapsed_seconds = Some(self.seconds_since(&grant.granted));
            let agent = format!("the agent on node {}", status.node.as_deref().unwrap_or("?"));
            status.why = [mode, Some(agent)].into_iter().flatten().collect::<Vec<_>>().join(": ");
            return;
        };
        status.state = transition.result.as_ref().map_or(State::Running(transition.phase), |r| State::Ended(r.outcome));
        status.elapsed_seconds = Some(self.seconds_since(&transition.since));
        let mut said: Vec<&str> = Vec::new();
        if let Some(result) = &transition.result {
            if result.outcome != Outcome::Done {
                said.push(&result.reason);
            }
        } else {
            status.connections = transition.connections;
            status.deadline_seconds = transition.deadline.as_ref().map(|deadline| -self.seconds_since(deadline));
            said.extend(mode.as_deref());
            said.extend(transition.rollback.as_deref());
            said.extend(grant.cancel.as_ref().map(|cancel| cancel.reason.as_str()));
        }
        said.extend(Some(transition.message.as_str()).filter(|message| !message.is_empty()));
        status.why = said.join(": ");
    }

    /// Why a pod waits, and whether a rule is the reason.
    fn why(&self, group: &Group<'_>, pod: &PodView) -> (String, bool) {
        let verdict = self.explanation.pods.get(&pod.id.uid).and_then(|known| known.verdict.as_ref());
        match verdict.and_then(|verdict| Some((verdict, verdict.waiting.as_ref()?))) {
            Some((verdict, WaitReason::Rules)) => return (verdict.text().unwrap_or_default(), true),
            Some((_, waiting)) => {
                // Whether the API server accepts the pod that fetches an image only the controller knows.
                let is_pulling = matches!(waiting, WaitReason::ImagePulling { .. });
                let said = is_pulling.then(|| self.blocked(group)).flatten();
                return (said.unwrap_or_else(|| InTheWay::from(waiting).to_string()), false);
            }
            None => {}
        }
        // What was said of the pod itself is closer than what was said of its workload.
        let uids = [pod.id.uid.as_str()].into_iter().chain(group.workload.iter().map(|owner| owner.id.uid.as_str()));
        let events = || self.snapshot.events.iter().map(|event| &**event);
        let said = uids.into_iter().find_map(|uid| last_event(events(), uid));
        let controller =
            if self.snapshot.controller.is_away() { "a controller, and none runs" } else { "the controller" };
        (said.unwrap_or_else(|| format!("{controller}; no rule is in the way")), false)
    }

    /// How it stands with restarts because of ConfigMaps and Secrets. They are not read from here, so the controller's words count.
    fn reload(&self, workload: &WorkloadReport) -> Option<String> {
        let reload = workload.reload.as_ref()?;
        let events = self.snapshot.events.iter().filter(|event| event.regarding == workload.id.uid);
        let last = events.filter(|event| event.reason.starts_with("Reload")).max_by_key(|event| event.time);
        let said = last.filter(|_| matches!(reload, Reload::Unread { recorded: false }));
        Some(said.map_or_else(|| format!("reload: {reload}"), |event| format!("{}: {}", event.reason, event.note)))
    }

    /// Why the workload goes natively, if that is the last thing that the controller has said of it.
    fn natively(&self, workload: &WorkloadReport) -> Option<String> {
        let events = self.snapshot.events.iter().filter(|event| event.regarding == workload.id.uid);
        let last = events.max_by_key(|event| event.time)?;
        (last.reason == NATIVE_ROLLOUT).then(|| format!("{}: {}", last.reason, last.note))
    }

    /// The last thing that the controller said of the workload, if it was that nothing moves.
    fn blocked(&self, group: &Group<'_>) -> Option<String> {
        let uid = &group.workload?.id.uid;
        last_event(self.snapshot.events.iter().map(|event| &**event), uid).filter(|said| said.starts_with(BLOCKED))
    }

    fn seconds_since(&self, time: &MicroTime) -> i64 {
        self.now.duration_since(time.0).as_secs()
    }
}

/// Those that say something, as one sentence.
fn joined(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Whether the pod is not as its workload says, and is not to be, because that version was judged bad.
fn is_held_off(workload: &WorkloadReport, uid: &str) -> bool {
    matches!(workload.stage, Stage::Halted(_)) && workload.behind.contains(uid)
}

/// Whether the pod is to get a change that is not made.
fn is_refused(workload: &WorkloadReport, uid: &str) -> bool {
    matches!(workload.stage, Stage::Refused(_)) && workload.behind.contains(uid)
}

/// Whether the pod is to be replaced by another one, which is not ours to do.
fn is_replaced(workload: &WorkloadReport, uid: &str) -> bool {
    matches!(workload.stage, Stage::Native) && workload.behind.contains(uid)
}

/// Of a native rollout those that are wanted, because more are there while it goes on.
fn counted(workload: &WorkloadReport) -> usize {
    match workload.stage {
        Stage::Native => usize::try_from(workload.replicas).unwrap_or(workload.total),
        _ => workload.total,
    }
}

/// `1 under way, 2 wait`.
fn progress(pods: &[PodStatus]) -> String {
    let count = |is: fn(&PodStatus) -> bool| pods.iter().filter(|pod| is(pod)).count();
    let running = count(|pod| matches!(pod.state, State::Running(_) | State::Reserved));
    let waiting = count(|pod| pod.state == State::Waiting);
    match (running, waiting) {
        (0, 0) => String::new(),
        (0, waiting) => format!("{waiting} wait"),
        (running, 0) => format!("{running} under way"),
        (running, waiting) => format!("{running} under way, {waiting} wait"),
    }
}

/// Whether the pod leaves or is held, and why.
fn mode(grant: &Grant) -> Option<String> {
    (!grant.mode_reason.is_empty()).then(|| format!("{} ({})", grant.mode.as_str(), grant.mode_reason))
}

/// Reason of the Event that a workload goes natively.
const NATIVE_ROLLOUT: &str = "NativeRollout";

/// Reason of the Event that no pod of a workload moves.
pub(crate) const BLOCKED: &str = "RolloutBlocked";

/// The last thing that the controller said of an object, if it was of the kind that explains waiting.
fn last_event<'a>(events: impl IntoIterator<Item = &'a EventView>, uid: &str) -> Option<String> {
    let last = events.into_iter().filter(|event| event.regarding == uid).max_by_key(|event| event.time)?;
    let explains_nothing =
        ["RolloutHeld", "RolloutFinished", NATIVE_ROLLOUT, "RestartRequested", "OptInRemoved", "FetchingImages"];
    let waits = !explains_nothing.contains(&last.reason.as_str());
    waits.then(|| format!("{}: {}", last.reason, last.note))
}

/// A word that is misspelt is named.
fn not_opted_in(workload: &WorkloadReport) -> String {
    let adopt = format!("kubectl hitless adopt -n {} {}", workload.id.namespace, workload.name());
    match &workload.unknown_opt_in {
        Some(word) => format!(
            "its annotation hitless.dev/update says {word:?}, which means nothing: write in-place, in-place-only or native; until then its rollouts are \
             Kubernetes' own"
        ),
        None => format!(
            "its rollouts are Kubernetes' own, and only restarts are in place; see what hitless would do: {adopt}"
        ),
    }
}

fn stage(workload: &WorkloadReport) -> (&'static str, String) {
    let why = workload.why.as_deref().unwrap_or_default();
    let paused = workload.paused.filter(|_| workload.opted_in).map(|pause| pause.advice(&workload.id));
    match &workload.stage {
        Stage::NotOurs => (NOT_OPTED_IN, not_opted_in(workload)),
        Stage::Idle => (IDLE, paused.unwrap_or_else(|| why.to_owned())),
        Stage::Native => {
            let native = "its native controller, which rolls it Kubernetes' own way";
            ("Native", joined([why, native].map(str::to_owned)))
        }
        Stage::Rolling => paused.map_or(("Rolling", String::new()), |paused| (PAUSED, paused)),
        // Without an obstacle it depends on the pods what is said.
        Stage::Finishing => ("Finishing", why.to_owned()),
        Stage::SteppingAside(_) => ("SteppingAside", format!("{why}; it goes on Kubernetes' own way")),
        Stage::Halted(_) => ("Halted", format!("{why}; pods that are made anew get the version before")),
        Stage::Refused(_) => (
            "Refused",
            format!("{why}; change it back, or let it roll Kubernetes' own way (hitless.dev/update: in-place)"),
        ),
    }
}

#[cfg(test)]
mod tests;

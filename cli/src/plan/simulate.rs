//! Time goes by: those that may go hold their places for the assumed time, come back, and the gate is asked again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hitless_api::pod::PodView;
use hitless_api::{DrainSpec, GrantMode, Propagation, StragglerPolicy};
use hitless_gate::{
    Answer, Approval, Approvals, Because, Candidate, Decision, Gate, Held as Place, PodFacts, Question, Verdict,
};
use hitless_rollout::mode::{Presence, Prospect};
use hitless_workloads::PodWish;
use jiff::{SignedDuration, Timestamp, Unit};

use super::report::{Going, Held, LeftOut, Report, Step};
use crate::judge::{Expected, Judge};
use crate::snapshot::Snapshot;

/// Nobody plans farther ahead.
const HORIZON: SignedDuration = SignedDuration::from_hours(24 * 366);

/// What is not known and assumed.
pub(super) struct Assumed {
    pub(super) operation_seconds: u32,
    /// Nodes and agents are not known.
    pub(super) from_files: bool,
}

/// Fills in what would happen to the pods of the Deployment.
pub(super) fn run(snapshot: &Snapshot, name: &str, namespace: &str, assumed: &Assumed, report: &mut Report) {
    let start = report.start.round(Unit::Second).unwrap_or(report.start);
    let judge = Judge::new(snapshot, start);
    let is_meant =
        |each: &&std::sync::Arc<hitless_workloads::DeploymentView>| each.name == name && each.namespace == namespace;
    let wishes = snapshot.deployments.iter().find(is_meant).and_then(|deployment| judge.plan(deployment));
    let wishes = wishes.map(|plan| plan.wishes.clone()).unwrap_or_default();
    let pods: HashMap<&str, &PodView> = snapshot.pods.iter().map(|pod| (pod.id.uid.as_str(), &**pod)).collect();
    let mut pending: BTreeMap<&str, Due<'_>> = BTreeMap::new();
    for wish in &wishes {
        let Some(pod) = pods.get(wish.pod.uid.as_str()) else { continue };
        let because = obstacles(&judge, pod, wish, assumed);
        match &wish.intent {
            Ok(intent) if because.is_empty() => {
                let due = Due { pod, operation: intent.id(), prospect: judge.prospect(pod).ok() };
                pending.insert(wish.pod.uid.as_str(), due);
            }
            Ok(_) | Err(_) => report.left_out.push(LeftOut { pod: pod.id.name.clone(), because }),
        }
    }
    report.pods = pending.len();
    report.start = start;
    if pending.values().any(|due| judge.gate.has_post_check(&due.pod.id.uid)) {
        report.notes.push("rules of stage PostCheck are assumed to pass at once".to_owned());
    }
    let usual = assumed.operation_seconds;
    let first = Course::new(&judge, &wishes, pending.clone(), Pace { usual, has_stragglers: false }).run();
    let last = Course::new(&judge, &wishes, pending, Pace { usual, has_stragglers: true }).run();
    report.seconds = first.stuck.is_empty().then(|| first.end.duration_since(start).as_secs());
    report.at_most_seconds = last.stuck.is_empty().then(|| last.end.duration_since(start).as_secs());
    report.notes.extend(
        first.asked.iter().map(|rule| format!("rule {rule} asks an approver, who is assumed to agree at once")),
    );
    if learns(&first.steps) {
        report.notes.push(
            "how long the workload is away is learned from the first pods; those that go later may be held then"
                .to_owned(),
        );
    }
    report.steps = first.steps;
    report.stuck = first.stuck;
}

/// Whether pods of later waves leave only because of what the controller will know by then.
fn learns(steps: &[Step]) -> bool {
    let waves = steps.iter().filter_map(|step| match step {
        Step::Wave { pods, .. } => Some(pods),
        Step::Wait { .. } => None,
    });
    let is_open = |pod: &Going| pod.expected.as_ref().is_some_and(Expected::is_for_unknown_gap);
    waves.skip(1).flatten().any(is_open)
}

/// What is in the way and stays: an earlier failure is over with another image.
fn obstacles(judge: &Judge<'_>, pod: &PodView, wish: &PodWish, assumed: &Assumed) -> Vec<crate::judge::InTheWay> {
    let unknown = ["NotScheduled", "NodeGone", "AgentNotReady"];
    let mut found = judge.in_the_way(pod);
    if let Err(obstacle) = &wish.intent {
        found.retain(|known| known.reason != obstacle.reason());
        found.push(crate::judge::of_obstacle(obstacle));
    }
    found.retain(|each| each.reason != "Halted" && !(assumed.from_files && unknown.contains(&each.reason)));
    found
}

/// How long operations take.
#[derive(Clone, Copy)]
struct Pace {
    /// Seconds of one that nothing is special about.
    usual: u32,
    /// Connections stay as long as the drain lets them.
    has_stragglers: bool,
}

impl Pace {
    /// Seconds of an operation of this drain. A pod that is held is not waited for: neither `minSeconds` nor the straggler policy
    /// is for it.
    fn seconds(self, drain: &DrainSpec, mode: Option<&GrantMode>) -> u32 {
        if mode == Some(&GrantMode::Hold) {
            return self.usual;
        }
        // The usual one has the least time of a cluster of which nothing is known.
        let longer = drain.min_seconds.saturating_sub(Propagation::UNKNOWN_SECONDS);
        let stragglers = if self.has_stragglers { stragglers(drain) } else { 0 };
        self.usual.saturating_add(longer).saturating_add(stragglers)
    }

    /// Of an operation that has begun, or of which nothing is known but the pod.
    fn seconds_of(self, pod: &PodView) -> u32 {
        self.seconds(&DrainSpec::of(pod).unwrap_or_default(), None)
    }
}

/// Seconds that connections may hold the pod up.
fn stragglers(drain: &DrainSpec) -> u32 {
    match drain.stragglers {
        StragglerPolicy::Close | StragglerPolicy::Destroy => drain.straggler_after_seconds.min(drain.deadline_seconds),
        StragglerPolicy::Wait | StragglerPolicy::Abort => drain.deadline_seconds,
    }
}

/// A pod that has not gone yet.
#[derive(Clone)]
struct Due<'a> {
    pod: &'a PodView,
    /// Id of the operation.
    operation: String,
    /// Which way it would go, but for who else serves then; `None` if it can't be told.
    prospect: Option<Prospect>,
}

struct Course<'a> {
    judge: &'a Judge<'a>,
    gate: Gate,
    pending: BTreeMap<&'a str, Due<'a>>,
    /// When those that are being operated are back.
    flights: BTreeMap<String, Timestamp>,
    places: BTreeMap<String, Place>,
    facts: HashMap<String, PodFacts>,
    pace: Pace,
    approvals: Approvals,
    outcome: Outcome,
    start: Timestamp,
}

#[derive(Default)]
struct Outcome {
    steps: Vec<Step>,
    stuck: Vec<Held>,
    asked: BTreeSet<String>,
    end: Timestamp,
}

impl<'a> Course<'a> {
    fn new(judge: &'a Judge<'a>, wishes: &[PodWish], pending: BTreeMap<&'a str, Due<'a>>, pace: Pace) -> Self {
        let start = judge.now;
        let all = judge.snapshot.pods.iter().chain(&judge.snapshot.elsewhere);
        let facts: HashMap<String, PodFacts> = all.map(|pod| (pod.id.uid.clone(), judge.facts(pod))).collect();
        let places = judge.places();
        // What runs already is back at the same time as what begins now.
        let back = |uid: &String| {
            let pod = judge.snapshot.pods.iter().find(|pod| pod.id.uid == *uid);
            Some((uid.clone(), later(start, pod.map_or(0, |pod| pace.seconds_of(pod)))))
        };
        let flights = places.keys().filter_map(back).collect();
        let mut gate = judge.gate.clone();
        // With another image the failures of the last one are over.
        let mut failed = judge.failed();
        for wish in wishes {
            failed.remove(&wish.pod.uid);
        }
        gate.set_failed(&failed);
        let outcome = Outcome { end: start, ..Outcome::default() };
        Self { judge, gate, pending, flights, places, facts, pace, approvals: Approvals::new(), outcome, start }
    }

    fn run(mut self) -> Outcome {
        let mut at = self.start;
        while !self.pending.is_empty() && at.duration_since(self.start) <= HORIZON {
            self.land(at);
            let verdicts = self.decide(at);
            let denied: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.allowed).collect();
            let (going, busy) = self.take_off(&verdicts, at);
            let seconds = at.duration_since(self.start).as_secs();
            let went = !going.is_empty();
            if went {
                self.outcome.steps.push(Step::Wave {
                    at,
                    seconds,
                    pods: going,
                    held: busy.into_iter().chain(held(&denied)).collect(),
                });
            }
            let landing = self.flights.values().min().copied();
            let changes =
                denied.iter().flat_map(|verdict| verdict.denied()).filter_map(hitless_gate::RuleVerdict::changes_at);
            let next = landing.into_iter().chain(changes).filter(|next| *next > at).min();
            match next {
                Some(next) => {
                    if !went && landing.is_none() {
                        self.outcome.steps.push(Step::Wait { at, seconds, until: next, held: held(&denied) });
                    }
                    at = next;
                }
                // Those that take no time at all are back now.
                None if went => self.flights.values_mut().for_each(|back| *back = at),
                None => {
                    self.outcome.stuck = held(&denied);
                    return self.outcome;
                }
            }
        }
        if !self.pending.is_empty() {
            let verdicts = self.decide(at);
            self.outcome.stuck = held(&verdicts.iter().filter(|verdict| !verdict.allowed).collect::<Vec<_>>());
        }
        self.outcome.end = self.flights.values().copied().chain([at]).max().unwrap_or(at);
        self.outcome
    }

    /// Brings back whose time is over.
    fn land(&mut self, at: Timestamp) {
        let back: Vec<String> =
            self.flights.iter().filter(|(_, end)| **end <= at).map(|(uid, _)| uid.clone()).collect();
        if back.is_empty() {
            return;
        }
        for uid in back {
            self.flights.remove(&uid);
            self.places.remove(&uid);
            if let Some(facts) = self.facts.get_mut(&uid) {
                *facts = PodFacts { available: true, unavailable_since: None, returned_at: Some(at), ..facts.clone() };
                self.gate.upsert_pod(facts);
            }
        }
        self.gate.set_held(self.places.clone());
    }

    /// Asks the gate; approvers are taken to agree.
    fn decide(&mut self, at: Timestamp) -> Vec<Verdict> {
        let candidates: Vec<Candidate> = self
            .pending
            .iter()
            .filter(|(uid, _)| !self.flights.contains_key(**uid))
            .map(|(_, due)| Candidate::of(due.pod, due.operation.clone()))
            .collect();
        let mut verdicts = self.gate.decide(&candidates, &self.approvals, at);
        let before = self.approvals.len();
        for verdict in &verdicts {
            let operation = self.pending.get(verdict.pod_uid.as_str()).map(|due| due.operation.clone());
            for rule in &verdict.asks {
                let question = Question {
                    namespace: verdict.namespace.clone(),
                    rule: rule.clone(),
                    operation: operation.clone().unwrap_or_default(),
                };
                let answer = Answer { approval: Approval::Approved, message: String::new(), since: at };
                self.approvals.entry(question).or_insert(answer);
                self.outcome.asked.insert(rule.clone());
            }
        }
        if self.approvals.len() > before {
            verdicts = self.gate.decide(&candidates, &self.approvals, at);
        }
        verdicts
    }

    /// Lets those go that the rules allow, one after another as the controller does: who goes does not serve the next one.
    /// Besides, what keeps some of them on the ground.
    fn take_off(&mut self, verdicts: &[Verdict], at: Timestamp) -> (Vec<Going>, Vec<Held>) {
        let (mut going, mut kept) = (Vec::new(), BTreeMap::<String, Held>::new());
        for verdict in verdicts.iter().filter(|verdict| verdict.allowed) {
            let Some(due) = self.pending.remove(verdict.pod_uid.as_str()) else { continue };
            let pod = due.pod;
            let prospect = due.prospect.as_ref();
            let outlook = prospect.and_then(|known| self.judge.outlook(pod, known, &|other| self.presence(other)));
            // As long as somebody is to come back.
            let busy = outlook.as_ref().and_then(|outlook| outlook.busy.as_ref()).filter(|_| !self.flights.is_empty());
            if let Some(busy) = busy {
                let held = Held::busy(busy);
                kept.entry(held.rule.clone()).and_modify(|known| known.pods += 1).or_insert(held);
                self.pending.insert(pod.id.uid.as_str(), due);
                continue;
            }
            let expected = outlook.map(|outlook| outlook.expected);
            let seconds = match prospect.zip(expected.as_ref()) {
                Some((prospect, expected)) => self.pace.seconds(&prospect.drain, Some(&expected.mode)),
                None => self.pace.seconds_of(pod),
            };
            self.flights.insert(pod.id.uid.clone(), later(at, seconds));
            self.places.insert(pod.id.uid.clone(), Place { since: at });
            going.push(Going { pod: pod.id.name.clone(), node: pod.node.clone(), expected });
        }
        if !going.is_empty() {
            self.gate.set_held(self.places.clone());
        }
        (going, kept.into_values().collect())
    }

    /// How the pod is by now.
    fn presence(&self, pod: &PodView) -> Presence {
        let uid = pod.id.uid.as_str();
        let has_returned = self.facts.get(uid).is_some_and(|facts| facts.available);
        match (self.flights.contains_key(uid), has_returned) {
            (true, _) => Presence::Away,
            (false, true) => Presence::Serves,
            (false, false) => Presence::of(pod, false),
        }
    }
}

fn later(at: Timestamp, seconds: u32) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(i64::from(seconds))).unwrap_or(Timestamp::MAX)
}

/// The rules that hold pods back, each once with the number of pods and the words for the first of them. Waiting for an
/// approver is not counted: it is assumed to agree as soon as there is room.
fn held(denied: &[&Verdict]) -> Vec<Held> {
    let mut all: BTreeMap<&str, Held> = BTreeMap::new();
    let rules = denied.iter().flat_map(|verdict| &verdict.rules).filter(|rule| rule.verdict == Decision::Denied);
    for rule in rules.filter(|rule| !matches!(rule.because, Because::AwaitingApproval { .. })) {
        all.entry(&rule.rule).and_modify(|held| held.pods += 1).or_insert_with(|| Held::of(rule));
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pod_that_leaves_waits_for_its_connections() {
        let drain =
            DrainSpec { min_seconds: 4, straggler_after_seconds: 20, deadline_seconds: 50, ..DrainSpec::default() };
        let seconds = |has_stragglers, mode| Pace { usual: 10, has_stragglers }.seconds(&drain, mode);
        for mode in [None, Some(&GrantMode::Leave)] {
            assert_eq!((seconds(false, mode), seconds(true, mode)), (12, 32), "{mode:?}");
        }
        assert_eq!((seconds(false, Some(&GrantMode::Hold)), seconds(true, Some(&GrantMode::Hold))), (10, 10));
    }
}

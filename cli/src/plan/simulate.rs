//! Rounds over assumed time: those that are granted take the assumed time and come back, and the round decides again.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::Hook;
use hitless_gate::{Denies, RuleVerdict, Verdict};
use hitless_rollout::gate_cache::GateCache;
use hitless_rollout::round::{PodVerdict, Round, WaitReason, explain, round};
use hitless_workloads::Obstacle;
use jiff::{SignedDuration, Timestamp, Unit};

use super::notes;
use super::pace::Pace;
use super::report::{Going, Held, LeftOut, Report, Step};
use super::world::{Back, World};
use crate::args::Target;
use crate::forecast::Expected;
use crate::obstacle::InTheWay;
use crate::snapshot::Snapshot;

/// Nobody plans farther ahead.
const HORIZON: SignedDuration = SignedDuration::from_hours(24 * 366);

/// Most rounds at one instant: a Service is opened in one and relied on in the next.
const MOST_ROUNDS: usize = 8;

/// What is not known and assumed.
pub(super) struct Assumed {
    pub(super) operation_seconds: u32,
    /// Nodes and agents are not known.
    pub(super) from_files: bool,
}

/// Fills in what would happen to the pods of the target.
pub(super) fn run(prepared: &Snapshot, target: &Target, assumed: &Assumed, report: &mut Report) {
    let start = report.start.round(Unit::Second).unwrap_or(report.start);
    let own: BTreeSet<String> =
        prepared.find(target).into_iter().flat_map(|found| found.pods).map(|pod| pod.id.uid.clone()).collect();
    let world = World::new(prepared.observed(start), assumed.from_files);
    let mut cache = GateCache::new(prepared.settings.clone());
    let first = round(&world.cluster, &mut cache, start);
    let own_verdicts = || first.verdicts.iter().filter(|verdict| own.contains(&verdict.pod.uid));
    if let Some(WaitReason::Natively(why)) = own_verdicts().find_map(|verdict| match &verdict.waiting {
        natively @ Some(WaitReason::Natively(_)) => natively.as_ref(),
        _ => None,
    }) {
        (report.way, report.why) = ("Native", why.clone());
        return;
    }
    let (stays, due): (Vec<&PodVerdict>, Vec<&PodVerdict>) = first
        .verdicts
        .iter()
        .filter(|verdict| own.contains(&verdict.pod.uid))
        .partition(|verdict| verdict.waiting.as_ref().is_some_and(WaitReason::stays));
    let left: BTreeSet<&str> = stays.iter().map(|verdict| verdict.pod.uid.as_str()).collect();
    let due: BTreeSet<String> = due.iter().map(|verdict| verdict.pod.uid.clone()).collect();
    let explained = explain(&world.cluster, &mut cache, start, |pod| left.contains(pod.id.uid.as_str()));
    for verdict in stays {
        let details = explained.pods.get(&verdict.pod.uid).and_then(|known| known.details.as_ref());
        let because = details.into_iter().flat_map(|details| &details.in_the_way).map(InTheWay::from).collect();
        report.left_out.push(LeftOut { pod: verdict.pod.name.clone(), because });
    }
    report.pods = due.len();
    report.start = start;
    let usual = assumed.operation_seconds;
    let course = |has_stragglers| {
        let pace = Pace { usual, has_stragglers };
        Course::new(world.clone(), GateCache::new(prepared.settings.clone()), due.clone(), pace, start).run()
    };
    let (first, last) = (course(false), course(true));
    if first.has_post_check {
        report.notes.push("rules of stage PostCheck are assumed to pass at once".to_owned());
    }
    report.seconds = first.stuck.is_empty().then(|| first.end.duration_since(start).as_secs());
    report.at_most_seconds = last.stuck.is_empty().then(|| last.end.duration_since(start).as_secs());
    report.notes.extend(
        first.asked.iter().map(|rule| format!("rule {rule} asks an approver, who is assumed to agree at once")),
    );
    report.notes.extend(notes::of_hooks(&first.hooks));
    // Those that go together see it in what their clients would notice.
    report
        .notes
        .extend(first.alone.iter().filter(|_| own.len() == 1).map(|(pod, is_tried)| notes::only_pod(pod, *is_tried)));
    if first.steps.iter().any(|step| matches!(step, Step::Back { .. })) {
        report.notes.push("pods that are not available now are assumed to come back at once".to_owned());
    }
    if learns(&first.steps) {
        report.notes.push(
            "how long the workload is away is learned from the first pods; those that go later may be held then"
                .to_owned(),
        );
    }
    if !first.beside_companion.is_empty() {
        let rules = first.beside_companion.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        report.notes.push(format!(
            "a companion pod of the new version serves while each pod is operated, because {rules} wants all pods to stay"
        ));
    }
    report.steps = first.steps;
    report.stuck = first.stuck;
    report.left = first.left;
}

/// Whether pods of later waves leave only because of what the controller will know by then.
fn learns(steps: &[Step]) -> bool {
    let waves = steps.iter().filter_map(|step| match step {
        Step::Wave { pods, .. } => Some(pods),
        Step::Wait { .. } | Step::Back { .. } => None,
    });
    let is_open = |pod: &Going| pod.expected.as_ref().is_some_and(Expected::is_for_unknown_gap);
    waves.skip(1).flatten().any(is_open)
}

struct Course {
    world: World,
    cache: GateCache,
    /// Pods of the target that have not gone yet.
    due: BTreeSet<String>,
    /// When those that are being operated are back.
    flights: BTreeMap<String, Timestamp>,
    pace: Pace,
    outcome: Outcome,
    start: Timestamp,
}

#[derive(Default)]
struct Outcome {
    steps: Vec<Step>,
    stuck: Vec<Held>,
    /// How many pods are left then.
    left: Option<usize>,
    /// Rules that let pods go only beside a companion pod.
    beside_companion: BTreeSet<String>,
    asked: BTreeSet<String>,
    has_post_check: bool,
    /// Hooks of the target's pods by their names.
    hooks: BTreeMap<String, Hook>,
    /// The pod that goes for another image while no other one serves, and nobody knows how long it is away; and whether a companion pod
    /// tries the image first.
    alone: Option<(String, bool)>,
    end: Timestamp,
}

impl Course {
    fn new(world: World, cache: GateCache, due: BTreeSet<String>, pace: Pace, start: Timestamp) -> Self {
        // What runs already is back at the same time as what begins now.
        let back = |uid: String| {
            let seconds = world.pod(&uid).map_or(0, |pod| pace.seconds_of(pod));
            (uid, later(start, seconds))
        };
        let flights = world.running().into_iter().map(back).collect();
        let outcome = Outcome { end: start, ..Outcome::default() };
        Self { world, cache, due, flights, pace, outcome, start }
    }

    fn run(mut self) -> Outcome {
        let mut at = self.start;
        while !self.due.is_empty() {
            self.land(at);
            let (going, first) = self.decide(at);
            let waits = || first.verdicts.iter().filter(|verdict| self.due.contains(&verdict.pod.uid));
            let seconds = at.duration_since(self.start).as_secs();
            let went = !going.is_empty();
            if went {
                self.outcome.steps.push(Step::Wave {
                    at,
                    seconds,
                    pods: going,
                    held: held(&self.world, waits(), false),
                });
            }
            let landing = self.flights.values().min().copied();
            let gates = waits().filter_map(|verdict| verdict.gate.as_ref());
            let changes = gates.flat_map(Verdict::denied).filter_map(RuleVerdict::changes_at);
            // A rule says itself when it changes, also for who waits for the turn of a pod that it keeps; for the rest the round does.
            let ruled = waits().filter(|verdict| verdict.waiting == Some(WaitReason::Rules));
            let ruled: BTreeSet<&str> = ruled.map(|verdict| verdict.pod.name.as_str()).collect();
            let waits_otherwise = waits().any(|verdict| match &verdict.waiting {
                None | Some(WaitReason::Rules) => false,
                Some(WaitReason::Obstacle(Obstacle::NotItsTurn { first, .. })) => !ruled.contains(first.as_str()),
                Some(_) => true,
            });
            let wake = first.wake_at.filter(|_| waits_otherwise);
            let next = landing.into_iter().chain(changes).chain(wake).filter(|next| *next > at).min();
            match next {
                Some(next) if next.duration_since(self.start) <= HORIZON => {
                    if !went && landing.is_none() {
                        let held = held(&self.world, waits(), true);
                        self.outcome.steps.push(Step::Wait { at, seconds, until: next, held });
                    }
                    at = next;
                }
                // Those that take no time at all are back now.
                None if went => self.flights.values_mut().for_each(|back| *back = at),
                None if landing.is_none() && waits().any(waits_for_pods) => {
                    let held = held(&self.world, waits(), true);
                    let Back { pods, missing } = self.world.bring_back(at);
                    if pods.is_empty() && missing == 0 {
                        return self.stuck(held);
                    }
                    self.outcome.steps.push(Step::Back { at, seconds, pods, missing, held });
                }
                Some(_) | None => {
                    let held = held(&self.world, waits(), true);
                    return self.stuck(held);
                }
            }
        }
        self.outcome.end = self.flights.values().copied().chain([at]).max().unwrap_or(at);
        self.outcome
    }

    /// Nobody goes any more.
    fn stuck(mut self, held: Vec<Held>) -> Outcome {
        (self.outcome.stuck, self.outcome.left) = (held, Some(self.due.len()));
        self.outcome
    }

    /// Brings back whose time is over.
    fn land(&mut self, at: Timestamp) {
        let back: Vec<String> =
            self.flights.iter().filter(|(_, end)| **end <= at).map(|(uid, _)| uid.clone()).collect();
        for uid in back {
            self.flights.remove(&uid);
            self.world.finish(&uid, at);
        }
    }

    /// The pods of the target that go at this instant, and the first round of it.
    fn decide(&mut self, at: Timestamp) -> (Vec<Going>, Round) {
        let (mut going, mut first) = (Vec::new(), None);
        for _ in 0..MOST_ROUNDS {
            let decided = round(&self.world.cluster, &mut self.cache, at);
            if self.approve(&decided, at) {
                continue;
            }
            for verdict in &decided.verdicts {
                going.extend(self.go(verdict, at));
            }
            let has_written = self.world.write(&decided);
            first.get_or_insert(decided);
            if !has_written {
                break;
            }
        }
        self.outcome.has_post_check |= self.world.has_post_check();
        (going, first.unwrap_or_default())
    }

    /// Approvers are assumed to agree; says whether one was asked for the first time.
    fn approve(&mut self, round: &Round, at: Timestamp) -> bool {
        let mut is_new = false;
        for ask in &round.asks {
            is_new |= self.world.approve(ask, at);
            if self.due.contains(&ask.pod.uid) {
                self.outcome.asked.insert(format!("{}/{}", ask.rule_set, ask.rule));
            }
        }
        is_new
    }

    /// `None` if the pod does not go, or is none of the target's.
    fn go(&mut self, verdict: &PodVerdict, at: Timestamp) -> Option<Going> {
        let forecast = verdict.expected.as_ref()?;
        let is_known = !self.world.cluster.unknown.modes;
        self.world.expect(&verdict.pod.uid, forecast);
        let pod = self.world.pod(&verdict.pod.uid)?;
        let seconds = if is_known {
            self.pace.seconds(&forecast.drain, Some(&forecast.mode.mode))
        } else {
            self.pace.seconds_of(pod)
        };
        if self.due.contains(&verdict.pod.uid) {
            let named = forecast.hooks.iter().map(|hook| (hook.name.clone(), hook.clone()));
            self.outcome.hooks.extend(named);
            let rules = verdict.gate.iter().filter(|gate| !gate.allowed).flat_map(Verdict::denied);
            self.outcome.beside_companion.extend(rules.map(|rule| rule.rule.to_string()));
            if is_known && forecast.is_alone && forecast.gap_milliseconds.is_none() {
                self.outcome.alone.get_or_insert_with(|| (verdict.pod.name.clone(), verdict.beside_companion));
            }
        }
        let expected = is_known.then(|| Expected::from(forecast));
        let going = Going { pod: verdict.pod.name.clone(), node: self.world.node(pod), expected };
        self.flights.insert(verdict.pod.uid.clone(), later(at, seconds));
        self.due.remove(&verdict.pod.uid).then_some(going)
    }
}

fn later(at: Timestamp, seconds: u32) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(i64::from(seconds))).unwrap_or(Timestamp::MAX)
}

/// Whether nothing is in the pod's way but other pods that are not available.
fn waits_for_pods(verdict: &PodVerdict) -> bool {
    let is_for_pods = |because: &Denies| match because {
        Denies::MaxUnavailable { quota, .. } | Denies::MaxUnavailableNodes { quota, .. } => *quota > 0,
        Denies::MinAvailable { quota, total, .. } => quota < total,
        Denies::MaxUnavailableDomains { most, .. } => *most > 0,
        Denies::PerNodeMinAvailable { .. } | Denies::AwaitingApproval { .. } => true,
        _ => false,
    };
    let gate = verdict.gate.as_ref().filter(|_| verdict.waiting == Some(WaitReason::Rules));
    gate.is_some_and(|gate| gate.denied().filter_map(RuleVerdict::denies).all(is_for_pods))
}

/// What holds pods back, each once with the number of pods and the words for the first of them: first what is no rule. Waiting for
/// another pod's turn is not said beside what that one waits for. Waiting for an approver is not counted: it is assumed to agree as
/// soon as there is room. `all`: what passes in a moment counts, too.
fn held<'a>(world: &World, verdicts: impl Iterator<Item = &'a PodVerdict>, all: bool) -> Vec<Held> {
    let (mut waits, mut rules) = (BTreeMap::<String, Held>::new(), BTreeMap::<&str, Held>::new());
    let mut turns: Option<Held> = None;
    for verdict in verdicts {
        match (&verdict.waiting, &verdict.gate) {
            (Some(WaitReason::Rules), Some(gate)) => {
                let denied = gate.denied();
                for rule in denied.filter(|rule| !matches!(rule.denies(), Some(Denies::AwaitingApproval { .. }))) {
                    rules.entry(&rule.rule).and_modify(|held| held.pods += 1).or_insert_with(|| {
                        let on_node = world.is_on_node(&verdict.pod.uid);
                        Held::of(rule, on_node, verdict.beside_companion)
                    });
                }
            }
            (Some(waiting @ WaitReason::Obstacle(Obstacle::NotItsTurn { .. })), _) => match &mut turns {
                Some(held) => held.pods += 1,
                None => turns = Some(Held::waits(waiting)),
            },
            (Some(waiting), _)
                if all || !(waiting.is_brief() || matches!(waiting, WaitReason::ServicePublishing(_))) =>
            {
                let held = Held::waits(waiting);
                waits.entry(held.rule.clone()).and_modify(|known| known.pods += 1).or_insert(held);
            }
            (Some(_) | None, _) => {}
        }
    }
    let turns = turns.filter(|_| waits.is_empty() && rules.is_empty());
    turns.into_iter().chain(waits.into_values()).chain(rules.into_values()).collect()
}

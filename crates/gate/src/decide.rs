//! One round: every candidate in a fixed order, against the room that the earlier ones left.

mod live;
mod trial;

use std::sync::Arc;

use hashbrown::HashMap;
use jiff::{SignedDuration, Timestamp};

use crate::index::{Gate, Group, OwnLimit, Pod};
use crate::order::{KnownCandidate, in_order, no_such_pod};
use crate::policy::{Check, Limits, Rule, Stage};
use crate::verdict::{BudgetConsumer, IMPLICIT, LEDGER, WORKLOAD, Who, says};
use crate::{
    Absence, Allows, Answer, Approval, Approvals, Candidate, Denies, GateInput, Question, Reason, RuleVerdict, Verdict,
    selector,
};
use live::Live;

/// Decides for a caller that keeps no [`Gate`]; see [`Gate::decide`].
#[must_use]
pub fn decide(input: &GateInput<'_>, candidates: &[Candidate], now: Timestamp) -> Vec<Verdict> {
    Gate::of(input).decide(candidates, input.approvals, now)
}

impl Gate {
    /// Decides all candidates together and returns one verdict for each, in the order in which they were decided, see
    /// [`crate::Candidate`]. A candidate that is listed twice is decided once.
    ///
    /// A pod gets its place in all budgets that count it or in none. Whoever only lacks an approval takes nothing; its approvers
    /// are to be asked ([`Verdict::asks`]) if there is room for it after all others.
    #[must_use]
    pub fn decide(&self, candidates: &[Candidate], approvals: &Approvals, now: Timestamp) -> Vec<Verdict> {
        let (known, gone) = in_order(self, candidates);
        let mut pass = DecisionPass { gate: self, approvals, now, live: HashMap::new(), implicit: IMPLICIT.into() };
        let mut verdicts: Vec<Verdict> = known.iter().map(|each| pass.decide(each)).collect();
        // What is left after everybody who goes now is offered, so that as many are asked about as could go.
        for (each, verdict) in known.iter().zip(&mut verdicts) {
            pass.ask_approvers(each, verdict);
        }
        verdicts.extend(gone.into_iter().map(no_such_pod));
        verdicts
    }

    /// Whether the rules of stage PostCheck let an operated pod return; each is asked as before an operation.
    #[must_use]
    pub fn post_check(&self, candidate: &Candidate, approvals: &Approvals, now: Timestamp) -> Verdict {
        let (known, _) = in_order(self, std::slice::from_ref(candidate));
        let Some(each) = known.first() else { return no_such_pod(&candidate.pod_uid) };
        let mut pass = DecisionPass { gate: self, approvals, now, live: HashMap::new(), implicit: IMPLICIT.into() };
        let rules = pass.answers(each, &Stage::PostCheck);
        let asks = unapproved(self, each, &Stage::PostCheck);
        let allowed = rules.iter().all(RuleVerdict::is_allowed);
        let denied_freely = rules.iter().any(|rule| rule.denies().is_some_and(|because| !because.is_about_approval()));
        Verdict { allowed, asks: if denied_freely { Vec::new() } else { asks }, ..verdict(each, rules) }
    }

    /// Whether a rule of stage PostCheck concerns the pod, so that its return has to wait for it. `candidate` is asked for only where
    /// there are such rules for its pod. A rule whose conditions the pod does not meet concerns it: it may meet them by then.
    #[must_use]
    pub fn has_post_check(&self, uid: &str, candidate: impl FnOnce() -> Candidate) -> bool {
        let Some(pod) = self.pod(uid) else { return false };
        let is_there = |rule: &&Rule| rule.stage == Stage::PostCheck && rule.check.has_effect();
        let mut rules = self.groups_of(pod).flat_map(|(_, group)| &group.policy.rules).filter(is_there).peekable();
        if rules.peek().is_none() {
            return false;
        }
        let candidate = candidate();
        let (known, _) = in_order(self, std::slice::from_ref(&candidate));
        let Some(each) = known.first() else { return false };
        let is_excused = |rule: &Rule| matches!(excuse(rule, each, self), Some(Allows::Skipped | Allows::FilteredOut));
        rules.any(|rule| !is_excused(rule))
    }
}

fn verdict(each: &KnownCandidate<'_>, rules: Vec<RuleVerdict>) -> Verdict {
    Verdict {
        pod_uid: each.pod.uid.text(),
        pod: each.name.clone(),
        namespace: each.namespace.to_owned(),
        allowed: rules.iter().all(RuleVerdict::is_allowed),
        rules,
        asks: Vec::new(),
    }
}

/// Rules of the stage that ask an approver about this pod.
fn unapproved(gate: &Gate, each: &KnownCandidate<'_>, stage: &Stage) -> Vec<String> {
    gate.groups_of(each.pod)
        .flat_map(|(_, group)| &group.policy.rules)
        .filter(|rule| rule.stage == *stage && matches!(rule.check, Check::Approval { .. }))
        .filter(|rule| excuse(rule, each, gate).is_none())
        .map(|rule| rule.path.to_string())
        .collect()
}

/// Why a rule is not asked about a pod, if it is not.
fn excuse(rule: &Rule, each: &KnownCandidate<'_>, gate: &Gate) -> Option<Allows> {
    if !rule.check.has_effect() {
        return None;
    }
    if rule.name.as_ref().is_some_and(|name| each.candidate.skips.contains(name)) {
        return Some(Allows::Skipped);
    }
    if !rule.conditions.is_empty() && rule.conditions.is_disjoint(&each.candidate.conditions) {
        return Some(Allows::ConditionsUnmet { conditions: rule.conditions.iter().cloned().collect() });
    }
    let filter = rule.filter.as_ref()?;
    (!gate.has_labels(each.pod, filter)).then_some(Allows::FilteredOut)
}

struct DecisionPass<'g> {
    gate: &'g Gate,
    approvals: &'g Approvals,
    now: Timestamp,
    /// Groups that were asked, as those that go have left them.
    live: HashMap<u32, Live>,
    /// [`IMPLICIT`], to be shared.
    implicit: Arc<str>,
}

impl<'g> DecisionPass<'g> {
    fn decide(&mut self, each: &KnownCandidate<'g>) -> Verdict {
        if each.pod.is_reserved() {
            return verdict(each, vec![says(&Arc::from(LEDGER), Allows::AlreadyReserved)]);
        }
        let verdict = verdict(each, self.answers(each, &Stage::PreCheck));
        if verdict.allowed {
            self.take(each);
        }
        verdict
    }

    /// Fills [`Verdict::asks`].
    fn ask_approvers(&mut self, each: &KnownCandidate<'g>, verdict: &mut Verdict) {
        let in_the_way = |rule: &RuleVerdict| rule.denies().is_some_and(|because| !because.is_about_approval());
        let asks = unapproved(self.gate, each, &Stage::PreCheck);
        if asks.is_empty() || each.pod.is_reserved() {
            return;
        }
        let waits_for_approval_only = !verdict.allowed && !verdict.rules.iter().any(in_the_way);
        if verdict.allowed {
            verdict.asks = asks;
        } else if waits_for_approval_only && !self.answers(each, &Stage::PreCheck).iter().any(in_the_way) {
            self.take(each);
            verdict.asks = asks;
        }
    }

    /// Asks every rule, also after a denial, so that a user sees all that is in the way at once. Nothing is taken yet.
    fn answers(&mut self, each: &KnownCandidate<'g>, stage: &Stage) -> Vec<RuleVerdict> {
        let gate = self.gate;
        let own = gate.owner_group(each.pod);
        let mut answers = Vec::new();
        let mut implicit = *stage == Stage::PreCheck;
        for (id, group) in gate.groups_of(each.pod).filter(|(id, _)| Some(*id) != own) {
            implicit &= !group.policy.replaces_implicit;
            for rule in &group.policy.rules {
                answers.push(self.answer(each, (id, group), rule, stage));
            }
        }
        let limit = own.and_then(|_| gate.own_limit(each.pod)).filter(|_| *stage == Stage::PreCheck);
        answers.extend(match limit {
            Some(OwnLimit { most, counts_extra_pods }) => {
                let limits = Limits { counts_extra_pods, ..Limits::at_most(u64::from(most)) };
                Some(self.own_budget(each, &WORKLOAD.into(), |_| limits))
            }
            None if implicit => self.implicit(each),
            None => None,
        });
        answers
    }

    fn answer(
        &mut self,
        each: &KnownCandidate<'g>,
        group: (u32, &'g Group),
        rule: &Rule,
        stage: &Stage,
    ) -> RuleVerdict {
        let path = &rule.path;
        // A pod may not set out that could not return: what can't be understood at its return is in its way before.
        let is_asked = rule.stage == *stage
            || matches!(rule.check, Check::Pass(Allows::Disabled))
            || (rule.stage == Stage::PostCheck && matches!(rule.check, Check::Deny(_)));
        if !is_asked {
            let stage = match &rule.stage {
                Stage::PreCheck => "PreCheck",
                Stage::PostCheck => "PostCheck",
                Stage::Other(other) => other,
            };
            return says(path, Allows::OtherStage { stage: stage.to_owned() });
        }
        if let Some(because) = excuse(rule, each, self.gate) {
            return says(path, because);
        }
        if let Check::Approval { ignores_failure } = rule.check {
            return self.approval(each, path, ignores_failure);
        }
        match self.check(each, group, &rule.check) {
            Ok(because) => says(path, because),
            Err(because) => {
                let (holders, since) = match because.who() {
                    Some(who) => self.holders(group, who, each.pod),
                    None => (Arc::default(), None),
                };
                RuleVerdict { since, holders, ..says(path, because) }
            }
        }
    }

    fn approval(&self, each: &KnownCandidate<'g>, path: &Arc<str>, ignores_failure: bool) -> RuleVerdict {
        let question = Question {
            namespace: each.namespace.to_owned(),
            rule: path.to_string(),
            operation: each.candidate.operation.clone(),
        };
        let Some(Answer { approval, message, since }) = self.approvals.get(&question) else {
            return says(path, Denies::AwaitingApproval { message: String::new() });
        };
        let message = message.clone();
        let because: Reason = match approval {
            Approval::Approved => Allows::Approved.into(),
            Approval::Pending => Denies::AwaitingApproval { message }.into(),
            Approval::Refused => Denies::ApprovalRefused { message }.into(),
            Approval::Unreachable if ignores_failure => Allows::ApproverIgnored { message }.into(),
            Approval::Unreachable => Denies::ApproverUnreachable { message }.into(),
        };
        RuleVerdict { since: Some(*since), ..says(path, because) }
    }

    fn check(
        &mut self,
        each: &KnownCandidate<'g>,
        (id, group): (u32, &'g Group),
        check: &Check,
    ) -> Result<Allows, Denies> {
        let pod = each.pod;
        let (gate, now) = (self.gate, self.now);
        let own = gate.classes.get(pod.class as usize).map_or(0, |class| group.aside_of(class.namespace));
        match check {
            Check::Pass(because) => Ok(because.clone()),
            Check::Deny(because) => Err(because.clone()),
            Check::Labels(requires) if gate.has_labels(pod, requires) => Ok(Allows::LabelsMatch),
            Check::Labels(requires) => Err(Denies::LabelsDiffer { requires: requires.to_string() }),
            Check::Windows(windows) => windows.ask(now),
            Check::Soak { seconds } => soak(group, *seconds, now),
            Check::Failures { most } if group.counts.failed < u64::from(*most) => Ok(Allows::FewFailures),
            Check::Failures { most } => {
                Err(Denies::TooManyFailures { most: u64::from(*most), failed: group.counts.failed })
            }
            // Answered by its caller, which knows the question.
            Check::Approval { .. } => Err(Denies::AwaitingApproval { message: String::new() }),
            Check::Concurrent { most } => self.live(id, group).concurrent(*most, own),
            Check::Availability(_) | Check::Nodes(_) | Check::Topology { .. } | Check::PerNode { .. }
                if costs_nothing(each) =>
            {
                Ok(Allows::AlreadyUnavailable)
            }
            Check::Availability(limits) => self.live(id, group).availability_of(each, *limits, own),
            Check::Nodes(bound) => {
                let live = self.live(id, group);
                let answer = live.nodes(group, pod, *bound);
                answer.or_else(|why| live.trial_on_nodes((gate, group), each, *bound).unwrap_or(Err(why)))
            }
            Check::Topology { key, most } => {
                let live = self.live(id, group);
                let answer = live.topology((gate, group), pod, key, *most);
                answer.or_else(|why| live.trial_on_domains((gate, group), each, (key, *most), why))
            }
            Check::PerNode { fewest } => {
                let node = pod.node.map(|node| gate.symbols.text(node)).unwrap_or_default();
                let live = self.live(id, group);
                let answer = live.per_node(group, pod, node, *fewest);
                answer.or_else(|why| live.trial_on_node((gate, group), each, *fewest).unwrap_or(Err(why)))
            }
        }
    }

    fn implicit(&mut self, each: &KnownCandidate<'g>) -> Option<RuleVerdict> {
        let percent = self.gate.settings.implicit?.percent;
        let name = self.implicit.clone();
        Some(self.own_budget(each, &name, |total| implicit_limits(total, percent)))
    }

    /// The limits of a workload's pods, of whose number they are a function.
    fn own_budget(
        &mut self,
        each: &KnownCandidate<'g>,
        name: &Arc<str>,
        limits: impl Fn(u64) -> Limits,
    ) -> RuleVerdict {
        if costs_nothing(each) {
            return says(name, Allows::AlreadyUnavailable);
        }
        let own = self.gate.owner_group(each.pod).and_then(|id| Some((id, self.gate.groups.get(id as usize)?)));
        // A pod without an owner has nobody to stand in for it: it is a group of its own.
        let Some((id, group)) = own else {
            let alone = Live::of_one();
            return says(name, alone.availability(limits(1), false, 0));
        };
        let live = self.live(id, group);
        let limits = limits(live.counts.total);
        match live.availability_of(each, limits, 0) {
            Ok(because) => says(name, because),
            Err(because) => {
                let (holders, since) = self.holders((id, group), because.who().unwrap_or(Who::Down), each.pod);
                RuleVerdict { since, holders, ..says(name, because) }
            }
        }
    }

    fn live(&mut self, id: u32, group: &'g Group) -> &mut Live {
        self.live.entry(id).or_insert_with(|| Live::of(group))
    }

    fn holders(
        &mut self,
        (id, group): (u32, &'g Group),
        who: Who,
        pod: &Pod,
    ) -> (Arc<[BudgetConsumer]>, Option<Timestamp>) {
        let gate = self.gate;
        self.live(id, group).holders(gate, group, who, pod.node)
    }

    /// Takes one place in every budget that the pod counts in.
    fn take(&mut self, each: &KnownCandidate<'g>) {
        for (id, group) in self.gate.groups_of(each.pod) {
            self.live.entry(id).or_insert_with(|| Live::of(group)).take(group, each.id, each.pod);
        }
    }
}

/// Its own place is taken already, or it is away and nothing is lost by operating it.
fn costs_nothing(each: &KnownCandidate<'_>) -> bool {
    each.pod.is_reserved() || (!each.pod.is_available() && each.candidate.absence == Absence::CostsNothing)
}

/// A share that rounds down, but at least one.
fn implicit_limits(total: u64, percent: u32) -> Limits {
    let quota = (total.saturating_mul(u64::from(percent)) / 100).max(1);
    Limits::at_most(quota)
}

fn soak(group: &Group, seconds: u32, now: Timestamp) -> Result<Allows, Denies> {
    if group.counts.reserved > 0 {
        return Err(Denies::WaveRunning { running: group.counts.reserved });
    }
    let until =
        group.returned_at().and_then(|last| last.checked_add(SignedDuration::from_secs(i64::from(seconds))).ok());
    match until.filter(|until| now < *until) {
        Some(until) => Err(Denies::Soaking { until }),
        None => Ok(Allows::Soaked),
    }
}

impl Gate {
    /// How many pods of the pod's workload may be unavailable, as the workload itself says.
    fn own_limit(&self, pod: &Pod) -> Option<OwnLimit> {
        pod.owner().and_then(|owner| self.owners.get(owner as usize))?.limit
    }

    fn has_labels(&self, pod: &Pod, wanted: &selector::Selector<'_>) -> bool {
        self.classes.get(pod.class as usize).is_some_and(|class| self.selects(wanted, class))
    }
}

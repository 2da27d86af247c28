//! What was asked, what was answered, and which requests are due. Pure: time and answers come in, requests go out.
//!
//! ```text
//!           POST            success                           finished / named
//!   Due ───────────▶ Asking ─────────▶ Approved ◀──────────────────────┐
//!    ▲                 │ └── poll ────────────────────▶ InTask ────────┤
//!    └── refused: 5 s, unreachable: 1 s … 30 s ┘           └─ stop, timeout: Due
//! ```
//!
//! Kuperator's protocol (v0.7.4) without its faults: an answer is bound to one operation, a rule's earlier answers go with the
//! webhook they came from, a task survives a restart, an unreachable approver is asked again less and less often.

mod task;
mod webhook_rule;

use std::collections::BTreeMap;
use std::sync::Arc;

use hitless_api::PodRef;
use hitless_api::pod_transition_rule::{RuleState, TransitionRule, TransitionRuleWebhook};
use hitless_gate::approval::{Approvals, Question};
use jiff::{SignedDuration, Timestamp};

use super::Interest;
use hitless_rollout::snapshot::RuleView;

use webhook_rule::WebhookRule;

/// Requests that are under way at the same time; upstream has 16. A namespace that has none may send one beyond them.
pub const MOST_CALLS: usize = 64;
/// But not beyond that.
pub const MOST_CALLS_EVER: usize = 256;
/// Those of one namespace: approvers that never answer take nobody else's places.
pub const MOST_CALLS_OF_NAMESPACE: usize = 8;
/// Longest time of one request.
pub const CALL_SECONDS: i64 = 30;

/// A webhook rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleKey {
    /// Namespace of its PodTransitionRule.
    pub namespace: String,
    /// Name of its PodTransitionRule.
    pub rule_set: String,
    /// Its own name.
    pub rule: String,
}

/// What of a rule decides how it is asked. When this changes, everything that was answered is asked again.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The rule's stage as it stands there.
    pub stage: Option<String>,
    /// Whom to ask.
    pub webhook: TransitionRuleWebhook,
    /// Two webhook rules have this name, so that nobody can say whose answer is whose.
    pub ambiguous: bool,
}

/// Number of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(u64);

/// A request to be sent now; its outcome goes to [`Requests::done`].
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its number.
    pub id: CallId,
    /// The rule.
    pub rule: RuleKey,
    /// How the rule is asked.
    pub config: Arc<Config>,
    /// What to send.
    pub request: Request,
    /// How long it may take.
    pub timeout: SignedDuration,
}

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A POST about these pods; their names differ.
    Ask(Vec<PodRef>),
    /// A GET about the task with this id.
    Poll(String),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The approver could not be asked, or did not answer with a document.
    Unreachable(String),
    /// The rule itself does not say whom to ask, or not how: no policy for unreachable approvers lets anybody pass.
    Misconfigured(String),
}

/// Everything known about approvers and their answers.
#[derive(Debug, Default)]
pub struct Requests {
    webhook_rules: BTreeMap<RuleKey, WebhookRule>,
    calls: BTreeMap<CallId, Live>,
    last_call: u64,
    last_number: u64,
    wake_at: Option<Timestamp>,
}

#[derive(Debug)]
struct Live {
    rule: RuleKey,
    number: u64,
    about: About,
}

/// What an answer will be about.
#[derive(Clone, Debug)]
enum About {
    Operations(Vec<String>),
    Task(u64),
}

impl Requests {
    /// Takes in what a round wants to know and which rules there are; says which requests are to be sent now.
    pub fn update(&mut self, interest: &Interest<'_>, rules: &[Arc<RuleView>], now: Timestamp) -> Vec<Call> {
        self.read(rules, now);
        self.webhook_rules.values_mut().for_each(WebhookRule::begin_round);
        for ask in interest.asks {
            let (namespace, rule_set, rule) = (ask.namespace.clone(), ask.rule_set.clone(), ask.rule.clone());
            if let Some(webhook_rule) = self.webhook_rules.get_mut(&RuleKey { namespace, rule_set, rule }) {
                webhook_rule.ask(ask, now);
            }
        }
        self.webhook_rules.values_mut().for_each(|webhook_rule| webhook_rule.forget(interest, now));
        self.send(now)
    }

    /// Takes in the outcome of a request: the body of the answer, or why there is none.
    pub fn done(&mut self, id: CallId, outcome: Result<Vec<u8>, Failure>, now: Timestamp) {
        let Some(live) = self.calls.remove(&id) else { return };
        // The rule may have changed or gone meanwhile.
        let Some(webhook_rule) =
            self.webhook_rules.get_mut(&live.rule).filter(|webhook_rule| webhook_rule.number == live.number)
        else {
            return;
        };
        match live.about {
            About::Operations(operations) => webhook_rule.answered(&operations, outcome, now),
            About::Task(task) => webhook_rule.polled(task, outcome, now),
        }
    }

    /// What is known of every operation that was asked about.
    #[must_use]
    pub fn approvals(&self) -> Approvals {
        let mut approvals = Approvals::new();
        for (key, webhook_rule) in &self.webhook_rules {
            let rule = format!("{}/{}", key.rule_set, key.rule);
            approvals.extend(webhook_rule.answers().map(|(operation, answer)| {
                let question =
                    Question { namespace: key.namespace.clone(), rule: rule.clone(), operation: operation.to_owned() };
                (question, answer.clone())
            }));
        }
        approvals
    }

    /// When [`Requests::update`] is to be called again even if nothing else happens.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.wake_at
    }

    /// Tasks and their history as upstream clients expect them, by namespace and name of the PodTransitionRule. Every rule set
    /// with a webhook rule that is known is listed, also with nothing to say.
    #[must_use]
    pub fn rule_states(&self) -> BTreeMap<(String, String), Vec<RuleState>> {
        let mut states: BTreeMap<(String, String), Vec<RuleState>> = BTreeMap::new();
        for (key, webhook_rule) in &self.webhook_rules {
            let all = states.entry((key.namespace.clone(), key.rule_set.clone())).or_default();
            all.extend(
                webhook_rule.state().map(|status| RuleState { name: key.rule.clone(), webhook_status: Some(status) }),
            );
        }
        states
    }

    /// Forgets everything: another one leads now. Outcomes of requests that are still under way are ignored.
    pub fn end_of_term(&mut self) {
        self.webhook_rules.clear();
        self.calls.clear();
        self.wake_at = None;
    }

    /// Takes note of rules that are new, changed or gone.
    fn read(&mut self, rules: &[Arc<RuleView>], now: Timestamp) {
        let mut known = std::mem::take(&mut self.webhook_rules);
        for view in rules {
            for (rule, config) in webhooks(&view.spec.rules) {
                let key = RuleKey { namespace: view.namespace.clone(), rule_set: view.name.clone(), rule };
                let webhook_rule = match known.remove(&key) {
                    Some(webhook_rule) if *webhook_rule.config == config => webhook_rule,
                    earlier => {
                        self.last_number += 1;
                        let mut webhook_rule = WebhookRule::new(self.last_number, config);
                        match earlier {
                            Some(earlier) => webhook_rule.history = earlier.closed(now),
                            None => webhook_rule.resume(view, &key.rule, now),
                        }
                        webhook_rule
                    }
                };
                self.webhook_rules.insert(key, webhook_rule);
            }
        }
    }

    fn send(&mut self, now: Timestamp) -> Vec<Call> {
        let mut due: Vec<(Timestamp, RuleKey, Due)> = Vec::new();
        let mut later: Option<Timestamp> = None;
        for (key, webhook_rule) in &self.webhook_rules {
            for (at, what) in webhook_rule.due() {
                if at <= now {
                    due.push((at, key.clone(), what));
                } else {
                    later = Some(later.map_or(at, |other| other.min(at)));
                }
            }
        }
        due.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        // What finds no place now is sent when an outcome has made one.
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for live in self.calls.values() {
            *places.entry(live.rule.namespace.clone()).or_default() += 1;
        }
        let mut all = self.calls.len();
        due.retain(|(_, key, _)| {
            let taken = places.entry(key.namespace.clone()).or_default();
            let has_place = match *taken {
                0 => all < MOST_CALLS_EVER,
                taken => taken < MOST_CALLS_OF_NAMESPACE && all < MOST_CALLS,
            };
            *taken += usize::from(has_place);
            all += usize::from(has_place);
            has_place
        });
        self.wake_at = later;
        due.into_iter().filter_map(|(_, key, what)| self.call(key, what, now)).collect()
    }

    fn call(&mut self, rule: RuleKey, what: Due, now: Timestamp) -> Option<Call> {
        let webhook_rule = self.webhook_rules.get_mut(&rule)?;
        let (about, request, timeout) = match what {
            Due::Ask => {
                let (operations, pods) = webhook_rule.take(now);
                (About::Operations(operations), Request::Ask(pods), SignedDuration::from_secs(CALL_SECONDS))
            }
            Due::Poll(number) => {
                let (id, timeout) = webhook_rule.poll(number, now)?;
                (About::Task(number), Request::Poll(id), timeout)
            }
        };
        self.last_call += 1;
        let id = CallId(self.last_call);
        self.calls.insert(id, Live { rule: rule.clone(), number: webhook_rule.number, about });
        Some(Call { id, rule, config: Arc::clone(&webhook_rule.config), request, timeout })
    }
}

/// A request that a rule has to send.
#[derive(Clone, Copy, Debug)]
enum Due {
    Ask,
    Poll(u64),
}

/// Rules that ask somebody, by name. Of several kinds in one rule upstream evaluates the first one only; a webhook is the last.
fn webhooks(rules: &[TransitionRule]) -> BTreeMap<String, Config> {
    let mut all: BTreeMap<String, Config> = BTreeMap::new();
    for rule in rules.iter().filter(|rule| !rule.disabled && rule.available_policy.is_none()) {
        let Some(webhook) = rule.webhook.as_ref().filter(|_| rule.label_check.is_none()) else { continue };
        let config = Config { stage: rule.stage.clone(), webhook: webhook.clone(), ambiguous: false };
        all.entry(rule.name.clone()).and_modify(|known| known.ambiguous = true).or_insert(config);
    }
    all
}

/// `seconds` after `time`.
fn after(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

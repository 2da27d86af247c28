//! One webhook rule: its operations, its tasks, its failures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hitless_api::pod_transition_rule::{TaskInfo, WebhookStatus};
use hitless_api::{Grant, PodRef};
use hitless_gate::approval::{Answer, Approval};
use hitless_runtime::backoff::Backoff;
use jiff::{SignedDuration, Timestamp};

use super::task::{Progress, Task};
use super::{CALL_SECONDS, Config, Due, Failure, after};
use crate::approval::wire::{LONGEST_TASK_ID, PollReply, Reply, clip};
use crate::approval::{Ask, Interest};
use hitless_rollout::snapshot::RuleView;

/// After a refusal, as upstream.
const REFUSED_SECONDS: i64 = 5;
/// After an answer that only a change of the rule or the approver can mend.
const MISCONFIGURED_SECONDS: i64 = 30;
/// Waits for an approver that can't be reached.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// An answer is kept for so long while nobody asks and the pod is not among those that wait: one round may not see it.
const KEEP_SECONDS: i64 = 10;
/// Ended tasks are shown for so long, as upstream.
const HISTORY_SECONDS: i64 = 600;
/// Ended tasks that are shown at most.
const LONGEST_HISTORY: usize = 16;
/// Pods in one POST.
const MOST_PODS: usize = 1000;

/// One webhook rule.
#[derive(Debug)]
pub(super) struct WebhookRule {
    pub(super) number: u64,
    pub(super) config: Arc<Config>,
    pub(super) history: Vec<TaskInfo>,
    entries: BTreeMap<String, Entry>,
    tasks: BTreeMap<u64, Task>,
    last_task: u64,
    posting: bool,
    /// The approver could not be reached: how often running, since when it is not asked, and why.
    failures: u32,
    not_before: Timestamp,
    failure: Option<String>,
}

/// One operation.
#[derive(Debug)]
struct Entry {
    pod: PodRef,
    state: State,
    asked: bool,
    keep_until: Timestamp,
    answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be asked, not before then.
    Due(Timestamp),
    Asking,
    InTask,
    Approved,
}

impl Entry {
    fn new(pod: PodRef, state: State, now: Timestamp) -> Self {
        let answer = Answer { approval: Approval::Pending, message: "not asked yet".to_owned(), since: now };
        Self { pod, state, asked: false, keep_until: now, answer }
    }

    fn say(&mut self, approval: Approval, message: &str, now: Timestamp) {
        if self.answer.approval != approval {
            self.answer.since = now;
        }
        self.answer.message = clip(message);
        self.answer.approval = approval;
    }

    fn approve(&mut self, message: &str, now: Timestamp) {
        self.state = State::Approved;
        self.say(Approval::Approved, message, now);
    }

    fn refuse(&mut self, message: &str, retry_seconds: i64, now: Timestamp) {
        self.state = State::Due(after(now, retry_seconds));
        self.say(Approval::Refused, message, now);
    }
}

impl WebhookRule {
    pub(super) fn new(number: u64, config: Config) -> Self {
        Self {
            number,
            config: Arc::new(config),
            history: Vec::new(),
            entries: BTreeMap::new(),
            tasks: BTreeMap::new(),
            last_task: 0,
            posting: false,
            failures: 0,
            not_before: Timestamp::MIN,
            failure: None,
        }
    }

    /// Takes the tasks of an earlier leader on, unless the rule has changed since they were reported.
    pub(super) fn resume(&mut self, view: &RuleView, rule: &str, now: Timestamp) {
        let Some(status) = view.status.as_ref() else { return };
        let Some(state) = status.rule_states.iter().find(|state| state.name == rule) else { return };
        let Some(webhook) = &state.webhook_status else { return };
        self.history.clone_from(&webhook.history);
        let Some(poll) = &self.config.webhook.client_config.poll else { return };
        if status.observed_generation != Some(view.generation) {
            return;
        }
        for task in webhook.task_states.iter().filter_map(|info| Task::resume(info, poll, now)) {
            let parts = task.waiting.iter().map(|part| (part, State::InTask));
            for ((name, operation), state) in parts.chain(task.approved.iter().map(|part| (part, State::Approved))) {
                // The id of an operation begins with the uid of its pod.
                let uid = Grant::pod_uid_of(operation).unwrap_or(operation);
                let pod = PodRef { namespace: view.namespace.clone(), name: name.clone(), uid: uid.to_owned() };
                let mut entry = Entry::new(pod, state, now);
                entry.keep_until = after(now, KEEP_SECONDS).max(task.deadline);
                match state {
                    State::Approved => entry.approve(&task.message, now),
                    _ => entry.say(Approval::Pending, &waits(&task), now),
                }
                self.entries.insert(operation.clone(), entry);
            }
            self.last_task += 1;
            self.tasks.insert(self.last_task, task);
        }
    }

    /// The history of a rule that asks somebody else from now on.
    pub(super) fn closed(mut self, now: Timestamp) -> Vec<TaskInfo> {
        for task in std::mem::take(&mut self.tasks).into_values() {
            self.history.push(task.ended("the rule's webhook has changed", now));
        }
        self.history
    }

    pub(super) fn begin_round(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.asked = false);
    }

    pub(super) fn ask(&mut self, ask: &Ask, now: Timestamp) {
        let (ambiguous, failure) = (self.config.ambiguous, self.failure.as_deref());
        let entry = self.entries.entry(ask.operation.clone()).or_insert_with(|| {
            let mut entry = Entry::new(ask.pod.clone(), State::Due(now), now);
            if ambiguous {
                let text = "two webhook rules of this PodTransitionRule have the same name, so their answers can't be told apart; rename one";
                entry.say(Approval::Refused, text, now);
            } else if let Some(failure) = failure {
                entry.say(Approval::Unreachable, failure, now);
            }
            entry
        });
        entry.pod.clone_from(&ask.pod);
        entry.asked = true;
        entry.keep_until = after(now, KEEP_SECONDS);
    }

    /// Drops what nobody is interested in any more.
    pub(super) fn forget(&mut self, interest: &Interest<'_>, now: Timestamp) {
        let before = self.config.stage.as_deref() != Some("PostCheck");
        self.entries.retain(|_, entry| {
            let uid = entry.pod.uid.as_str();
            if !entry.asked && before && interest.running.contains(uid) {
                return false;
            }
            if interest.waiting.contains(uid) {
                entry.keep_until = entry.keep_until.max(after(now, KEEP_SECONDS));
            }
            entry.asked || entry.keep_until > now
        });
        let entries = &self.entries;
        let lost = |task: &Task| !task.waiting.values().any(|operation| entries.contains_key(operation));
        let lost: Vec<u64> = self.tasks.iter().filter(|(_, task)| lost(task)).map(|(number, _)| *number).collect();
        for task in lost.iter().filter_map(|number| self.tasks.remove(number)) {
            self.history.push(task.ended("none of its pods waits any more", now));
        }
        let fresh = |info: &TaskInfo| info.last_time.as_ref().is_some_and(|time| after(time.0, HISTORY_SECONDS) > now);
        self.history.retain(fresh);
        let excess = self.history.len().saturating_sub(LONGEST_HISTORY);
        self.history.drain(..excess);
    }

    /// What is to be sent, and when.
    pub(super) fn due(&self) -> Vec<(Timestamp, Due)> {
        let ask = self.entries.values().filter_map(|entry| match entry.state {
            State::Due(at) if entry.asked => Some(at.max(self.not_before)),
            _ => None,
        });
        let ask = ask.min().filter(|_| !self.posting && !self.config.ambiguous).map(|at| (at, Due::Ask));
        let polls = self.tasks.iter().filter(|(_, task)| !task.polling);
        ask.into_iter().chain(polls.map(|(number, task)| (task.next_poll, Due::Poll(*number)))).collect()
    }

    /// The operations and pods of the next POST.
    pub(super) fn take(&mut self, now: Timestamp) -> (Vec<String>, Vec<PodRef>) {
        self.posting = true;
        let mut names = BTreeSet::new();
        let mut taken = (Vec::new(), Vec::new());
        for (operation, entry) in &mut self.entries {
            let due = entry.asked && matches!(entry.state, State::Due(at) if at <= now);
            if due && taken.0.len() < MOST_PODS && names.insert(entry.pod.name.clone()) {
                entry.state = State::Asking;
                taken.0.push(operation.clone());
                taken.1.push(entry.pod.clone());
            }
        }
        taken
    }

    /// Id and timeout of a task's next poll.
    pub(super) fn poll(&mut self, number: u64, now: Timestamp) -> Option<(String, SignedDuration)> {
        let task = self.tasks.get_mut(&number)?;
        task.poll(now);
        let left = task.deadline.duration_since(now).max(SignedDuration::from_secs(5));
        Some((task.id.clone(), left.min(SignedDuration::from_secs(CALL_SECONDS))))
    }

    /// The outcome of a POST.
    pub(super) fn answered(&mut self, operations: &[String], outcome: Result<Vec<u8>, Failure>, now: Timestamp) {
        self.posting = false;
        let reply: Result<Reply, Failure> = outcome.and_then(|body| parse(&body));
        let operations: BTreeSet<&String> = operations.iter().collect();
        // Those that were forgotten meanwhile are not among the entries any more, or again and not asked about yet.
        let asked = self.entries.iter_mut();
        let asked = asked.filter(|(operation, entry)| entry.state == State::Asking && operations.contains(operation));
        match reply {
            Ok(reply) => {
                (self.failures, self.not_before, self.failure) = (0, Timestamp::MIN, None);
                let poll = self.config.webhook.client_config.poll.as_ref();
                let verdict = Verdict::of(&reply, poll.is_some());
                let message = clip(reply.message.as_deref().unwrap_or_default());
                let named: BTreeSet<&str> = reply.finished_names.iter().flatten().map(String::as_str).collect();
                let (mut approved, mut waiting) = (BTreeMap::new(), BTreeMap::new());
                for (operation, entry) in asked {
                    let part = (entry.pod.name.clone(), operation.clone());
                    match &verdict {
                        Verdict::Approved => entry.approve(&message, now),
                        _ if named.contains(entry.pod.name.as_str()) => {
                            entry.approve(&message, now);
                            approved.extend([part]);
                        }
                        Verdict::Refused(text, seconds) => entry.refuse(text, *seconds, now),
                        Verdict::Task(_) => {
                            entry.state = State::InTask;
                            waiting.extend([part]);
                        }
                    }
                }
                if let (Verdict::Task(id), Some(poll), false) = (&verdict, poll, waiting.is_empty()) {
                    let task = Task::begin(id, poll, approved, waiting, &message, now);
                    self.last_task += 1;
                    say_waiting(&mut self.entries, &task, now);
                    self.tasks.insert(self.last_task, task);
                }
            }
            Err(Failure::Misconfigured(text)) => asked.for_each(|(_, e)| e.refuse(&text, MISCONFIGURED_SECONDS, now)),
            Err(Failure::Unreachable(text)) => {
                for (_, entry) in asked {
                    entry.state = State::Due(now);
                    entry.say(Approval::Unreachable, &text, now);
                }
                self.failures = self.failures.saturating_add(1);
                let wait = BACKOFF.delay(self.failures).as_secs();
                self.not_before = after(now, i64::try_from(wait).unwrap_or(i64::MAX));
                self.failure = Some(text);
            }
        }
    }

    /// The outcome of a poll.
    pub(super) fn polled(&mut self, number: u64, outcome: Result<Vec<u8>, Failure>, now: Timestamp) {
        let Some(task) = self.tasks.get_mut(&number) else { return };
        let progress = match outcome.and_then(|body| parse::<PollReply>(&body)) {
            Ok(reply) => task.polled(&reply, now),
            Err(Failure::Unreachable(text) | Failure::Misconfigured(text)) => task.poll_failed(&text, now),
        };
        for operation in task.approved.values() {
            if let Some(entry) = self.entries.get_mut(operation).filter(|entry| entry.state == State::InTask) {
                entry.approve(&task.message, now);
            }
        }
        let why = match progress {
            Progress::Running => return say_waiting(&mut self.entries, task, now),
            Progress::Finished => String::new(),
            Progress::Stopped(why) => why,
        };
        let Some(task) = self.tasks.remove(&number) else { return };
        for operation in task.waiting.values() {
            if let Some(entry) = self.entries.get_mut(operation).filter(|entry| entry.state == State::InTask) {
                entry.state = State::Due(now);
                entry.say(Approval::Pending, &format!("{why}; asking again"), now);
            }
        }
        self.history.push(task.ended(&why, now));
    }

    pub(super) fn answers(&self) -> impl Iterator<Item = (&str, &Answer)> {
        self.entries.iter().map(|(operation, entry)| (operation.as_str(), &entry.answer))
    }

    /// Tasks and history, if there are any.
    pub(super) fn state(&self) -> Option<WebhookStatus> {
        let task_states: Vec<TaskInfo> = self.tasks.values().map(Task::info).collect();
        let status = WebhookStatus { task_states, history: self.history.clone() };
        (status != WebhookStatus::default()).then_some(status)
    }
}

/// What an answer to a POST means for pods that it does not name.
enum Verdict {
    Approved,
    Refused(String, i64),
    Task(String),
}

impl Verdict {
    fn of(reply: &Reply, can_poll: bool) -> Self {
        if reply.success != Some(true) {
            let text = reply.message.clone().filter(|text| !text.trim().is_empty());
            return Self::Refused(text.unwrap_or_else(|| "refused without a reason".to_owned()), REFUSED_SECONDS);
        }
        if !reply.polls() {
            return Self::Approved;
        }
        let refused = |text: &str| Self::Refused(text.to_owned(), MISCONFIGURED_SECONDS);
        match reply.task() {
            _ if !can_poll => refused(
                "the approver wants to be polled, and the rule does not say where; set webhook.clientConfig.poll",
            ),
            None => refused("the approver wants to be polled, and gave neither taskId nor traceId to poll with"),
            Some(id) if id.len() > LONGEST_TASK_ID => refused("the approver's taskId is longer than 512 bytes"),
            Some(id) => Self::Task(id.to_owned()),
        }
    }
}

fn say_waiting(entries: &mut BTreeMap<String, Entry>, task: &Task, now: Timestamp) {
    for operation in task.waiting.values() {
        if let Some(entry) = entries.get_mut(operation).filter(|entry| entry.state == State::InTask) {
            entry.say(Approval::Pending, &waits(task), now);
        }
    }
}

fn waits(task: &Task) -> String {
    let text = if task.message.is_empty() { String::new() } else { format!(": {}", task.message) };
    format!("the approver works on task {}{text}", task.id)
}

fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let unexpected = |why: &str| Failure::Unreachable(format!("the answer is not the JSON that was expected: {why}"));
    // A list would be read as the fields in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(unexpected("it is no object"));
    }
    serde_json::from_slice(body).map_err(|error| unexpected(&error.to_string()))
}

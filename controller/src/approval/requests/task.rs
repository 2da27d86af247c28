//! A task that an approver works on, and that is polled for.

use std::collections::BTreeMap;

use hitless_api::pod_transition_rule::{Poll, TaskInfo};
use jiff::{Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::after;
use crate::approval::wire::{PollReply, clip};

const INTERVAL_SECONDS: i64 = 5;
const TIMEOUT_SECONDS: i64 = 60;
/// A task of an earlier leader is polled once more so long after its time was up.
const LATE_SECONDS: i64 = 60;

/// A live task. Maps are from name to operation.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) waiting: BTreeMap<String, String>,
    pub(super) approved: BTreeMap<String, String>,
    pub(super) message: String,
    pub(super) polling: bool,
    pub(super) next_poll: Timestamp,
    pub(super) deadline: Timestamp,
    begun: Timestamp,
    changed: Timestamp,
    interval: i64,
}

/// What a task's poll has brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It goes on.
    Running,
    /// Every pod is approved.
    Finished,
    /// It has ended with pods that are not approved, because of this.
    Stopped(String),
}

impl Task {
    pub(super) fn begin(
        id: &str,
        poll: &Poll,
        approved: BTreeMap<String, String>,
        waiting: BTreeMap<String, String>,
        message: &str,
        now: Timestamp,
    ) -> Self {
        let (interval, deadline) = times(poll, now);
        let next_poll = after(now, interval).min(deadline);
        Self {
            id: id.to_owned(),
            waiting,
            approved,
            message: message.to_owned(),
            polling: false,
            next_poll,
            deadline,
            begun: now,
            changed: now,
            interval,
        }
    }

    /// A task of an earlier leader from its report. Its pods are the ones of the same operations, not just of the same names: a
    /// report without operations (of another program) can't be taken on, its pods are asked about again.
    pub(super) fn resume(info: &TaskInfo, poll: &Poll, now: Timestamp) -> Option<Self> {
        let begun = info.begin_time.as_ref()?.0.min(now);
        let (interval, deadline) = times(poll, begun);
        let of = |names: &[String]| -> BTreeMap<String, String> {
            names.iter().filter_map(|name| Some((name.clone(), info.operations.get(name)?.clone()))).collect()
        };
        let task = Self {
            id: info.task_id.clone().filter(|id| !id.is_empty())?,
            waiting: of(&info.processing),
            approved: of(&info.approved),
            message: info.message.as_deref().map(clip).unwrap_or_default(),
            polling: false,
            next_poll: now,
            deadline,
            begun,
            changed: info.last_time.as_ref().map_or(begun, |time| time.0),
            interval,
        };
        (!task.waiting.is_empty() && after(deadline, LATE_SECONDS) > now).then_some(task)
    }

    /// Notes that a poll is sent.
    pub(super) fn poll(&mut self, now: Timestamp) {
        self.polling = true;
        self.next_poll = after(now, self.interval);
    }

    pub(super) fn polled(&mut self, reply: &PollReply, now: Timestamp) -> Progress {
        self.polling = false;
        let named = reply.finished_names.iter().flatten();
        let mut approved: Vec<(String, String)> = named.filter_map(|name| self.waiting.remove_entry(name)).collect();
        let success = reply.success == Some(true);
        if success && reply.finished == Some(true) {
            approved.extend(std::mem::take(&mut self.waiting));
        }
        let news = !approved.is_empty();
        self.approved.extend(approved);
        self.say(reply.message.as_deref().unwrap_or_default(), news, now);
        if self.waiting.is_empty() {
            Progress::Finished
        } else if reply.stop == Some(true) {
            let text = if self.message.is_empty() { String::new() } else { format!(": {}", self.message) };
            Progress::Stopped(format!("the approver stopped task {}{text}", self.id))
        } else {
            self.check_time(now)
        }
    }

    pub(super) fn poll_failed(&mut self, error: &str, now: Timestamp) -> Progress {
        self.polling = false;
        self.say(error, false, now);
        self.check_time(now)
    }

    /// The task's report. Times have whole seconds, as the wire has them upstream.
    pub(super) fn info(&self) -> TaskInfo {
        TaskInfo {
            task_id: Some(self.id.clone()),
            processing: self.waiting.keys().cloned().collect(),
            approved: self.approved.keys().cloned().collect(),
            begin_time: Some(whole_seconds(self.begun)),
            last_time: Some(whole_seconds(self.changed)),
            message: (!self.message.is_empty()).then(|| self.message.clone()),
            operations: self.waiting.iter().chain(&self.approved).map(|(n, o)| (n.clone(), o.clone())).collect(),
        }
    }

    /// The task's report once it has ended.
    pub(super) fn ended(mut self, why: &str, now: Timestamp) -> TaskInfo {
        self.changed = now;
        if !why.is_empty() {
            self.message = clip(why);
        }
        TaskInfo { operations: BTreeMap::new(), ..self.info() }
    }

    fn check_time(&mut self, now: Timestamp) -> Progress {
        if now >= self.deadline {
            let text = if self.message.is_empty() { String::new() } else { format!("; last heard: {}", self.message) };
            return Progress::Stopped(format!("polling task {} timed out{text}", self.id));
        }
        // The last poll is at the deadline, so that a timeout shorter than the interval does not mean that nobody ever looks.
        self.next_poll = self.next_poll.max(now).min(self.deadline);
        Progress::Running
    }

    fn say(&mut self, message: &str, news: bool, now: Timestamp) {
        let message = clip(message);
        if news || message != self.message {
            self.changed = now;
        }
        self.message = message;
    }
}

fn times(poll: &Poll, begun: Timestamp) -> (i64, Timestamp) {
    let interval = poll.interval_seconds.unwrap_or(INTERVAL_SECONDS).max(1);
    (interval, after(begun, poll.timeout_seconds.unwrap_or(TIMEOUT_SECONDS).max(1)))
}

fn whole_seconds(time: Timestamp) -> Time {
    Time(time.round(Unit::Second).unwrap_or(time))
}

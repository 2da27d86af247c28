//! What would happen, as data.

use std::collections::BTreeMap;

use hitless_gate::{Denies, RuleVerdict};
use hitless_rollout::round::{WaitReason, unblock, words};
use jiff::Timestamp;
use serde::Serialize;

use super::simulate::Assumed;
use super::target::{Change, ImageChange, LabelChange, Way};
use crate::forecast::Expected;
use crate::obstacle::InTheWay;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) workload: String,
    pub(super) namespace: String,
    pub(super) images: BTreeMap<String, ImageChange>,
    /// Of the template.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, LabelChange>,
    /// `InPlace`, `Native` or `Nothing`.
    pub(super) way: &'static str,
    /// Why it is not in place.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) why: String,
    pub(super) notes: Vec<String>,
    /// When the first operation could begin.
    pub(super) start: Timestamp,
    /// Seconds that each operation was assumed to take, before what the pod's own drain adds.
    pub(super) operation_seconds: u32,
    /// Pods that would be operated.
    pub(super) pods: usize,
    pub(super) steps: Vec<Step>,
    /// Pods that would not be operated, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) left_out: Vec<LeftOut>,
    /// What would stop the rest for ever.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stuck: Vec<Held>,
    /// How many pods that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left: Option<usize>,
    /// Seconds until the last pod is back; absent if that never comes.
    pub(super) seconds: Option<i64>,
    /// The same if connections stay as long as each pod's drain lets them.
    pub(super) at_most_seconds: Option<i64>,
}

/// What happens at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all_fields = "camelCase")]
pub(super) enum Step {
    /// These pods are let go together.
    Wave {
        at: Timestamp,
        seconds: i64,
        pods: Vec<Going>,
        /// Why no more.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        held: Vec<Held>,
    },
    /// Nobody goes before then, although nobody is being operated.
    Wait { at: Timestamp, seconds: i64, until: Timestamp, held: Vec<Held> },
    /// Nobody goes before these pods are available again. What follows assumes that they are at once.
    Back {
        at: Timestamp,
        seconds: i64,
        pods: Vec<String>,
        /// So many more are not created yet.
        missing: usize,
        held: Vec<Held>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Going {
    pub(super) pod: String,
    pub(super) node: Option<String>,
    /// Leave or Hold; absent if that can't be told.
    #[serde(flatten)]
    pub(super) expected: Option<Expected>,
}

/// What holds pods back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Held {
    pub(super) rule: String,
    /// It is one, and not something else that is in the way.
    #[serde(skip)]
    pub(super) is_rule: bool,
    pub(super) text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unblock: Option<String>,
    /// So many pods.
    pub(super) pods: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LeftOut {
    pub(super) pod: String,
    pub(super) because: Vec<InTheWay>,
}

pub(super) enum Ending<'a> {
    Complete,
    Stuck(&'a Held),
    LeftOut(&'a str),
}

impl Held {
    /// No rule; named after the Service if it is one that has to be opened or closed before.
    pub(super) fn waits(waiting: &WaitReason) -> Self {
        let rule = match waiting {
            WaitReason::ServiceOpen(service) | WaitReason::ServiceBusy { service, .. } => format!("service/{service}"),
            other => other.reason().to_owned(),
        };
        Self { rule, is_rule: false, text: waiting.what(), unblock: waiting.unblock().map(Into::into), pods: 1 }
    }

    /// `on_node`: the pod's node is known. `beside_companion`: as in the verdict of the pod.
    pub(super) fn of(rule: &RuleVerdict, on_node: bool, beside_companion: bool) -> Self {
        let (text, unblock) = match rule.denies() {
            Some(Denies::PerNodeMinAvailable { fewest, .. }) if !on_node => (
                format!("at least {fewest} must stay on the pod's node, and how many are there is not known"),
                Some("say how many nodes there are, with --nodes".to_owned()),
            ),
            _ => (words(rule, beside_companion), unblock(rule, beside_companion)),
        };
        Self { rule: String::from(&*rule.rule), is_rule: true, text, unblock, pods: 1 }
    }
}

impl Report {
    pub(super) fn new(change: &Change, assumed: &Assumed, now: Timestamp) -> Self {
        let mut notes = Vec::new();
        if !change.opted_in {
            notes.push(format!(
                "{} has not opted in, so Kubernetes would roll it; this is what would happen after: kubectl hitless adopt -n {} {} --yes",
                change.target, change.namespace, change.target,
            ));
        }
        Self {
            workload: change.target.to_string(),
            namespace: change.namespace.clone(),
            images: change.images.clone(),
            labels: change.labels.clone(),
            way: match change.way {
                Way::InPlace(_) => "InPlace",
                Way::Native(_) => "Native",
                Way::Nothing => "Nothing",
            },
            why: String::new(),
            notes,
            start: now,
            operation_seconds: assumed.operation_seconds,
            pods: 0,
            steps: Vec::new(),
            left_out: Vec::new(),
            stuck: Vec::new(),
            left: None,
            seconds: None,
            at_most_seconds: None,
        }
    }

    pub(super) fn ending(&self) -> Ending<'_> {
        match (self.stuck.first(), self.left_out.first()) {
            (Some(held), _) => Ending::Stuck(held),
            (None, Some(left)) => Ending::LeftOut(&left.pod),
            (None, None) => Ending::Complete,
        }
    }
}

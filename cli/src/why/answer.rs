//! The answer as data.

use std::collections::BTreeMap;

use hitless_api::GrantOp;
use hitless_api::grant::ImageChange;
use hitless_gate::{Allows, Reason, RuleVerdict};
use hitless_rollout::round::{Explanation, Lasting, WaitReason, unblock, words};
use jiff::Timestamp;
use serde::Serialize;

use crate::args::Target;
use crate::forecast::Expected;
use crate::obstacle::InTheWay;
use crate::output::names;
use crate::snapshot::Snapshot;
use crate::status::{BLOCKED, PodStatus, State, WorkloadStatus, observe_all, span};

/// What is said of a pod, or of all pods of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    /// What is to be known of the whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    pub(crate) pods: Vec<PodAnswer>,
    /// What is under way, who follows, and that nothing is to be done; where that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) under_way: Option<String>,
    /// Something that could be in the way could not be read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) partial: bool,
    /// No controller runs, so nothing begins whatever the rules say.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) no_controller: bool,
    /// A workload that goes no further.
    #[serde(skip)]
    stopped: Option<Stopped>,
}

/// How a workload came to go no further; with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Its version is halted.
    Halted(String),
    /// Its change is not made.
    Refused(String),
    /// Its native rollout has not got on in time.
    Overdue(String),
}

impl Stopped {
    fn of(workload: &WorkloadStatus) -> Option<Self> {
        let name = || workload.name.clone();
        match workload.stage {
            "Halted" => Some(Self::Halted(name())),
            "Refused" => Some(Self::Refused(name())),
            _ => workload.overdue.as_ref().map(|_| Self::Overdue(name())),
        }
    }
}

/// What is said of one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodAnswer {
    pub(crate) pod: String,
    pub(crate) namespace: String,
    /// `deployment/NAME` and the like.
    pub(crate) workload: String,
    pub(crate) node: Option<String>,
    pub(crate) state: State,
    /// What is wanted and has not ended.
    #[serde(rename = "wishes")]
    pub(crate) desired: Option<GrantOp>,
    /// `operationjob/NAME`, if it is for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asked_by: Option<String>,
    /// What its containers get, by name; a digest is named where one was chosen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) images: BTreeMap<String, ImageChange>,
    /// The controller lets it go now; of a pod that wants nothing: it would, if that pod did.
    pub(crate) allowed: bool,
    /// Leave or Hold, as it was granted, or as it would be now; absent if that can't be told.
    #[serde(flatten)]
    pub(crate) expected: Option<Expected>,
    /// What the rules say, those in the way first. Of a pod that wants nothing: if it alone did. Of one that is operated: the
    /// rules of stage PostCheck, once it is that far.
    pub(crate) rules: Vec<RuleAnswer>,
    /// What else is in the way. The first reason is the controller's own; of a Service that is being opened `allowed` is true.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) obstacles: Vec<InTheWay>,
    /// What status says of it, where it is operated, waits for others than us, or is not well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    /// It waits until somebody does something: neither time nor what is under way helps.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) stays: bool,
    /// It waits until what was written is changed, or the pod for whose turn it waits does: no time helps, and nobody who acts unasked.
    #[serde(skip)]
    needs_change: bool,
}

/// What one rule says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuleAnswer {
    #[serde(flatten)]
    pub(crate) verdict: RuleVerdict,
    /// In words.
    pub(crate) text: String,
    /// The smallest change that would unblock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unblock: Option<String>,
}

/// Whether something is in the way; with the name of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked<'a> {
    No,
    /// Until that is changed.
    ByRule(&'a str),
    /// Its workload is paused.
    ByPause(&'a str),
    /// By something else that was written, until that is changed.
    ByChange(&'a str),
    /// By what may pass without that.
    Otherwise(&'a str),
    /// The workload goes no further.
    Stopped(&'a Stopped),
}

impl Answer {
    /// The target exists.
    pub(crate) fn of(snapshot: &Snapshot, target: &Target, now: Timestamp) -> Self {
        let found = snapshot.find(target);
        let explanation = snapshot.explain(now, |pod| found.as_ref().is_some_and(|found| found.contains(pod)));
        let report = observe_all(snapshot, &explanation, now);
        let mut notes = snapshot.notes();
        let mut pods = Vec::new();
        let mut stopped = None;
        let mut under_way = None;
        for workload in report.only(Some(target)).workloads {
            if !workload.why.is_empty() {
                notes.push(format!("{}: {}", workload.name, workload.why));
            }
            notes.extend(
                workload
                    .reload
                    .iter()
                    .filter(|text| **text != workload.why)
                    .map(|text| format!("{}: {text}", workload.name)),
            );
            let blocked = workload.pods.iter().map(|pod| &pod.why).find(|why| why.starts_with(BLOCKED));
            notes.extend(blocked.map(|why| format!("{}: {why}", workload.name)));
            stopped = stopped.or_else(|| Stopped::of(&workload));
            if workload.pods.is_empty() {
                notes.push(format!("{} has no pods", workload.name));
            }
            let answers: Vec<PodAnswer> =
                workload.pods.iter().filter_map(|status| pod(&explanation, &workload, status)).collect();
            // Who follows waits for somebody, where no controller runs.
            under_way = under_way.or_else(|| summary(&workload, &answers).filter(|_| !snapshot.controller.is_away()));
            pods.extend(answers);
        }
        if pods.iter().any(|pod: &PodAnswer| pod.rules.iter().any(|rule| is_about_approval(&rule.verdict.because))) {
            notes.push(
                "what approvers say is what the controller last reported; they are not asked from here".to_owned(),
            );
        }
        let partial = !snapshot.sees_what_is_in_the_way();
        Self { notes, pods, under_way, partial, no_controller: snapshot.controller.is_away(), stopped }
    }

    /// Whether something is in the way that neither time nor what is under way takes away. Who wants nothing waits for nothing.
    pub(crate) fn blocked(&self) -> Blocked<'_> {
        let stuck = || self.pods.iter().filter(|pod| pod.is_stuck());
        if let Some(pod) = stuck().find(|pod| pod.needs_change && pod.is_free() && pod.is_denied()) {
            return Blocked::ByRule(&pod.pod);
        }
        if let Some(pod) = stuck().find(|pod| pod.is_paused()) {
            return Blocked::ByPause(&pod.pod);
        }
        if let Some(pod) = stuck().find(|pod| pod.needs_change) {
            return Blocked::ByChange(&pod.pod);
        }
        match (stuck().next(), &self.stopped) {
            (Some(pod), _) => Blocked::Otherwise(&pod.pod),
            (None, Some(stopped)) => Blocked::Stopped(stopped),
            (None, None) => Blocked::No,
        }
    }
}

/// `under way: a (Draining 2s); then b, c; nothing to do`, where waiting is all there is to do.
fn summary(workload: &WorkloadStatus, pods: &[PodAnswer]) -> Option<String> {
    let is_running = |pod: &&PodStatus| matches!(pod.state, State::Running(_) | State::Reserved);
    let running: Vec<String> = workload.pods.iter().filter(is_running).map(operation).collect();
    let waiting: Vec<&str> =
        pods.iter().filter(|pod| pod.state == State::Waiting).map(|pod| pod.pod.as_str()).collect();
    if running.is_empty() || pods.iter().any(PodAnswer::is_stuck) {
        return None;
    }
    let then = if waiting.is_empty() { String::new() } else { format!("; then {}", names(&waiting, NAMED)) };
    let running: Vec<&str> = running.iter().map(String::as_str).collect();
    Some(format!("{}{then}; nothing to do", names(&running, NAMED)))
}

/// Its name, how far it is, and for how long it may take.
fn operation(pod: &PodStatus) -> String {
    let since = pod.elapsed_seconds.map(|seconds| format!(" for {}", span(seconds))).unwrap_or_default();
    let left = pod.deadline_seconds.filter(|left| *left > 0);
    let left = left.map(|left| format!(", at most {} more", span(left))).unwrap_or_default();
    format!("{} ({}{since}{left})", pod.name, pod.state)
}

/// Most pods that are named in a sentence.
const NAMED: usize = 5;

impl PodAnswer {
    /// Nothing but rules is in the way, or it is being operated.
    fn is_free(&self) -> bool {
        self.obstacles.iter().all(|obstacle| obstacle.reason == WaitReason::InProgress.reason())
    }

    /// The controller says that its workload is paused.
    fn is_paused(&self) -> bool {
        self.obstacles.first().is_some_and(|obstacle| obstacle.reason == WaitReason::PAUSED)
    }

    /// It waits for somebody who does something.
    fn is_stuck(&self) -> bool {
        match self.state {
            State::Waiting => self.stays && self.desired.is_some(),
            State::Ended(_) => self.stays && !self.allowed,
            // It waits for the rules of stage PostCheck.
            State::Running(_) => self.stays,
            State::UpToDate | State::Reserved => false,
        }
    }

    fn is_denied(&self) -> bool {
        self.rules.iter().any(|rule| !rule.verdict.is_allowed())
    }
}

fn is_about_approval(because: &Reason) -> bool {
    match because {
        Reason::Allows(because) => matches!(because, Allows::Approved | Allows::ApproverIgnored { .. }),
        Reason::Denies(because) => because.is_about_approval(),
    }
}

fn pod(explanation: &Explanation, workload: &WorkloadStatus, status: &PodStatus) -> Option<PodAnswer> {
    let known = explanation.pods.get(&status.uid)?;
    let details = known.details.as_ref()?;
    let beside = details.verdict.beside_companion;
    let lasting = known.lasting.unwrap_or_else(|| details.verdict.lasting());
    let mut rules: Vec<RuleAnswer> =
        details.rules.iter().flat_map(|verdict| &verdict.rules).map(|rule| RuleAnswer::of(rule, beside)).collect();
    // Stable: otherwise in the order of the rules' names.
    rules.sort_by_key(|rule| rule.verdict.is_allowed());
    Some(PodAnswer {
        pod: status.name.clone(),
        namespace: workload.namespace.clone(),
        workload: workload.name.clone(),
        node: status.node.clone(),
        state: status.state,
        desired: known.wanted.clone(),
        asked_by: known.asked_by.as_ref().map(|by| format!("{}/{}", by.group_kind.kind.to_lowercase(), by.name)),
        images: details.images.clone(),
        // Where a Service is opened first, the pod is reserved already.
        allowed: matches!(details.verdict.waiting, None | Some(WaitReason::ServicePublishing(_))),
        expected: details.expected.as_ref().map(Expected::from),
        rules,
        obstacles: details.in_the_way.iter().map(InTheWay::from).collect(),
        // Of one that wants something the obstacles and the rules say it.
        why: match status.state {
            State::Waiting if known.wanted.is_some() => String::new(),
            _ => status.why.clone(),
        },
        stays: match status.state {
            State::Running(_) | State::Reserved => {
                let mut rules = details.rules.iter().flat_map(|verdict| &verdict.rules);
                rules.any(|rule| rule.lasting() != Lasting::ByItself)
            }
            State::UpToDate | State::Waiting | State::Ended(_) => lasting != Lasting::ByItself,
        },
        needs_change: lasting == Lasting::ByChange,
    })
}

impl RuleAnswer {
    fn of(verdict: &RuleVerdict, beside_companion: bool) -> Self {
        let (text, unblock) = (words(verdict, beside_companion), unblock(verdict, beside_companion));
        Self { text, unblock, verdict: verdict.clone() }
    }
}

//! The answer as data.

use std::collections::BTreeMap;

use hitless_api::GrantOp;
use hitless_gate::{Because, Decision, RuleVerdict, Verdict};
use jiff::Timestamp;
use serde::Serialize;

use crate::args::{Target, TargetKind};
use crate::judge::{Expected, InTheWay, Judge};
use crate::snapshot::Snapshot;
use crate::status::{PodStatus, State, Verdicts, observe_all};

/// What is said of a pod, or of all pods of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    /// What is to be known of the whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    pub(crate) pods: Vec<PodAnswer>,
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
    /// What is wished and has not begun.
    pub(crate) wishes: Option<GrantOp>,
    /// Neither a rule nor anything else is in the way; of a pod that wishes nothing: if it did.
    pub(crate) allowed: bool,
    /// Leave or Hold, as it was granted, or as it would be now; absent if that can't be told.
    #[serde(flatten)]
    pub(crate) expected: Option<Expected>,
    /// What the rules say, those in the way first. Of a pod that wishes nothing: if it alone did. Of one that is operated: the
    /// rules of stage PostCheck, once it is that far.
    pub(crate) rules: Vec<RuleAnswer>,
    /// What else is in the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) obstacles: Vec<InTheWay>,
    /// What status says of it, while it is operated.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
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
    ByRule(&'a str),
    Otherwise(&'a str),
}

impl Answer {
    pub(crate) fn of_deployment(snapshot: &Snapshot, name: &str, now: Timestamp) -> Self {
        Self::of(snapshot, &Target { kind: TargetKind::Deployment, name: name.to_owned() }, now)
    }

    pub(crate) fn of_pod(snapshot: &Snapshot, name: &str, now: Timestamp) -> Self {
        Self::of(snapshot, &Target { kind: TargetKind::Pod, name: name.to_owned() }, now)
    }

    fn of(snapshot: &Snapshot, target: &Target, now: Timestamp) -> Self {
        let judge = Judge::new(snapshot, now);
        let (report, verdicts) = observe_all(&judge);
        let mut notes = snapshot.notes();
        let mut pods = Vec::new();
        for workload in report.only(Some(target)).workloads {
            if !workload.why.is_empty() {
                notes.push(format!("{}: {}", workload.name, workload.why));
            }
            if workload.stage == "NotOptedIn" {
                notes.push(format!(
                    "{} has not opted in (annotation hitless.dev/update), so its rollouts are Kubernetes' own and only \
                     restarts are in place",
                    workload.name
                ));
            }
            if workload.pods.is_empty() {
                notes.push(format!("{} has no pods", workload.name));
            }
            pods.extend(workload.pods.iter().map(|status| pod(&judge, &workload.name, status, &verdicts)));
        }
        if pods.iter().any(|pod: &PodAnswer| pod.rules.iter().any(|rule| is_about_approval(&rule.verdict.because))) {
            notes.push(
                "what approvers say is what the controller last reported; they are not asked from here".to_owned(),
            );
        }
        Self { notes, pods }
    }

    /// Of a workload with pods that wait only these count, not what the others would be told.
    pub(crate) fn blocked(&self) -> Blocked<'_> {
        let waits = |pod: &&PodAnswer| match pod.state {
            State::Waiting | State::Ended(_) => true,
            // It waits for the rules of stage PostCheck.
            State::Running(_) => pod.is_denied(),
            State::UpToDate | State::Reserved => false,
        };
        let waiting: Vec<&PodAnswer> = self.pods.iter().filter(waits).collect();
        let asked = if waiting.is_empty() { self.pods.iter().collect() } else { waiting };
        let by_rule = asked.iter().find(|pod| pod.obstacles.is_empty() && pod.is_denied());
        let otherwise = asked.iter().find(|pod| !pod.obstacles.is_empty());
        match (by_rule, otherwise) {
            (Some(pod), _) => Blocked::ByRule(&pod.pod),
            (None, Some(pod)) => Blocked::Otherwise(&pod.pod),
            (None, None) => Blocked::No,
        }
    }
}

impl PodAnswer {
    fn is_denied(&self) -> bool {
        self.rules.iter().any(|rule| rule.verdict.verdict == Decision::Denied)
    }
}

fn is_about_approval(because: &Because) -> bool {
    matches!(
        because,
        Because::Approved
            | Because::AwaitingApproval { .. }
            | Because::ApprovalRefused { .. }
            | Because::ApproverUnreachable { .. }
            | Because::ApproverIgnored { .. }
    )
}

fn pod(judge: &Judge<'_>, workload: &str, status: &PodStatus, verdicts: &Verdicts) -> PodAnswer {
    let found = judge.snapshot.pods.iter().find(|pod| pod.id.uid == status.uid);
    let under_way = matches!(status.state, State::Running(_) | State::Reserved);
    let alone = || -> BTreeMap<String, Verdict> { found.map(|pod| judge.ask(&[pod])).unwrap_or_default() };
    let verdict = match verdicts.get(&status.uid) {
        Some(verdict) => Some(verdict.clone()),
        None if under_way => found.and_then(|pod| judge.post_check(pod)),
        None => alone().remove(&status.uid),
    };
    let obstacles = found.filter(|_| !under_way).map(|pod| judge.in_the_way(pod)).unwrap_or_default();
    let mut rules: Vec<RuleAnswer> = verdict.iter().flat_map(|verdict| &verdict.rules).map(RuleAnswer::of).collect();
    // Stable: otherwise in the order of the rules' names.
    rules.sort_by_key(|rule| rule.verdict.verdict == Decision::Allowed);
    PodAnswer {
        pod: status.name.clone(),
        namespace: found.map(|pod| pod.id.namespace.clone()).unwrap_or_default(),
        workload: workload.to_owned(),
        node: status.node.clone(),
        state: status.state,
        wishes: found.and_then(|pod| judge.wish(pod)).map(|wish| wish.op),
        allowed: obstacles.is_empty() && verdict.is_none_or(|verdict| verdict.allowed),
        expected: found.and_then(|pod| judge.expected(pod)),
        rules,
        obstacles,
        why: if matches!(status.state, State::Waiting) { String::new() } else { status.why.clone() },
    }
}

impl RuleAnswer {
    fn of(verdict: &RuleVerdict) -> Self {
        Self { text: verdict.reason(), unblock: verdict.unblock(), verdict: verdict.clone() }
    }
}

//! `PodTransitionRule.status` as upstream clients expect it: a report, never read back (the truth is the ledger).

use std::collections::BTreeMap;

use hitless_api::pod::PodView;
use hitless_api::pod_transition_rule::{PodTransitionDetail, PodTransitionRuleStatus, RejectInfo};
use hitless_gate::selector;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::PodVerdict;
use super::write::{RuleStatusWrite, Step, Write};
use crate::snapshot::{RuleView, Snapshot};

/// Upstream's name of the stage before an operation.
const STAGE: &str = "PreCheck";

/// Seconds between two writes to one rule: its numbers change with every pod that is operated.
const INTERVAL_SECONDS: i64 = 5;

#[derive(Default)]
pub(super) struct Decision {
    pub(super) steps: Vec<Step>,
    pub(super) wake_at: Option<Timestamp>,
}

/// Statuses that are not what they should be.
pub(super) fn decide(snapshot: &Snapshot, verdicts: &[PodVerdict], now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    if snapshot.rules.is_empty() {
        return decision;
    }
    let mut pods: BTreeMap<&str, Vec<&PodView>> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| !pod.finished) {
        pods.entry(pod.id.namespace.as_str()).or_default().push(pod);
    }
    for rule in &snapshot.rules {
        let Some(step) = step(rule, pods.get(rule.namespace.as_str()), verdicts, now) else { continue };
        let last = rule.status.as_ref().and_then(|status| status.update_time.as_ref()).map(|time| time.0);
        let due = last.and_then(|last| last.saturating_add(SignedDuration::from_secs(INTERVAL_SECONDS)).ok());
        match due.filter(|due| *due > now) {
            None => decision.steps.push(step),
            Some(due) => decision.wake_at = Some(decision.wake_at.map_or(due, |other: Timestamp| other.min(due))),
        }
    }
    decision
}

fn step(rule: &RuleView, pods: Option<&Vec<&PodView>>, verdicts: &[PodVerdict], now: Timestamp) -> Option<Step> {
    let mut targets: Vec<String> = rule
        .spec
        .selector
        .iter()
        .flat_map(|wanted| pods.into_iter().flatten().filter(|pod| selector::matches(wanted, &pod.labels)))
        .map(|pod| pod.id.name.clone())
        .collect();
    targets.sort();
    let details = verdicts.iter().filter_map(|verdict| detail(rule, verdict)).collect();
    let status = PodTransitionRuleStatus {
        observed_generation: Some(rule.generation),
        update_time: None,
        targets,
        details,
        rule_states: Vec::new(),
    };
    let known = rule.status.as_ref().map(|known| PodTransitionRuleStatus { update_time: None, ..known.clone() });
    if known.as_ref() == Some(&status) {
        return None;
    }
    let status = PodTransitionRuleStatus { update_time: Some(Time(now)), ..status };
    Some(Step::alone(Write::RuleStatus(RuleStatusWrite {
        namespace: rule.namespace.clone(),
        name: rule.name.clone(),
        version: rule.version.clone(),
        status,
    })))
}

/// What this rule said of one pod, if it was asked.
fn detail(rule: &RuleView, verdict: &PodVerdict) -> Option<PodTransitionDetail> {
    if verdict.pod.namespace != rule.namespace {
        return None;
    }
    let answers: Vec<_> = verdict
        .gate
        .iter()
        .flat_map(|gate| &gate.rules)
        .filter(|answer| answer.rule_set() == Some(rule.name.as_str()))
        .collect();
    if answers.is_empty() {
        return None;
    }
    let (passed, rejected): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.verdict == hitless_gate::Decision::Allowed);
    Some(PodTransitionDetail {
        name: verdict.pod.name.clone(),
        stage: Some(STAGE.to_owned()),
        passed: rejected.is_empty(),
        passed_rules: passed.iter().map(|answer| answer.rule_name().to_owned()).collect(),
        reject_info: rejected
            .iter()
            .map(|answer| RejectInfo { rule_name: Some(answer.rule_name().to_owned()), reason: Some(answer.reason()) })
            .collect(),
    })
}

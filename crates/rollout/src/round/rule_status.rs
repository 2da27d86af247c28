//! `PodTransitionRule.status` as upstream clients expect it: a report, not the truth (that is the ledger). Only the tasks of
//! approvers are read back.

use std::collections::BTreeMap;

use hitless_api::pod::PodView;
use hitless_api::pod_transition_rule::{PodTransitionDetail, PodTransitionRuleStatus, RejectInfo, RuleState};
use hitless_gate::selector;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::PodVerdict;
use super::change::Change;
use super::write::RuleStatusWrite;
use crate::snapshot::{RuleView, Snapshot};

/// Upstream's name of the stage before an operation.
const STAGE: &str = "PreCheck";

/// Seconds between two writes to one rule: its numbers change with every pod that is operated.
const INTERVAL_SECONDS: i64 = 5;

#[derive(Default)]
pub(super) struct Decision<'a> {
    pub(super) changes: Vec<Change<'a>>,
    pub(super) wake_at: Option<Timestamp>,
}

/// Statuses that are not what they should be.
pub(super) fn decide<'a>(snapshot: &'a Snapshot, verdicts: &[PodVerdict], now: Timestamp) -> Decision<'a> {
    let mut decision = Decision::default();
    if snapshot.rules.is_empty() {
        return decision;
    }
    let mut pods: BTreeMap<&str, Vec<&PodView>> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| !pod.finished) {
        pods.entry(pod.id.namespace.as_str()).or_default().push(pod);
    }
    let mut asked: BTreeMap<&str, Vec<&PodVerdict>> = BTreeMap::new();
    for verdict in verdicts.iter().filter(|verdict| verdict.gate.is_some()) {
        asked.entry(verdict.pod.namespace.as_str()).or_default().push(verdict);
    }
    for rule in &snapshot.rules {
        let last = rule.status.as_ref().and_then(|status| status.update_time.as_ref()).map(|time| time.0);
        let due = last.and_then(|last| last.saturating_add(SignedDuration::from_secs(INTERVAL_SECONDS)).ok());
        if let Some(due) = due.filter(|due| *due > now) {
            // Whether there is anything to write is only looked at then: that costs more than the decision.
            decision.wake_at = Some(decision.wake_at.map_or(due, |other: Timestamp| other.min(due)));
            continue;
        }
        let namespace = rule.namespace.as_str();
        let of = (
            pods.get(namespace).map_or(&[] as &[_], Vec::as_slice),
            asked.get(namespace).map_or(&[] as &[_], Vec::as_slice),
        );
        decision.changes.extend(change(rule, snapshot, of, now));
    }
    decision
}

fn change<'a>(
    rule: &RuleView,
    snapshot: &Snapshot,
    (pods, verdicts): (&[&PodView], &[&PodVerdict]),
    now: Timestamp,
) -> Option<Change<'a>> {
    let mut targets: Vec<String> = rule
        .spec
        .selector
        .iter()
        .flat_map(|wanted| pods.iter().filter(|pod| selector::matches(wanted, &pod.labels)))
        .map(|pod| pod.id.name.clone())
        .collect();
    targets.sort();
    let details = verdicts.iter().filter_map(|verdict| detail(rule, verdict)).collect();
    let status = PodTransitionRuleStatus {
        observed_generation: Some(rule.generation),
        update_time: None,
        targets,
        details,
        rule_states: rule_states(rule, snapshot),
    };
    let known = rule.status.as_ref().map(|known| PodTransitionRuleStatus { update_time: None, ..known.clone() });
    if known.as_ref() == Some(&status) {
        return None;
    }
    let status = PodTransitionRuleStatus { update_time: Some(Time(now)), ..status };
    Some(Change::RuleStatus(RuleStatusWrite {
        namespace: rule.namespace.clone(),
        name: rule.name.clone(),
        version: rule.version.clone(),
        status,
    }))
}

/// What the rule's approvers are at. A new leader takes that from the report of the one before, so it stays as it is until then.
fn rule_states(rule: &RuleView, snapshot: &Snapshot) -> Vec<RuleState> {
    if rule.spec.rules.iter().all(|rule| rule.webhook.is_none()) {
        return Vec::new();
    }
    let of_this_rule = |status: &&PodTransitionRuleStatus| status.observed_generation == Some(rule.generation);
    let reported = || rule.status.as_ref().filter(of_this_rule).map(|status| status.rule_states.clone());
    let key = (rule.namespace.clone(), rule.name.clone());
    snapshot.rule_states.get(&key).cloned().or_else(reported).unwrap_or_default()
}

/// What this rule said of one pod of its namespace, if it was asked.
fn detail(rule: &RuleView, verdict: &PodVerdict) -> Option<PodTransitionDetail> {
    let answers: Vec<_> = verdict
        .gate
        .iter()
        .flat_map(|gate| &gate.rules)
        .filter(|answer| answer.rule_set() == Some(rule.name.as_str()))
        .collect();
    if answers.is_empty() {
        return None;
    }
    let (allowed, rejected): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.verdict == hitless_gate::Decision::Allowed);
    // A rule that was not asked (another stage, a filter, switched off) has passed nobody.
    let passed = allowed.into_iter().filter(|answer| answer.agreed());
    Some(PodTransitionDetail {
        name: verdict.pod.name.clone(),
        stage: Some(STAGE.to_owned()),
        passed: rejected.is_empty(),
        passed_rules: passed.map(|answer| answer.rule_name().to_owned()).collect(),
        reject_info: rejected
            .iter()
            .map(|answer| RejectInfo { rule_name: Some(answer.rule_name().to_owned()), reason: Some(answer.reason()) })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Version;
    use hitless_api::pod_transition_rule::{TaskInfo, WebhookStatus};
    use serde_json::json;

    fn task(id: &str) -> Vec<RuleState> {
        let task = TaskInfo { task_id: Some(id.into()), ..TaskInfo::default() };
        let webhook = WebhookStatus { task_states: vec![task], history: Vec::new() };
        vec![RuleState { name: "ask".into(), webhook_status: Some(webhook) }]
    }

    fn rule(rules: &serde_json::Value, reported: Option<i64>) -> RuleView {
        RuleView {
            namespace: "ns".into(),
            name: "set".into(),
            version: Version { uid: "u".into(), resource_version: "1".into() },
            generation: 2,
            spec: serde_json::from_value(json!({"rules": rules})).unwrap(),
            unreadable: None,
            status: reported.map(|generation| PodTransitionRuleStatus {
                observed_generation: Some(generation),
                rule_states: task("of the leader before"),
                ..PodTransitionRuleStatus::default()
            }),
        }
    }

    #[test]
    fn tasks_are_reported_as_the_desk_has_them_and_kept_until_it_has_looked() {
        let webhook = json!([{"name": "ask", "webhook": {"clientConfig": {"url": "https://a/"}}}]);
        let mut snapshot = Snapshot::default();
        let before = task("of the leader before");
        assert_eq!(rule_states(&rule(&webhook, Some(2)), &snapshot), before);
        assert_eq!(rule_states(&rule(&webhook, Some(1)), &snapshot), [], "they were of another rule");
        assert_eq!(rule_states(&rule(&webhook, None), &snapshot), []);
        for now in [task("now"), Vec::new()] {
            snapshot.rule_states = BTreeMap::from([(("ns".to_owned(), "set".to_owned()), now.clone())]);
            assert_eq!(rule_states(&rule(&webhook, Some(2)), &snapshot), now);
        }
        assert_eq!(rule_states(&rule(&json!([]), Some(2)), &Snapshot::default()), [], "it asks nobody any more");
    }

    #[test]
    fn a_rule_that_was_not_asked_has_passed_nobody() {
        use hitless_gate::{Candidate, Decision, Gate, PodFacts, RuleSet, Settings};
        let rules = json!([
            {"name": "asked", "labelCheck": {"requires": {"matchLabels": {"app": "web"}}}},
            {"name": "off", "disabled": true},
            {"name": "later", "stage": "PostCheck", "labelCheck": {"requires": {"matchLabels": {"go": "ok"}}}},
        ]);
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let id = hitless_api::PodRef { namespace: "ns".into(), name: "p".into(), uid: "u".into() };
        let pod = PodFacts {
            uid: id.uid.clone(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            labels,
            node: None,
            owner: None,
            available: true,
            unavailable_since: None,
            returned_at: None,
        };
        let mut set = rule(&rules, None);
        set.spec.selector = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector::default());
        let mut gate = Gate::new(Settings::default());
        gate.set_rule_set(&RuleSet::from(&set));
        gate.upsert_pod(&pod);
        let approvals = hitless_gate::Approvals::default();
        let verdict = gate.decide(&[Candidate::new("u")], &approvals, Timestamp::UNIX_EPOCH).remove(0);
        assert_eq!(verdict.rules.iter().filter(|answer| answer.verdict == Decision::Allowed).count(), 3);
        let verdict = PodVerdict { pod: id, owner: None, waiting: None, gate: Some(verdict), expected: None };
        let detail = detail(&set, &verdict).unwrap();
        assert_eq!((detail.passed, detail.passed_rules), (true, vec!["asked".to_owned()]));
    }
}

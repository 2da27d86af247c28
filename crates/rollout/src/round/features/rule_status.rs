//! `PodTransitionRule.status` as upstream clients expect it: a report, not the truth (that is the ledger). Only the tasks of
//! approvers are read back.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::crowd;
use hitless_api::pod::PodView;
use hitless_api::pod_transition_rule::{PodTransitionDetail, PodTransitionRuleStatus, RejectInfo, RuleState};
use hitless_api::selector::Limit;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::round::change::Change;
use crate::round::features::{Effects, FeatureContext};
use crate::round::pod_verdict::PodVerdict;
use crate::round::write;
use crate::snapshot::{RuleView, Snapshot};

/// Upstream's name of the stage before an operation.
const STAGE: &str = "PreCheck";

/// Seconds between two writes to one rule: its numbers change with every pod that is operated.
const INTERVAL_SECONDS: i64 = 5;

/// Most names in `status.targets`, and most entries of `status.details`. An object has at most 1.5 MiB: one that is larger is never
/// written, and with it the state of the rule's approvers would be lost for the next leader.
const MOST_TARGETS: usize = 5_000;

const MOST_DETAILS: usize = 1_000;

/// Statuses that are not what they should be.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let (snapshot, now) = (context.facts.snapshot, context.now);
    let mut effects = Effects::default();
    if snapshot.rules.is_empty() {
        return effects;
    }
    let mut pods: BTreeMap<&str, Vec<&PodView>> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| !pod.finished) {
        pods.entry(pod.id.namespace.as_str()).or_default().push(pod);
    }
    let mut asked: BTreeMap<&str, Vec<&PodVerdict>> = BTreeMap::new();
    for verdict in context.verdicts.iter().filter(|verdict| verdict.gate.is_some()) {
        asked.entry(verdict.pod.namespace.as_str()).or_default().push(verdict);
    }
    // Nobody looks at the single rules of a namespace that has too many: that costs what is to be saved.
    let crowded = crowd::crowded(snapshot.rules.iter().map(|rule| rule.namespace.as_str()));
    for rule in snapshot.rules.iter().filter(|rule| !crowded.contains_key(rule.namespace.as_str())) {
        let last = rule.status.as_ref().and_then(|status| status.update_time.as_ref()).map(|time| time.0);
        let due = last.and_then(|last| last.saturating_add(SignedDuration::from_secs(INTERVAL_SECONDS)).ok());
        if let Some(due) = due.filter(|due| *due > now) {
            // Whether there is anything to write is only looked at then: that costs more than the decision.
            effects.wake(due);
            continue;
        }
        let namespace = rule.namespace.as_str();
        let of = (
            pods.get(namespace).map_or(&[] as &[_], Vec::as_slice),
            asked.get(namespace).map_or(&[] as &[_], Vec::as_slice),
        );
        effects.changes.extend(change(rule, snapshot, of, now));
    }
    effects
}

fn change<'a>(
    rule: &RuleView,
    snapshot: &Snapshot,
    (pods, verdicts): (&[&PodView], &[&PodVerdict]),
    now: Timestamp,
) -> Option<Change<'a>> {
    let limit = rule.spec.selector.as_ref().map(Limit::of);
    let is_governed = |pod: &&&PodView| limit.as_ref().is_some_and(|limit| limit.concerns(&pod.labels));
    let governed: Vec<&PodView> = pods.iter().filter(is_governed).copied().collect();
    let mut targets: Vec<String> = governed.iter().map(|pod| pod.id.name.clone()).collect();
    targets.sort();
    let mut details: Vec<_> = verdicts.iter().filter_map(|verdict| detail(rule, verdict)).collect();
    details.extend(passed(rule, snapshot, &governed, &details));
    let (targets, targets_left_out) = bounded(targets, MOST_TARGETS);
    let (details, details_left_out) = bounded(waiting_first(details), MOST_DETAILS);
    let status = PodTransitionRuleStatus {
        observed_generation: Some(rule.generation),
        update_time: None,
        targets,
        targets_left_out,
        details,
        details_left_out,
        rule_states: rule_states(rule, snapshot),
    };
    let known = rule.status.as_ref().map(|known| PodTransitionRuleStatus { update_time: None, ..known.clone() });
    if known.as_ref() == Some(&status) {
        return None;
    }
    let status = PodTransitionRuleStatus { update_time: Some(Time(now)), ..status };
    let on = (rule.namespace.as_str(), rule.name.as_str());
    Some(Change::Write(write::status("rule-status", "PodTransitionRule", on, &rule.version, &status)))
}

/// In the order in which they may go; if there are too many, those that the rule keeps waiting come first, by name, so that the same ones
/// are listed the next time.
fn waiting_first(mut details: Vec<PodTransitionDetail>) -> Vec<PodTransitionDetail> {
    if details.len() > MOST_DETAILS {
        details.sort_by(|a, b| (a.passed, &a.name).cmp(&(b.passed, &b.name)));
    }
    details
}

/// The first ones, and how many are left out.
fn bounded<T>(mut all: Vec<T>, most: usize) -> (Vec<T>, Option<i64>) {
    let left_out = all.len().saturating_sub(most);
    all.truncate(most);
    (all, (left_out > 0).then(|| i64::try_from(left_out).unwrap_or(i64::MAX)))
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
    let (allowed, rejected): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.is_allowed());
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

/// Pods of those that it governs that it has let go and that are being operated: it is not asked about them meanwhile.
fn passed(
    rule: &RuleView,
    snapshot: &Snapshot,
    governed: &[&PodView],
    known: &[PodTransitionDetail],
) -> Vec<PodTransitionDetail> {
    let Some(ledger) = snapshot.ledgers.get(&rule.namespace) else { return Vec::new() };
    let own = format!("{}/", rule.name);
    let known: BTreeSet<&str> = known.iter().map(|detail| detail.name.as_str()).collect();
    let is_new = |pod: &&&PodView| !known.contains(pod.id.name.as_str());
    let passed = governed.iter().filter(is_new).filter_map(|pod| {
        let rules = ledger.spec.reservations.get(&pod.id.uid)?.rules.iter();
        Some(PodTransitionDetail {
            name: pod.id.name.clone(),
            stage: Some(STAGE.to_owned()),
            passed: true,
            passed_rules: rules.filter_map(|name| name.strip_prefix(&own)).map(ToOwned::to_owned).collect(),
            reject_info: Vec::new(),
        })
    });
    passed.collect()
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
    fn a_status_fits_into_an_object_names_who_waits_and_says_how_many_are_left_out() {
        let detail = |number: usize| PodTransitionDetail {
            name: format!("p{number:05}"),
            passed: number.is_multiple_of(2),
            ..PodTransitionDetail::default()
        };
        let some: Vec<_> = (0..MOST_DETAILS).rev().map(detail).collect();
        assert_eq!(
            bounded(waiting_first(some.clone()), MOST_DETAILS),
            (some, None),
            "the order is that in which they go"
        );
        let (listed, left_out) = bounded(waiting_first((0..1_500).rev().map(detail).collect()), MOST_DETAILS);
        assert_eq!((listed.len(), left_out), (MOST_DETAILS, Some(500)));
        assert_eq!(listed.iter().filter(|each| !each.passed).count(), 750, "everybody that waits");
        assert_eq!((listed[0].name.as_str(), listed[750].name.as_str()), ("p00001", "p00000"));
        let again = bounded(waiting_first((0..1_500).map(detail).collect()), MOST_DETAILS);
        assert_eq!(again, (listed, left_out), "and the same ones the next time");
    }

    #[test]
    fn many_pods_of_a_rule_are_counted_and_not_all_named() {
        let selector = k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector::default();
        let mut rule = rule(&json!([]), None);
        rule.spec.selector = Some(selector);
        let pods: Vec<PodView> = (0..MOST_TARGETS + 3)
            .map(|number| PodView::from(&serde_json::from_value::<k8s_openapi::api::core::v1::Pod>(
                json!({"metadata": {"namespace": "ns", "name": format!("p{number:05}")}, "spec": {"containers": []}})).unwrap()))
            .collect();
        let change =
            change(&rule, &Snapshot::default(), (&pods.iter().collect::<Vec<_>>(), &[]), Timestamp::UNIX_EPOCH);
        let Some(Change::Write(write)) = change else { panic!("nothing is written") };
        let status: PodTransitionRuleStatus = write.content("/status").unwrap();
        assert_eq!(
            (status.targets.len(), status.targets_left_out, status.details_left_out),
            (MOST_TARGETS, Some(3), None)
        );
    }

    #[test]
    fn a_pod_that_has_passed_is_there_for_as_long_as_it_is_operated() {
        use crate::snapshot::LedgerView;
        use std::sync::Arc;
        let mut set = rule(&json!([]), None);
        set.spec.selector = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector::default());
        let pod = |name: &str| {
            let pod = json!({"metadata": {"namespace": "ns", "name": name, "uid": name}});
            PodView::from(&serde_json::from_value::<k8s_openapi::api::core::v1::Pod>(pod).unwrap())
        };
        let reservation = json!({"id": "a.1", "pod": "a", "node": "n", "since": "2026-01-01T00:00:00.000000Z", "images": {},
            "rules": ["set/quarter", "set2/other"]});
        let spec = serde_json::from_value(json!({"reservations": {"a": reservation}})).unwrap();
        let version = Version { uid: "l".into(), resource_version: "1".into() };
        let ledger = LedgerView { namespace: "ns".into(), version, spec };
        let snapshot = Snapshot { ledgers: [("ns".to_owned(), Arc::new(ledger))].into(), ..Snapshot::default() };
        let (a, b) = (pod("a"), pod("b"));
        let details = passed(&set, &snapshot, &[&a, &b], &[]);
        let named: Vec<_> = details.iter().map(|each| (each.name.as_str(), each.passed, &each.passed_rules)).collect();
        assert_eq!(named, [("a", true, &vec!["quarter".to_owned()])]);
        assert_eq!(passed(&set, &snapshot, &[&a, &b], &details), [], "it was asked in this round");
    }

    #[test]
    fn a_rule_that_was_not_asked_has_passed_nobody() {
        use hitless_gate::{Candidate, Gate, PodFacts, RuleSet, Settings};
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
            leaving: false,
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
        assert_eq!(verdict.rules.iter().filter(|answer| answer.is_allowed()).count(), 3);
        let verdict = PodVerdict {
            pod: id,
            owner: None,
            waiting: None,
            gate: Some(verdict),
            expected: None,
            beside_companion: false,
        };
        let detail = detail(&set, &verdict).unwrap();
        assert_eq!((detail.passed, detail.passed_rules), (true, vec!["asked".to_owned()]));
    }
}

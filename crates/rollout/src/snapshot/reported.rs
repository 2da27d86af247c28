//! What approvers have said and which pools can be read, as the controller last reported it: nobody but the controller asks them.

use std::collections::BTreeMap;

use hitless_api::pod::PodView;
use hitless_api::pod_transition_rule::PodTransitionRuleStatus;
use hitless_api::selector::Limit;
use hitless_api::traffic_provider::TrafficPoolState;
use hitless_gate::{Answer, Approval, Approvals, Denies, Question};
use jiff::Timestamp;

use super::Snapshot;
use crate::pools::{PoolKey, PoolReading};
use crate::round;

/// What the statuses of the TrafficProviders say. Of a pool of which they say nothing nothing is known to be in the way.
pub(super) fn pools(snapshot: &Snapshot) -> BTreeMap<PoolKey, PoolReading> {
    let all = snapshot.providers.iter().flat_map(|provider| {
        let states = provider.status.as_ref().map(|status| status.pools.as_slice()).unwrap_or_default();
        provider.keys().map(|key| {
            let state = states.iter().find(|state| state.name == key.pool);
            let reading = match state.map(|known| known.state) {
                Some(TrafficPoolState::Unreadable) => {
                    PoolReading::Unreadable(state.map(|known| known.message.clone()).unwrap_or_default())
                }
                Some(TrafficPoolState::Read) | None => PoolReading::Assumed,
            };
            (key, reading)
        })
    });
    all.collect()
}

/// The answers that stand in the statuses of the rules, for every operation that a pod needs, has, or might be asked about.
pub(super) fn approvals(snapshot: &Snapshot, now: Timestamp) -> Approvals {
    let mut approvals = Approvals::new();
    let asks = |rule: &super::RuleView| rule.spec.rules.iter().any(|rule| rule.webhook.is_some());
    let mut asking: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for rule in snapshot.rules.iter().filter(|rule| asks(rule)) {
        if let (Some(selector), Some(status)) = (&rule.spec.selector, &rule.status) {
            asking.entry(&rule.namespace).or_default().push((rule, Limit::of(selector), status));
        }
    }
    if asking.is_empty() {
        return approvals;
    }
    for (pod, operation) in round::operations(snapshot, now) {
        let here = asking.get(pod.id.namespace.as_str()).into_iter().flatten();
        for (rule, _, status) in here.filter(|(_, limit, _)| limit.concerns(&pod.labels)) {
            for asked in rule.spec.rules.iter().filter(|asked| asked.webhook.is_some()) {
                let Some(answer) = answer(status, &asked.name, pod, &operation) else { continue };
                let question = Question {
                    namespace: pod.id.namespace.clone(),
                    rule: format!("{}/{}", rule.name, asked.name),
                    operation: operation.clone(),
                };
                approvals.insert(question, answer);
            }
        }
    }
    approvals
}

fn answer(status: &PodTransitionRuleStatus, rule: &str, pod: &PodView, operation: &str) -> Option<Answer> {
    let name = &pod.id.name;
    let updated = status.update_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let of_rule = status.rule_states.iter().filter(|state| state.name == rule);
    let tasks = of_rule.filter_map(|state| state.webhook_status.as_ref()).flat_map(|state| &state.task_states);
    for task in tasks {
        // A task that names another operation is about an earlier one.
        if task.operations.get(name).is_some_and(|known| known != operation) {
            continue;
        }
        let message = task.message.clone().unwrap_or_default();
        if task.approved.contains(name) {
            let since = task.last_time.as_ref().map_or(updated, |time| time.0);
            return Some(Answer { approval: Approval::Approved, message, since });
        }
        if task.processing.contains(name) {
            let since = task.begin_time.as_ref().map_or(updated, |time| time.0);
            return Some(Answer { approval: Approval::Pending, message, since });
        }
    }
    // A pod may be listed once for each stage.
    let of_pod = || status.details.iter().filter(|detail| detail.name == *name);
    if of_pod().any(|detail| detail.passed_rules.iter().any(|passed| passed == rule)) {
        return Some(Answer { approval: Approval::Approved, message: String::new(), since: updated });
    }
    let rejected =
        of_pod().flat_map(|detail| &detail.reject_info).find(|info| info.rule_name.as_deref() == Some(rule))?;
    let (approval, message) = understand(rejected.reason.as_deref()?)?;
    Some(Answer { approval, message, since: updated })
}

/// The controller reports the gate's own words, so these tell what it was.
fn understand(reason: &str) -> Option<(Approval, String)> {
    let none = String::new;
    [
        (Approval::Refused, Denies::ApprovalRefused { message: none() }),
        (Approval::Unreachable, Denies::ApproverUnreachable { message: none() }),
        (Approval::Pending, Denies::AwaitingApproval { message: none() }),
    ]
    .into_iter()
    .find_map(|(approval, because)| {
        let message = reason.strip_prefix(&because.to_string())?;
        Some((approval, message.trim_start_matches([':', ' ']).to_owned()))
    })
}

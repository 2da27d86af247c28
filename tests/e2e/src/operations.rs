//! What the agents report of operations, live.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use hitless_api::{NodeTransition, Outcome, Transition};
use serde_json::Value;

use crate::{Stack, Watch};

/// All operations that have ended since it began to watch. Their reports are soon taken away, so each is kept here.
pub struct Operations {
    watch: Watch,
    ended: Arc<Mutex<Vec<Transition>>>,
}

impl Operations {
    /// Begins to watch. kubectl takes a while to begin, so this comes before what takes time anyway.
    pub fn start(stack: &Stack) -> anyhow::Result<Self> {
        let ended = Arc::<Mutex<Vec<Transition>>>::default();
        let noted = Arc::clone(&ended);
        let watch = Watch::start_seeing(&stack.system(), &["nodetransitions"], move |event| {
            note(&mut noted.lock().unwrap_or_else(PoisonError::into_inner), event);
        })?;
        Ok(Self { watch, ended })
    }

    /// Waits until an operation of the pod has ended, unless one has already. What was refused for now is granted anew, and counts only
    /// then.
    pub fn wait_end(&self, pod_uid: &str, timeout: Duration) -> anyhow::Result<Transition> {
        self.watch.wait("an operation of the pod to end", timeout, |_| {
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let is_its = |report: &&Transition| report.id.starts_with(pod_uid) && !is_refused_for_now(report);
            ended.iter().find(is_its).cloned()
        })
    }
}

fn is_refused_for_now(report: &Transition) -> bool {
    report.result.as_ref().is_some_and(|result| result.outcome == Outcome::Refused && !result.is_lasting())
}

/// The same operation has the same id whenever it is granted.
fn note(ended: &mut Vec<Transition>, event: &Value) {
    let Ok(node) = serde_json::from_value::<NodeTransition>(event["object"].clone()) else { return };
    let reports = node.status.into_iter().flat_map(|status| status.transitions);
    for report in reports.filter(|report| report.result.is_some()) {
        if !ended.iter().any(|known| known.id == report.id && known.granted == report.granted) {
            ended.push(report);
        }
    }
}

/// A number of an ended operation's report (docs/draining.md).
pub fn number(ended: &Transition, name: &str) -> anyhow::Result<i64> {
    let result = ended.result.as_ref().context("it has not ended")?;
    result.report.get(name).copied().with_context(|| format!("no {name} in the report: {result:?}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_that_was_taken_away_is_still_known() {
        let event = |transitions: Value| {
            json!({"type": "MODIFIED", "object": {"apiVersion": "hitless.dev/v1alpha1", "kind": "NodeTransition",
                "metadata": {"name": "n1"}, "spec": {"nodeUID": "n"}, "status": {"transitions": transitions}}})
        };
        let report = |granted: &str, result: Value| {
            let mut report =
                json!({"id": "u.1", "granted": granted, "phase": "Returning", "since": "2026-01-01T00:00:00.000000Z"});
            report["result"] = result;
            report
        };
        let (first, second) = ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:01:00.000000Z");
        let done = json!({"outcome": "Done", "reason": "Done"});
        let mut ended = Vec::new();
        for seen in [
            json!([report(first, Value::Null)]),
            json!([report(first, done.clone())]),
            json!([report(first, done.clone())]),
            json!([]),
            json!([report(second, done)]),
        ] {
            note(&mut ended, &event(seen));
        }
        let granted: Vec<String> = ended.iter().map(|report| report.granted.0.to_string()).collect();
        assert_eq!(granted, ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"]);
    }
}

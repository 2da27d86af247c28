//! Whose approvers are to be asked, and who may return after they, and the other rules of stage PostCheck, agreed.

use hitless_api::{Phase, PodRef, PostCheck};
use hitless_gate::{Candidate, Gate, Verdict};
use jiff::Timestamp;

use crate::Ask;
use crate::round::change::Change;
use crate::round::facts::desired::DesiredState;
use crate::round::pod_verdict::PodVerdict;
use crate::snapshot::Snapshot;

/// What is to be asked, and when to decide again.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) asks: Vec<Ask>,
    pub(crate) wake_at: Option<Timestamp>,
}

/// Lets operated pods return that wait for the rules of stage PostCheck.
pub(crate) fn post_checks<'a>(
    desired: &DesiredState<'a>,
    gate: &Gate,
    snapshot: &'a Snapshot,
    now: Timestamp,
) -> (Vec<Change<'a>>, Asked) {
    let (mut changes, mut asked) = (Vec::new(), Asked::default());
    for (node, view) in &snapshot.node_transitions {
        for grant in view.spec.grants.iter().filter(|grant| grant.post_check == Some(PostCheck::Pending)) {
            let checking = view.transition(grant).filter(|transition| transition.result.is_none());
            let Some(pod) = desired.pods.get(grant.pod.uid.as_str()) else { continue };
            if checking.is_none_or(|transition| transition.phase != Phase::Checking) {
                continue;
            }
            let verdict = gate.post_check(&Candidate::of(pod, grant.id.clone()), &snapshot.approvals, now);
            if verdict.allowed {
                changes.push(Change::PassPostCheck { node, grant });
            } else {
                asked.add(&verdict, &grant.pod, &grant.id);
            }
        }
    }
    (changes, asked)
}

impl Asked {
    /// What the verdicts before an operation ask for.
    pub(crate) fn add_all(&mut self, verdicts: &[PodVerdict], desired: &DesiredState<'_>) {
        for verdict in verdicts {
            let wanted = desired.by_pod.get(verdict.pod.uid.as_str());
            let Some(intent) = wanted.and_then(|wanted| wanted.intent.as_ref().ok()) else { continue };
            if let Some(gate) = &verdict.gate {
                self.add(gate, &verdict.pod, &intent.id());
            }
        }
    }

    fn add(&mut self, verdict: &Verdict, pod: &PodRef, operation: &str) {
        for path in &verdict.asks {
            let Some((rule_set, rule)) = path.split_once('/') else { continue };
            self.asks.push(Ask {
                namespace: pod.namespace.clone(),
                rule_set: rule_set.to_owned(),
                rule: rule.to_owned(),
                pod: pod.clone(),
                operation: operation.to_owned(),
            });
        }
        let changes = verdict.denied().filter_map(hitless_gate::RuleVerdict::changes_at);
        self.wake_at = changes.chain(self.wake_at).min();
    }
}

//! What the objects of requests get to know of this round.

use hitless_api::event::{EventNote, Severity};
use hitless_workloads::{OperationFailure, OperationFailures, REQUESTS, Reports, registry, restart};

use crate::guard;
use crate::round::change::Change;
use crate::round::features::{Effects, FeatureContext};
use crate::round::pod_verdict::PodVerdict;
use crate::round::wait_reason::WaitReason;
use crate::snapshot::Snapshot;

/// What is to be written and said of the objects of requests.
pub(crate) fn follow<'a>(context: &FeatureContext<'_, 'a, '_>) -> Effects<'a> {
    let (desired, snapshot) = (&context.facts.desired, context.facts.snapshot);
    let failures = failures(context.verdicts, snapshot);
    let plan_of = |pod: &_| desired.plan_of(pod);
    let context = desired.context(&plan_of);
    let mut effects = Effects::default();
    for kind in REQUESTS {
        let Reports { writes, notes, wake_at } = kind.report(&context, &failures);
        effects.changes.extend(writes.into_iter().map(Change::Write));
        effects = effects.telling(notes).waking(wake_at);
    }
    effects.telling(left_alone(snapshot)).telling(guard::notes(snapshot))
}

fn failures(verdicts: &[PodVerdict], snapshot: &Snapshot) -> OperationFailures {
    let never = verdicts.iter().filter_map(|verdict| {
        let waiting = verdict.waiting.as_ref().filter(|waiting| waiting.is_for_ever())?;
        Some((verdict.pod.uid.clone(), OperationFailure { reason: waiting.reason().to_owned(), text: waiting.text() }))
    });
    let ended = snapshot.node_transitions.values().flat_map(|node| {
        let with_report = |grant| Some((grant, node.transition(grant)?));
        node.spec.grants.iter().filter_map(with_report)
    });
    let failed = ended.filter_map(|(grant, transition)| {
        let result = transition.result.as_ref().filter(|result| result.is_lasting() && grant.cancel.is_none())?;
        let key = (grant.pod.uid.clone(), restart::token_of(grant)?.to_owned());
        let text = format!("its operation ended as {:?}: {}", result.outcome, transition.message);
        Some((
            key,
            OperationFailure { reason: result.reason.clone(), text: text.trim_end_matches([':', ' ']).to_owned() },
        ))
    });
    OperationFailures { never: never.collect(), failed: failed.collect() }
}

/// Objects of kinds that are left to the manager that they come from say so.
fn left_alone(snapshot: &Snapshot) -> Vec<EventNote> {
    let note = |object: &hitless_workloads::Object| {
        let manager = snapshot.managers.of_kind(&object.id.group_kind)?;
        Some(EventNote {
            regarding: object.id.reference(registry::version(&object.id.group_kind)),
            severity: Severity::Warning,
            reason: manager.left(),
            action: "Observe",
            text: format!("{manager}; hitless leaves this {} to it", object.id.group_kind.kind),
        })
    };
    let own = snapshot.left_objects.iter().filter(|object| is_own(object));
    own.filter_map(|object| note(object)).collect()
}

/// It stands for a workload or a request, and is no part of one.
fn is_own(object: &hitless_workloads::Object) -> bool {
    registry::holders().any(|holder| holder.own() == Some(&object.id.group_kind))
}

impl WaitReason {
    /// Whether it stays so as long as the pod is as it is.
    fn is_for_ever(&self) -> bool {
        match self {
            Self::TooLarge(_) | Self::HostNetwork | Self::StaticPod | Self::Job | Self::NoReadinessGate(_) => true,
            Self::Obstacle(obstacle) => obstacle.is_for_ever(),
            _ => false,
        }
    }
}

//! Operations of others, who say in a pod's labels that they have begun (docs/contract.md#podopslifecycle).

use std::collections::BTreeMap;

use hitless_api::lifecycle::{self, Step};
use hitless_api::names;
use hitless_api::pod::PodView;
use hitless_api::{Grant, GrantOp};
use jiff::{SignedDuration, Timestamp};

use crate::component::Component;
use crate::intent::{DesiredOperation, Operation, PodIntent};
use crate::request::{RequestContext, RequestKind};
use crate::right::Right;
use crate::switch::Switch;

/// How long an operation of others counts in budgets of the whole cluster for pods of other namespaces. Then its operator is taken to be
/// dead, or to take what belongs to all. The pod stays as it is, and counts in everything of its own namespace.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(1);

/// The kind of request: label `operating.podopslifecycle.kusionstack.io/<id>`.
pub struct Foreign;

impl RequestKind for Foreign {
    fn component(&self) -> Component {
        Component::KusionStack
    }

    fn rights(&self) -> Vec<Right> {
        vec![Right::of("", "pods", &["patch"], "labels of PodOpsLifecycle (lifecycle.yaml)")]
    }

    fn switch(&self) -> Option<Switch> {
        Some(Switch::PodOpsLifecycle)
    }

    fn desired(&self, context: &RequestContext<'_, '_>) -> Vec<DesiredOperation> {
        let wanting = context.pods.iter().filter(|pod| !pod.terminating && !pod.finished && is_wanted(pod));
        wanting.map(|pod| DesiredOperation::new(pod, Ok(intent(pod)))).collect()
    }

    /// When it is over is the agent's to say: it sees the labels as soon as anybody.
    fn wants(&self, grant: &Grant, _: Option<&PodView>, _: &RequestContext<'_, '_>) -> bool {
        grant.op == GrantOp::Foreign
    }

    fn goes_first(&self) -> bool {
        true
    }
}

/// Whether somebody has begun an operation of a type.
#[must_use]
pub fn is_wanted(pod: &PodView) -> bool {
    let labels = &pod.labels;
    let has_type = |id: &str| labels.contains_key(&Step::OperationType.key(id));
    let undone = |id: &str| labels.contains_key(&Step::UndoOperationType.key(id));
    let is_system = names::is_system(&pod.id.namespace);
    !is_system
        && pod.lifecycle.is_some()
        && lifecycle::at(labels, Step::Operating).any(|id| has_type(id) && !undone(id))
}

/// Who operates the pod, since when, and what to do if nobody does any more; `None`: nobody does.
#[must_use]
pub fn operators(pod: &PodView) -> Option<String> {
    let all: Vec<&str> = lifecycle::at(&pod.labels, Step::Operating).collect();
    let first = all.first()?;
    let text = |step: Step, id: &str| pod.labels.get(&step.key(id)).map(String::as_str);
    let of = |id: &&str| {
        let kind = text(Step::OperationType, id).unwrap_or("without a type");
        let since = text(Step::Operating, id).and_then(|value| value.parse().ok());
        let since = since.and_then(|value| Timestamp::from_nanosecond(value).ok());
        let since = since.map_or_else(String::new, |at| at.strftime(" since %Y-%m-%dT%H:%M:%SZ").to_string());
        let is_allowed = text(Step::Operate, id).is_some();
        let words = if is_allowed { "operates it" } else { "is not allowed to operate it yet" };
        format!("the operator of {id} ({kind}){since} {words}")
    };
    let words = all.iter().map(of).collect::<Vec<_>>().join(", ");
    Some(format!(
        "{words}; the pod stays out of service until the label {} is removed from it. If that operator is gone: kubectl label pod -n {} {} {}-",
        Step::Operating.key(first),
        pod.id.namespace,
        pod.id.name,
        Step::Operating.key(first),
    ))
}

/// The pod leaves service, however many operate it.
fn intent(pod: &PodView) -> PodIntent {
    PodIntent::new(pod, Operation::new(GrantOp::Foreign, BTreeMap::new(), BTreeMap::new(), BTreeMap::new()))
}

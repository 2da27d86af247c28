//! Restarts wanted by annotation on a pod, carried out exactly once (docs/contract.md#restart-exactly-once).

use hitless_api::Grant;
use hitless_api::names::annotations;
use hitless_api::pod::PodView;

use super::token::is_token;
pub use super::token::{annotated, asked, token_of};
use crate::intent::DesiredOperation;
use crate::plan::{Plan, Stage};
use crate::request::{RequestContext, RequestKind};
pub use crate::restart_request::{RestartRequest, wanted};

/// The kind of request: annotation `hitless.dev/restart`.
pub struct Restarts;

impl RequestKind for Restarts {
    fn desired(&self, context: &RequestContext<'_, '_>) -> Vec<DesiredOperation> {
        let wanting = context.pods.iter().filter(|pod| !pod.terminating && !pod.finished);
        let wanting = wanting.filter_map(|pod| Some((pod, wanted(pod)?)));
        wanting
            .filter_map(|(pod, wanted)| {
                Some(DesiredOperation::new(pod, wanted.intent(pod, revision((context.plan_of)(pod), pod)?)))
            })
            .collect()
    }

    fn wants(&self, grant: &Grant, pod: Option<&PodView>, _: &RequestContext<'_, '_>) -> bool {
        let carries_out = token_of(grant).is_some_and(|token| !is_token(token));
        // A token that changed meanwhile queues one more restart and takes nothing from this one (docs/contract.md#restart-exactly-once).
        let wanted = pod.and_then(|pod| pod.annotations.get(annotations::RESTART));
        carries_out && wanted.is_some_and(|token| !token.is_empty())
    }
}

/// The revision that a restart records on the pod; `None` if it has to wait: the pod is about to be brought to another
/// revision, and the restart goes along, or the pod is about to be replaced.
#[allow(clippy::option_option, reason = "not now, now without a revision, now with this one")]
pub(crate) fn revision<'p>(plan: Option<&'p Plan>, pod: &PodView) -> Option<Option<&'p str>> {
    let Some(plan) = plan else { return Some(None) };
    // One that is not brought to that revision waits for nothing.
    if plan.stuck.contains(&pod.id.uid) {
        return Some(None);
    }
    let is_behind = plan.behind.contains(&pod.id.uid);
    match plan.stage {
        Stage::NotOurs | Stage::Refused(_) | Stage::Halted(_) => Some(None),
        Stage::Native | Stage::SteppingAside(_) => None,
        Stage::Idle => Some((!is_behind).then_some(plan.target.as_str())),
        Stage::Rolling | Stage::Finishing => (!is_behind).then_some(Some(plan.target.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    #[test]
    fn a_restart_waits_for_another_revision_unless_the_pod_is_not_brought_there() {
        let pod = json!({"metadata": {"name": "p", "uid": "u", "annotations": {"hitless.dev/restart": "a"}}});
        let pod = PodView::from(&serde_json::from_value::<Pod>(pod).unwrap());
        let uids = || [pod.id.uid.clone()].into();
        let at_rest = crate::registry::read(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "uid": "u"}}),
        );
        let at_rest = at_rest.unwrap().unwrap();
        let rolling = Plan { stage: Stage::Rolling, target: "new".into(), ..Plan::nothing(&at_rest) };
        assert_eq!(revision(Some(&rolling), &pod), Some(Some("new")));
        let behind = Plan { behind: uids(), ..rolling };
        assert_eq!(revision(Some(&behind), &pod), None);
        assert_eq!(revision(Some(&Plan { stuck: uids(), ..behind }), &pod), Some(None));
    }
}

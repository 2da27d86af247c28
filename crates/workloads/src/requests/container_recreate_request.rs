//! OpenKruise's ContainerRecreateRequests: containers of one pod are started anew, once (docs/contract.md#containerrecreaterequest).
//!
//! Upstream has a daemon on every node stop them by the CRI. Here it is the restart that annotations and OperationJobs ask for: within rules
//! and budgets, drained or held, the kubelet stops the containers, and the agent writes the request's token in the same patch. The request's
//! status records it before anything else may be done to the pod.

pub(crate) mod body;
mod recreation;
mod report;

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{Grant, GroupKind};
use serde_json::Value;

pub use body::RecreateBody;

use super::task;
use super::token::{asked, is_token, token_of};
use crate::component::{Component, KRUISE, Switch};
use crate::intent::DesiredOperation;
use crate::kind::Resource;
use crate::kinds::clone_set;
use crate::object::{self, Body, Object, ReadError, RequestBody};
use crate::request::{OperationFailures, Reports, RequestContext, RequestKind};
use crate::requests::restart;
use crate::restart_request::RestartRequest;
use crate::right::Right;
use recreation::{Record, Recreation};

/// ContainerRecreateRequests.
pub const CONTAINER_RECREATE_REQUEST: Resource = Resource {
    group_kind: GroupKind::new(clone_set::GROUP, "ContainerRecreateRequest"),
    version: "v1alpha1",
    plural: "containerrecreaterequests",
    is_namespaced: true,
    optional: true,
    verbs: &["delete"],
    why: "containers that are to be started anew; deleted some time after its end",
    uninstall_verbs: &[],
    uninstall_why: "",
};

/// The kind of request: ContainerRecreateRequest.
pub struct ContainerRecreateRequests;

impl RequestKind for ContainerRecreateRequests {
    fn resources(&self) -> &'static [Resource] {
        const { &[CONTAINER_RECREATE_REQUEST] }
    }

    fn component(&self) -> Option<&'static Component> {
        Some(&KRUISE)
    }

    fn switch(&self) -> Option<Switch> {
        Some(Switch::of("ContainerRecreateRequest"))
    }

    fn rights(&self) -> Vec<Right> {
        vec![Right::of(clone_set::GROUP, "containerrecreaterequests/status", &["patch"], "reports how far it is")]
    }

    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        object::read(of, object, |body| Body::Request(RequestBody::ContainerRecreate(body)))
    }

    fn desired(&self, context: &RequestContext<'_, '_>) -> Vec<DesiredOperation> {
        Recreation::all(context).filter_map(|recreation| desired(recreation, context)).collect()
    }

    fn wants(&self, grant: &Grant, pod: Option<&PodView>, context: &RequestContext<'_, '_>) -> bool {
        let Some(token) = token_of(grant).filter(|token| is_token(token)) else { return false };
        // What has begun ends, whatever became of the request.
        pod.is_none_or(|pod| task::is_on(pod, token)) || is_open(token, context, Record::Ended)
    }

    fn keeps_token(&self, pod: &PodView, context: &RequestContext<'_, '_>) -> bool {
        let recorded = pod.annotations.get(annotations::RESTARTED).map(|recorded| asked(recorded));
        let token = recorded.filter(|token| is_token(token));
        token.is_some_and(|token| is_open(token, context, Record::Stopped))
    }

    fn report(&self, context: &RequestContext<'_, '_>, failures: &OperationFailures) -> Reports {
        let mut reports = Reports::default();
        for recreation in Recreation::all(context) {
            report::of(recreation, context, failures, &mut reports);
        }
        reports
    }
}

/// Whether a request with this token does not say that yet, or may not: while requests can't be read, nobody knows.
fn is_open(token: &str, context: &RequestContext<'_, '_>, record: Record) -> bool {
    context.unreadable.contains(&CONTAINER_RECREATE_REQUEST.group_kind)
        || Recreation::of_token(token, context).is_some_and(|(recreation, step)| recreation.lacks(step, record))
}

/// The restart that the request wants now.
fn desired(recreation: Recreation<'_>, context: &RequestContext<'_, '_>) -> Option<DesiredOperation> {
    let pod = recreation.pod(context).ok()?;
    let (step, containers) = recreation.due(pod, context)?;
    let revision = restart::revision((context.plan_of)(pod), pod)?;
    let token = recreation.token(step);
    let intent = RestartRequest { token, containers: Some(containers) }.intent(pod, revision);
    Some(DesiredOperation {
        delay_seconds: recreation.body.delay_seconds,
        asked_by: Some(recreation.object.id.clone()),
        ..DesiredOperation::new(pod, intent)
    })
}

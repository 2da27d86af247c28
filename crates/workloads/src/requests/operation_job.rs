//! KusionStack's OperationJobs: something is done once to each of some pods (docs/contract.md#operationjob).
//!
//! What has been done is read from the pods: the agent writes the job's token together with the images, and a replaced pod has left
//! another one in its place. The job's status records it. Until it has, nobody else may put another token on the pod. So a controller
//! that is killed between any two writes restarts nobody twice.

pub(crate) mod body;
mod job;
mod replace;
mod report;
mod restart;

use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_api::{Grant, GroupKind};
use serde_json::Value;

pub use body::{Action, Invalid, JobBody};
pub(crate) use job::Job;
pub use job::TargetState;

use super::task;
pub use super::token::token;
use super::token::{asked, is_token, token_of};
use crate::component::{Component, KUSIONSTACK, Switch};
use crate::intent::DesiredOperation;
use crate::kind::Resource;
use crate::kinds::colla_set;
use crate::object::{self, Body, Object, ReadError, RequestBody};
use crate::request::{OperationFailures, Reports, RequestContext, RequestKind};
use crate::right::Right;

/// OperationJobs.
pub const OPERATION_JOB: Resource = Resource {
    group_kind: GroupKind::new(colla_set::GROUP, "OperationJob"),
    version: "v1alpha1",
    plural: "operationjobs",
    is_namespaced: true,
    optional: true,
    verbs: &["delete"],
    why: "what is to be done to pods; deleted some time after its end",
    uninstall_verbs: &[],
    uninstall_why: "",
};

/// The kind of request: OperationJob.
pub struct OperationJobs;

impl RequestKind for OperationJobs {
    fn resources(&self) -> &'static [Resource] {
        const { &[OPERATION_JOB] }
    }

    fn component(&self) -> Option<&'static Component> {
        Some(&KUSIONSTACK)
    }

    fn switch(&self) -> Option<Switch> {
        Some(Switch::of("OperationJob"))
    }

    fn rights(&self) -> Vec<Right> {
        vec![Right::of(colla_set::GROUP, "operationjobs/status", &["patch"], "reports how far it is")]
    }

    fn read(&self, of: &GroupKind, object: Value) -> Result<Object, ReadError> {
        object::read(of, object, |body| Body::Request(RequestBody::OperationJob(body)))
    }

    fn desired(&self, context: &RequestContext<'_, '_>) -> Vec<DesiredOperation> {
        Job::all(context).flat_map(|job| restart::desired(job, context)).collect()
    }

    fn wants(&self, grant: &Grant, pod: Option<&PodView>, context: &RequestContext<'_, '_>) -> bool {
        let Some(token) = token_of(grant).filter(|token| is_token(token)) else { return false };
        // What has begun ends, whatever became of the job.
        pod.is_none_or(|pod| task::is_on(pod, token))
            || is_unreadable(context)
            || Job::of_token(token, context).is_some_and(|job| job.wants(&grant.pod.name))
    }

    fn keeps_token(&self, pod: &PodView, context: &RequestContext<'_, '_>) -> bool {
        let recorded = pod.annotations.get(annotations::RESTARTED).map(|recorded| asked(recorded));
        let token = recorded.filter(|token| is_token(token));
        token.is_some_and(|token| {
            is_unreadable(context) || Job::of_token(token, context).is_some_and(|job| job.is_open(&pod.id.name))
        })
    }

    fn report(&self, context: &RequestContext<'_, '_>, failures: &OperationFailures) -> Reports {
        let mut reports = Reports::default();
        for job in Job::all(context) {
            report::of(job, context, failures, &mut reports);
        }
        if !is_unreadable(context) && !context.left.contains(&OPERATION_JOB.group_kind) {
            reports.writes.extend(replace::cancelled(context));
        }
        reports
    }
}

fn is_unreadable(context: &RequestContext<'_, '_>) -> bool {
    context.unreadable.contains(&OPERATION_JOB.group_kind)
}

//! **Jobs.** An OperationJob restarts each of its pods once and no more, and says so of no pod that it has not restarted; a
//! ContainerRecreateRequest does the same with containers.

use std::collections::BTreeSet;

use hitless_api::container_recreate_request::RecreatePhase;
use hitless_api::names::annotations;
use hitless_api::operation_job::Progress;
use hitless_api::pod::PodView;
use hitless_workloads::requests::container_recreate_request::RecreateBody;
use hitless_workloads::requests::operation_job;
use hitless_workloads::{Object, RequestBody, restart};

use super::{Checks, Operation};
use crate::clock::Micros;
use crate::server::Server;

/// What was done for jobs.
#[derive(Default)]
pub(super) struct Jobs {
    /// uids of pods with the tokens for which their images were patched, and not put back.
    restarted: BTreeSet<(String, String)>,
    /// The same by namespace and name of the pod.
    named: BTreeSet<(String, String, String)>,
}

impl Checks {
    /// Admission has let an agent's patch of a pod's images pass.
    pub(crate) fn restarted(&mut self, now: Micros, before: &PodView, after: &PodView, operation: &Operation) {
        let token = |pod: &PodView| {
            pod.annotations
                .get(annotations::RESTARTED)
                .map(|token| restart::asked(token).to_owned())
                .unwrap_or_default()
        };
        let (old, new) = (token(before), token(after));
        let key = |token: &str| (before.id.uid.clone(), token.to_owned());
        if !operation.forward {
            self.jobs.restarted.remove(&key(&old));
            return;
        }
        if old == new || !new.starts_with(&operation_job::token("")) {
            return;
        }
        self.jobs.named.insert((before.id.namespace.clone(), before.id.name.clone(), new.clone()));
        if !self.jobs.restarted.insert(key(&new)) {
            self.fail(now, format!("pod {} is restarted for {new} once more", before.id.name));
        }
    }

    /// A controller of ours is about to store what a job reports.
    pub(super) fn job_reported(&mut self, server: &Server, job: &Object) {
        let token = operation_job::token(&job.id.uid);
        if let Some(RequestBody::ContainerRecreate(body)) = job.request() {
            return self.recreation_reported(server.now, job, body, &token);
        }
        let Some(body) = job.operation_job() else { return };
        let is_fresh = |name: &str| {
            server.pods.values().map(|pod| &pod.view).any(|pod| pod.id.name == name && pod.created > job.created)
        };
        for detail in body.status.target_details.iter().filter(|detail| detail.progress == Progress::Succeeded) {
            let key = (job.id.namespace.clone(), detail.name.clone(), token.clone());
            // A pod may have been made anew and be gone by now: then its details say so.
            if !self.jobs.named.contains(&key) && !is_fresh(&detail.name) && detail.extra_info.is_empty() {
                self.fail(server.now, format!("job {} says that pod {} was restarted", job.id.name, detail.name));
            }
        }
    }

    fn recreation_reported(&mut self, now: Micros, request: &Object, body: &RecreateBody, token: &str) {
        let killed = body.status.container_recreate_states.iter().filter(|state| state.is_killed);
        for state in killed {
            let of_this = |(namespace, pod, done): &(String, String, String)| {
                *namespace == request.id.namespace && *pod == body.pod && done.split('.').next() == Some(token)
            };
            if !self.jobs.named.iter().any(of_this) {
                self.fail(now, format!("{} says that container {} was stopped for it", request.id.name, state.name));
            }
        }
    }

    /// A controller of ours deletes a job.
    pub(super) fn job_deleted(&mut self, now: Micros, job: &Object) {
        let is_over = match job.request() {
            Some(RequestBody::OperationJob(body)) => body.status.progress.is_some_and(Progress::is_final),
            Some(RequestBody::ContainerRecreate(body)) => body.status.phase == Some(RecreatePhase::Completed),
            None => false,
        };
        if !is_over {
            self.fail(now, format!("job {} was deleted before its end", job.id.name));
        }
    }
}

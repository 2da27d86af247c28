//! OperationJobs and ContainerRecreateRequests: users make and delete them while everything else goes on.

use hitless_api::container_recreate_request::RecreatePhase;
use hitless_api::operation_job::Progress;
use hitless_workloads::RequestBody;
use serde_json::{Value, json};

use super::World;
use crate::faults::Fault;
use crate::server::WorkloadObject;
use crate::trace::Who;

pub(crate) const JOB: &str = "OperationJob";
const RECREATION: &str = "ContainerRecreateRequest";

impl World {
    /// Some pods of a workload are to be restarted; sometimes one is named that is not there, or only some of them are meant for now.
    pub(super) fn make_job(&mut self, who: usize) {
        let wanted = &self.user.desired[who % self.user.desired.len()];
        let (namespace, prefix) = (wanted.namespace.clone(), format!("{}-", wanted.name));
        let ground = &mut self.ground;
        let pods = ground.server.pods.values().map(|pod| &pod.view);
        let own =
            pods.filter(|pod| pod.id.namespace == namespace && pod.id.name.starts_with(&prefix) && !pod.terminating);
        let mut names: Vec<String> = own.map(|pod| pod.id.name.clone()).collect();
        names.sort_unstable();
        names.retain(|_| ground.jobs.happens(7_500));
        if ground.has_clone_sets {
            return self.make_recreation(&namespace, &names);
        }
        if ground.jobs.happens(1_000) {
            names.push("nobody".to_owned());
        }
        if names.is_empty() {
            return;
        }
        self.user.tokens += 1;
        let name = format!("again{}", self.user.tokens);
        let targets: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        let mut spec = json!({"action": "Restart", "targets": targets,
            "activeDeadlineSeconds": ground.jobs.pick(&[10_800, 10_800, 20]),
            "TTLSecondsAfterFinished": ground.jobs.pick(&[0, 20, 10_000_000])});
        if ground.jobs.happens(1_000) {
            spec["partition"] = json!(1);
        }
        ground.fault(Fault::JobMade);
        ground.say(Who::User, || format!("makes job {name} for {}", names.join(", ")));
        ground.server.create_object(json!({
            "apiVersion": "apps.kusionstack.io/v1alpha1", "kind": JOB, "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        }));
        self.flush();
    }

    /// Containers of one of the pods are to be started anew.
    fn make_recreation(&mut self, namespace: &str, names: &[String]) {
        let ground = &mut self.ground;
        let Some(pod) = names.first().and_then(|name| {
            let mut pods = ground.server.pods.values().map(|pod| &pod.view);
            pods.find(|pod| pod.id.namespace == namespace && pod.id.name == *name)
        }) else {
            return;
        };
        let containers: Vec<Value> = pod.containers.iter().map(|each| json!({"name": each.name})).collect();
        let spec = json!({"podName": pod.id.name, "containers": containers,
            "activeDeadlineSeconds": ground.jobs.pick(&[10_800, 20]),
            "ttlSecondsAfterFinished": ground.jobs.pick(&[0, 20, 10_000_000]),
            "strategy": {"orderedRecreate": ground.jobs.happens(5_000), "forceRecreate": ground.jobs.happens(3_000),
                "unreadyGracePeriodSeconds": ground.jobs.pick(&[0, 0, 3]), "minStartedSeconds": ground.jobs.pick(&[0, 4])}});
        self.user.tokens += 1;
        let name = format!("anew{}", self.user.tokens);
        ground.fault(Fault::JobMade);
        ground.say(Who::User, || format!("asks by {name} for new containers of {}", names[0]));
        ground.server.create_object(json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": RECREATION,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec}));
        self.flush();
    }

    pub(super) fn delete_job(&mut self, who: usize) {
        let server = &self.ground.server;
        let all = server.objects_of(JOB).chain(server.objects_of(RECREATION));
        let open: Vec<WorkloadObject> = all.filter(|job| is_open(job)).cloned().collect();
        let Some(job) = (!open.is_empty()).then(|| &open[who % open.len()]) else { return };
        self.ground.fault(Fault::JobDeleted);
        self.ground.say(Who::User, || format!("deletes job {}", job.view.id.name));
        self.ground.server.remove_object(&job.key());
        self.flush();
    }

    /// Every job has ended, or something says why it has not.
    pub(super) fn jobs_at_rest(&self, cured: bool) -> Option<String> {
        let now = self.ground.now;
        let leader = self.controllers.iter().find(|each| each.leads(now))?;
        let waits = |namespace: &str, name: &str| {
            let mut verdicts = leader.last.verdicts.iter();
            verdicts.any(|verdict| {
                verdict.pod.namespace == namespace && verdict.pod.name == name && verdict.waiting.is_some()
            })
        };
        let server = &self.ground.server;
        let all = server.objects_of(JOB).chain(server.objects_of(RECREATION));
        all.filter(|job| is_open(job)).find_map(|job| {
            let (id, open) = (&job.view.id, open_pod(job)?);
            let hopeless = self.user.desired.iter().any(|wanted| wanted.hopeless);
            // What has been stopped for a request is waited for until it is Ready again.
            if !is_replacing(job) && !waits(&id.namespace, open) {
                return Some(format!("job {}: pod {open} is open, and nothing says why", id.name));
            }
            (cured && !hopeless).then(|| format!("job {}: pod {open} is still open: {}", id.name, self.unrest()))
        })
    }
}

fn is_open(job: &WorkloadObject) -> bool {
    match job.view.request() {
        Some(RequestBody::OperationJob(body)) => !body.status.progress.is_some_and(Progress::is_final),
        Some(RequestBody::ContainerRecreate(body)) => body.status.phase != Some(RecreatePhase::Completed),
        None => false,
    }
}

fn is_replacing(job: &WorkloadObject) -> bool {
    let Some(RequestBody::ContainerRecreate(body)) = job.view.request() else { return false };
    body.status.container_recreate_states.iter().any(|state| state.is_killed && !state.phase.is_final())
}

/// The first pod that it has not done with.
fn open_pod(job: &WorkloadObject) -> Option<&str> {
    match job.view.request()? {
        RequestBody::OperationJob(body) => {
            let ended = |name: &str| {
                let mut details = body.status.target_details.iter();
                details.any(|detail| detail.name == name && detail.progress.is_final())
            };
            let mut targets = body.targets.iter().take(body.partition).map(|target| target.name.as_str());
            targets.find(|name| !ended(name))
        }
        RequestBody::ContainerRecreate(body) => Some(&body.pod),
    }
}

//! OperationJobs: users make and delete them while everything else goes on.

use hitless_api::operation_job::Progress;
use serde_json::{Value, json};

use super::World;
use crate::faults::Fault;
use crate::server::WorkloadObject;
use crate::trace::Who;

pub(crate) const JOB: &str = "OperationJob";

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

    pub(super) fn delete_job(&mut self, who: usize) {
        let open: Vec<WorkloadObject> =
            self.ground.server.objects_of(JOB).filter(|job| is_open(job)).cloned().collect();
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
        self.ground.server.objects_of(JOB).filter(|job| is_open(job)).find_map(|job| {
            let (id, body) = (&job.view.id, job.view.operation_job()?);
            let ended = |name: &str| {
                let mut details = body.status.target_details.iter();
                details.any(|detail| detail.name == name && detail.progress.is_final())
            };
            let open = body.targets.iter().take(body.partition).find(|target| !ended(&target.name))?;
            let hopeless = self.user.desired.iter().any(|wanted| wanted.hopeless);
            if !waits(&id.namespace, &open.name) {
                return Some(format!("job {}: pod {} is open, and nothing says why", id.name, open.name));
            }
            (cured && !hopeless).then(|| format!("job {}: pod {} is still open: {}", id.name, open.name, self.unrest()))
        })
    }
}

fn is_open(job: &WorkloadObject) -> bool {
    job.view.operation_job().is_some_and(|body| !body.status.progress.is_some_and(Progress::is_final))
}

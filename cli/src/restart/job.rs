//! A restart of many pods: an OperationJob.

use hitless_api::operation_job::{OperationError, OperationJob, OperationJobSpec, OperationTarget};
use hitless_api::pod::PodView;
use hitless_runtime::write::{WriteError, Writes};
use hitless_workloads::requests::operation_job;
use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};

use super::token;
use crate::args::RestartArgs;
use crate::failure::Failure;
use crate::say;
use crate::snapshot::Snapshot;

/// From so many pods on it is a job, where the controller looks after jobs and the user may make them.
const MANY: usize = 10;
/// So much of a workload's name goes into that of the job.
const LONGEST_NAME: usize = 200;

/// Makes the job, and returns what it leaves on its pods; `None`: there is no job for this, and the pods are annotated.
pub(super) async fn make(
    client: &Client,
    snapshot: &Snapshot,
    namespace: &str,
    arguments: &RestartArgs,
    pods: &[&PodView],
) -> Result<Option<String>, Failure> {
    if !arguments.job && !(MANY..=OperationJobSpec::MAX_TARGETS).contains(&pods.len()) {
        return Ok(None);
    }
    if !snapshot.serves_jobs() {
        let why = "nobody looks after OperationJobs here: install the component manifests/kusionstack, and see that \
                   HITLESS_SWITCHED_OFF does not name them; or leave --job out";
        return if arguments.job { Err(Failure::Failed(why.to_owned())) } else { Ok(None) };
    }
    let job = manifest(&arguments.target.name, &token(Timestamp::now()), &arguments.containers, pods);
    let api: Api<OperationJob> = Api::namespaced(client.clone(), namespace);
    match Writes::default().send("operationjobs", api.create(&PostParams::default(), &job)).await {
        Ok(made) => {
            let name = made.metadata.name.as_deref().unwrap_or_default();
            say(&format!("operationjob/{name} made for {} pods", pods.len()))?;
            Ok(Some(operation_job::token(made.metadata.uid.as_deref().unwrap_or_default())))
        }
        Err(WriteError::Denied { message }) if !arguments.job => {
            say(&format!("no OperationJob was made ({message}); the pods are annotated instead"))?;
            Ok(None)
        }
        Err(error) => Err(Failure::of("make an OperationJob", error)),
    }
}

fn manifest(target: &str, token: &str, containers: &[String], pods: &[&PodView]) -> OperationJob {
    let target: String = target.chars().take(LONGEST_NAME).collect();
    let targets = pods.iter().map(|pod| OperationTarget { name: pod.id.name.clone(), containers: containers.to_vec() });
    let spec =
        OperationJobSpec { action: "Restart".to_owned(), targets: targets.collect(), ..OperationJobSpec::default() };
    OperationJob::new(&format!("restart-{target}-{token}"), spec)
}

/// An error if the job with this token has targets that have failed.
pub(super) fn failed(snapshot: &Snapshot, token: &str) -> Result<(), Failure> {
    let is_meant = |uid: &str| operation_job::token(uid) == token;
    let job =
        snapshot.cluster.objects.iter().find(|object| object.operation_job().is_some() && is_meant(&object.id.uid));
    let details = job.and_then(|job| job.operation_job()).map(|body| &body.status.target_details);
    let failed = details.into_iter().flatten().find_map(|detail| Some((detail, detail.error.as_ref()?)));
    match failed {
        Some((detail, OperationError { reason, message })) => {
            Err(Failure::Failed(format!("restart of pod {} failed: {reason}: {message}", detail.name)))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{pod, view};

    #[test]
    fn the_job_names_every_pod_and_the_containers_that_are_meant() {
        let pods = [view(&pod("web-1", "web:v1")), view(&pod("web-2", "web:v1"))];
        let job = manifest("web", "20260101t000000z-0001", &["web".to_owned()], &pods.iter().collect::<Vec<_>>());
        assert_eq!(job.metadata.name.as_deref(), Some("restart-web-20260101t000000z-0001"));
        assert_eq!((job.spec.action.as_str(), job.spec.targets.len()), ("Restart", 2));
        assert!(job.spec.targets.iter().all(|target| target.containers == ["web"]));
    }

    #[test]
    fn jobs_are_made_where_the_controller_looks_after_them() {
        use hitless_workloads::{COMPONENTS, Installed, Switch};
        let on = Installed::with(&COMPONENTS);
        let serves = |installed: Option<Installed>, unlisted: &[&'static str]| {
            Snapshot { installed, unlisted: unlisted.to_vec(), ..Snapshot::default() }.serves_jobs()
        };
        assert!(serves(Some(on.clone()), &[]) && serves(None, &[]));
        assert!(!serves(Some(on.clone()), &["operationjobs"]), "the cluster has none");
        assert!(!serves(Some(Installed::default()), &[]), "the component is not installed");
        assert!(!serves(Some(Installed { off: [Switch::of("OperationJob")].into(), ..on }), &[]), "they are off");
    }
}

//! What `status` says, for machines and people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hitless_api::operation_job::Progress;
use hitless_api::{Outcome, Phase};
use serde::{Serialize, Serializer};

use crate::args::{Target, TargetKind};
use crate::select::{self, Labels};
use crate::snapshot::Snapshot;

/// Everything that is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    pub(crate) workloads: Vec<WorkloadStatus>,
    /// OperationJobs and ContainerRecreateRequests that have not ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) jobs: Vec<JobStatus>,
}

/// An OperationJob or ContainerRecreateRequest that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobStatus {
    pub(crate) namespace: String,
    /// `operationjob/NAME`
    pub(crate) name: String,
    /// `Restart`, `Replace`, or what its owner has written.
    pub(crate) action: String,
    /// As in its status; `Pending` before its first report.
    pub(crate) progress: Progress,
    pub(crate) total: usize,
    pub(crate) succeeded: usize,
    pub(crate) failed: usize,
    /// What its next pod waits for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    /// Names of its pods.
    #[serde(skip)]
    pub(crate) pods: Vec<String>,
}

/// A workload that has opted in, or one of whose pods something is done to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkloadStatus {
    pub(crate) namespace: String,
    /// `deployment/NAME`, or for pods without one `replicaset/NAME` and the like, or `pod/NAME`.
    pub(crate) name: String,
    /// Where its rollout is, in CamelCase.
    pub(crate) stage: &'static str,
    /// Its rollout is held back from Kubernetes' own way.
    pub(crate) held: bool,
    /// Pods that are as the workload says.
    pub(crate) updated: usize,
    /// Pods that count.
    pub(crate) total: usize,
    /// Pods that are wanted.
    pub(crate) replicas: Option<u32>,
    /// How far a restart is, where no rollout is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) restart: Option<Restart>,
    /// What to know about the whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    /// How many pods are under way, and how many wait.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) progress: String,
    /// Why no operation of its pods begins, if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) paused: Option<String>,
    /// How it stands with restarts because of ConfigMaps and Secrets, if it wants them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reload: Option<String>,
    pub(crate) pods: Vec<PodStatus>,
    /// It is driven: it has opted in, and is not being deleted.
    #[serde(skip)]
    pub(crate) driven: bool,
    /// So many pods more than its replicas may be there to stay.
    #[serde(skip)]
    pub(crate) surplus: u32,
    /// It goes natively, and has not got on in time.
    #[serde(skip)]
    pub(crate) overdue: Option<String>,
    /// An operation has failed on the way to its target, maybe of a pod that is gone.
    #[serde(skip)]
    pub(crate) halted: Option<String>,
}

/// How far the restarts of a workload's pods are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Restart {
    pub(crate) restarted: usize,
    /// With those that are to be restarted yet.
    pub(crate) total: usize,
}

/// Of a rollout of which no pod waits any more: so many of those that count are being operated, or are not Ready yet.
pub(super) fn finishing(under_way: usize) -> String {
    match under_way {
        0 => "all pods have its version, and the workload's own objects follow".to_owned(),
        1 => "no pod waits any more; 1 is still being brought to its version".to_owned(),
        more => format!("no pod waits any more; {more} are still being brought to its version"),
    }
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "fields of an answer, each read by itself")]
pub(crate) struct PodStatus {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) node: Option<String>,
    pub(crate) ready: bool,
    /// It is being deleted.
    #[serde(skip)]
    pub(crate) leaves: bool,
    pub(crate) state: State,
    /// Connections that are left, at the agent's last report.
    pub(crate) connections: Option<u32>,
    /// Seconds in this state.
    pub(crate) elapsed_seconds: Option<i64>,
    /// Seconds until this state ends by itself; negative when it should have ended.
    pub(crate) deadline_seconds: Option<i64>,
    /// Images of its containers by name, as its specification has them.
    pub(crate) images: BTreeMap<String, String>,
    /// What it waits for and why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    /// It waits until somebody does something: neither time nor what is under way helps.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) stays: bool,
    /// It waits until what was written is changed: the rule, the workload or the pod.
    #[serde(skip)]
    pub(crate) needs_change: bool,
    /// A rule is in the way.
    pub(crate) blocked: bool,
    /// Its operation has ended in a way that stops the rollout of its workload.
    pub(crate) halts: bool,
}

/// Where a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing is wanted.
    UpToDate,
    /// Something is wanted, but not granted.
    Waiting,
    /// It has its place in the budget; the grant is being written.
    Reserved,
    /// It is being operated.
    Running(Phase),
    /// Its operation has ended.
    Ended(Outcome),
}

impl State {
    /// Something is being done to the pod.
    pub(crate) const fn is_moving(self) -> bool {
        match self {
            Self::Running(_) | Self::Reserved => true,
            Self::UpToDate | Self::Waiting | Self::Ended(_) => false,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Debug of the wire's enums is the wire's spelling.
        match self {
            Self::UpToDate => f.pad("UpToDate"),
            Self::Waiting => f.pad("Waiting"),
            Self::Reserved => f.pad("Reserved"),
            Self::Running(phase) => f.pad(&format!("{phase:?}")),
            Self::Ended(outcome) => f.pad(&format!("{outcome:?}")),
        }
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl WorkloadStatus {
    /// How far it is: `1 of 3 updated`. `pods`: "pods ", or nothing.
    pub(crate) fn count(&self, pods: &str) -> String {
        match self.restart {
            Some(Restart { restarted, total }) => format!("{restarted} of {total} {pods}restarted"),
            None => format!("{} of {} {pods}updated", self.updated, self.total),
        }
    }

    /// As it is pasted behind a command: `-n team deployment/web`.
    pub(crate) fn arguments(&self) -> String {
        format!("-n {} {}", self.namespace, self.name)
    }
}

impl Report {
    /// Only what concerns `target`.
    pub(crate) fn only(mut self, target: Option<&Target>) -> Self {
        let Some(target) = target else { return self };
        match &target.kind {
            TargetKind::Workload(_) => {
                let name = target.to_string();
                self.workloads.retain(|workload| workload.name == name);
                let pods: Vec<&String> =
                    self.workloads.iter().flat_map(|each| &each.pods).map(|pod| &pod.name).collect();
                self.jobs.retain(|job| job.pods.iter().any(|pod| pods.contains(&pod)));
            }
            TargetKind::Pod => {
                for workload in &mut self.workloads {
                    workload.pods.retain(|pod| pod.name == target.name);
                }
                self.workloads.retain(|workload| !workload.pods.is_empty());
                self.jobs.retain(|job| job.pods.contains(&target.name));
            }
        }
        self
    }

    /// Only workloads with these labels.
    pub(crate) fn selected(mut self, snapshot: &Snapshot, labels: Option<&Labels>) -> Self {
        let Some(labels) = labels else { return self };
        let objects = snapshot.cluster.objects.iter().filter(|object| labels.match_object(object));
        let names: BTreeSet<(String, String)> =
            objects.map(|object| (object.id.namespace.clone(), select::name(object))).collect();
        self.workloads.retain(|workload| names.contains(&(workload.namespace.clone(), workload.name.clone())));
        let pods: BTreeSet<&String> = self.workloads.iter().flat_map(|each| &each.pods).map(|pod| &pod.name).collect();
        self.jobs.retain(|job| job.pods.iter().any(|pod| pods.contains(pod)));
        self
    }

    /// The same without what changes by time alone.
    pub(crate) fn without_times(&self) -> Self {
        let mut same = self.clone();
        for pod in same.workloads.iter_mut().flat_map(|workload| &mut workload.pods) {
            (pod.elapsed_seconds, pod.deadline_seconds) = (None, None);
        }
        same
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.name(), self.name)
    }
}

//! What only an OperationJob has.

use std::collections::{BTreeMap, BTreeSet};

use hitless_api::operation_job::{OperationJobSpec, OperationJobStatus, OperationTarget};
use jiff::SignedDuration;
use serde::Deserialize;

/// What is done to each target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Its containers are restarted in place.
    Restart,
    /// Its CollaSet makes another pod in its place.
    Replace,
    /// A word that this build does not know.
    Unknown(String),
}

/// Why nothing is done for a job: what the schema of our definition refuses, and another definition may let through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// See [`Action::Unknown`].
    #[error("there is no action {0}; known are Restart and Replace")]
    UnknownAction(String),
    /// It has no targets.
    #[error("spec.targets is empty")]
    NoTargets,
    /// Two targets are the same pod.
    #[error("spec.targets has pod {0} twice; name each pod once")]
    DuplicateTarget(String),
    /// With a status of each it does not fit into one object.
    #[error("spec.targets has {0} pods; a job may have at most {max}: make several jobs", max = OperationJobSpec::MAX_TARGETS)]
    TooManyTargets(usize),
    /// It is below 0.
    #[error("spec.partition is {0}; it is the number of targets that are operated, 0 or more")]
    NegativePartition(i32),
}

impl Invalid {
    /// The reason in CamelCase, for machines.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnknownAction(_) => "UnknownAction",
            Self::NoTargets => "NoTargets",
            Self::DuplicateTarget(_) => "DuplicateTarget",
            Self::TooManyTargets(_) => "TooManyTargets",
            Self::NegativePartition(_) => "NegativePartition",
        }
    }
}

/// What only an OperationJob has.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Raw")]
pub struct JobBody {
    /// What is done to each target.
    pub action: Action,
    /// The pods.
    pub targets: Vec<OperationTarget>,
    /// So many of them are operated, the first ones.
    pub partition: usize,
    /// Seconds between leaving service and the operation.
    pub delay_seconds: u32,
    /// So long after it was taken on, nothing more is begun.
    pub active: SignedDuration,
    /// So long after its end it is deleted.
    pub time_to_live: SignedDuration,
    /// What it reports.
    pub status: OperationJobStatus,
    /// Why nothing is done for it.
    pub invalid: Option<Invalid>,
    /// Place of each target in `status.targetDetails`, by name.
    pub(crate) recorded: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
struct Raw {
    spec: OperationJobSpec,
    #[serde(default)]
    status: OperationJobStatus,
}

impl From<Raw> for JobBody {
    fn from(Raw { spec, status }: Raw) -> Self {
        let seconds = |wanted: Option<i32>, default: i32| SignedDuration::from_secs(wanted.unwrap_or(default).into());
        let recorded = status.target_details.iter().enumerate();
        Self {
            invalid: invalid(&spec),
            recorded: recorded.map(|(index, detail)| (detail.name.clone(), index)).collect(),
            partition: spec.partition.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or_default()),
            delay_seconds: spec.operation_delay_seconds.and_then(|wait| u32::try_from(wait).ok()).unwrap_or_default(),
            active: seconds(spec.active_deadline_seconds, OperationJobSpec::DEFAULT_ACTIVE_DEADLINE_SECONDS),
            time_to_live: seconds(spec.ttl_seconds_after_finished, OperationJobSpec::DEFAULT_TTL_SECONDS),
            action: match spec.action.as_str() {
                "Restart" => Action::Restart,
                "Replace" => Action::Replace,
                _ => Action::Unknown(spec.action),
            },
            targets: spec.targets,
            status,
        }
    }
}

fn invalid(spec: &OperationJobSpec) -> Option<Invalid> {
    if !matches!(spec.action.as_str(), "Restart" | "Replace") {
        return Some(Invalid::UnknownAction(spec.action.clone()));
    }
    if spec.targets.is_empty() {
        return Some(Invalid::NoTargets);
    }
    if spec.targets.len() > OperationJobSpec::MAX_TARGETS {
        return Some(Invalid::TooManyTargets(spec.targets.len()));
    }
    if let Some(partition) = spec.partition.filter(|partition| *partition < 0) {
        return Some(Invalid::NegativePartition(partition));
    }
    let mut names = BTreeSet::new();
    let twice = spec.targets.iter().find(|target| !names.insert(&target.name))?;
    Some(Invalid::DuplicateTarget(twice.name.clone()))
}

//! A version that failed while what all pods need was away is tried once more by itself, and only once (docs/contract.md#bad-version): when that was
//! decided stands on the workload (annotation `hitless.dev/tried-again`) before anything is tried.

use hitless_api::names::annotations;
use hitless_api::{Grant, MicroTime};
use hitless_workloads::Object;
use serde::{Deserialize, Serialize};

use crate::round::facts::desired::DesiredState;

/// The annotation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TriedAgain {
    pub(crate) revision: String,
    pub(crate) at: MicroTime,
}

/// How an operation stands that has failed, if nothing of it is the version's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chance {
    /// Nothing was tried again of this version.
    Open,
    /// It began before its version got another chance, and is forgotten.
    Taken,
    /// It is of that other chance: there is no third one.
    Had,
}

impl Chance {
    /// Of an operation on the way to the target of the workload with this index.
    pub(crate) fn of(workload: Option<usize>, grant: &Grant, desired: &DesiredState<'_>) -> Self {
        let Some(plan) = workload.map(|index| &desired.plans[index]) else { return Self::Open };
        let known = desired.world.object(&plan.workload.uid).and_then(read);
        match known.filter(|known| known.revision == plan.target) {
            None => Self::Open,
            Some(known) if grant.granted <= known.at => Self::Taken,
            Some(_) => Self::Had,
        }
    }
}

fn read(object: &Object) -> Option<TriedAgain> {
    serde_json::from_str(object.annotations.get(annotations::TRIED_AGAIN)?).ok()
}

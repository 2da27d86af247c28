//! What a rollout learns of the one before: a version that did not start in place and serves from new pods since (annotation
//! `hitless.dev/in-place-failed`, docs/contract.md#bad-version). The next one would crash for minutes before it went natively, too.

use hitless_api::MicroTime;
use hitless_api::names::annotations;
use hitless_api::pod::PodView;
use hitless_workloads::{Object, Plan};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::round::attempts::kept;
use crate::round::facts::desired::DesiredState;
use crate::round::facts::unfit::may_roll;

/// The annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InPlaceFailed {
    /// The version that went natively.
    revision: String,
    /// When.
    at: MicroTime,
    /// What a new pod renews, as the template had it. Where it is another one, the next version is tried in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept: Option<String>,
    /// What was seen in place, for people.
    message: String,
}

impl InPlaceFailed {
    /// The version that is wanted goes natively for this reason.
    pub(crate) fn of(plan: &Plan, root: &Object, message: String, now: Timestamp) -> Self {
        let kept = kept(root).map(|kept| kept.to_string());
        Self { revision: plan.target.clone(), at: MicroTime(now), kept, message }
    }

    /// The same, of the version after it.
    pub(crate) fn again(self, plan: &Plan, now: Timestamp) -> Self {
        Self { revision: plan.target.clone(), at: MicroTime(now), ..self }
    }

    /// What is known from the version before, if its new pods serve, and their owner lets further ones be made.
    pub(crate) fn before(index: usize, desired: &DesiredState<'_>) -> Option<Self> {
        let plan = desired.plans.get(index).filter(|plan| may_roll(plan))?;
        let root = desired.world.object(&plan.workload.uid)?;
        let known: Self = serde_json::from_str(root.annotations.get(annotations::IN_PLACE_FAILED)?).ok()?;
        let is_as_it_was = known.kept == kept(root).map(|kept| kept.to_string());
        // One that was operated since has started in place.
        let is_new = |pod: &PodView| {
            let is_younger = pod.created.is_some_and(|created| created.as_second() >= known.at.0.as_second());
            is_younger && !pod.is_operated()
        };
        let serves = |pod: &PodView| pod.available() && plan.behind.contains(&pod.id.uid) && is_new(pod);
        let holds = is_as_it_was && !plan.is_target(&known.revision) && desired.pods.values().any(|pod| serves(pod));
        holds.then_some(known)
    }

    /// Why the version that is wanted now goes natively, for people.
    pub(crate) fn words(&self) -> String {
        let message = &self.message;
        format!(
            "{message}, and new pods serve since, so this version gets new pods at once; without the annotation {} it is tried in place",
            annotations::IN_PLACE_FAILED
        )
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

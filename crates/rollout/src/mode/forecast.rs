//! What is expected of an operation of a pod.

use hitless_api::pod::PodView;
use hitless_api::{DrainSpec, Grant, Hook};

use super::{Mode, OperationSettings, Serving, StandIn, Traffic};

/// Leave or Hold, and what clients notice of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// As it stands, or would stand, in the grant.
    pub mode: Mode,
    /// How its connections are treated.
    pub drain: DrainSpec,
    /// How long its workload is away when it is operated, in milliseconds, as far as that was learned.
    pub gap_milliseconds: Option<u32>,
    /// The pod serves, and no other pod does where its connections come from.
    pub is_alone: bool,
    /// What the pod is told or asked meanwhile.
    pub hooks: Vec<Hook>,
}

impl Forecast {
    /// Of a pod in this mode, while the other pods are as `serving` says.
    #[must_use]
    pub fn of(
        pod: &PodView,
        settings: &OperationSettings,
        mode: Mode,
        traffic: &Traffic<'_>,
        serving: &impl Fn(&PodView) -> Serving,
    ) -> Self {
        Self {
            mode,
            drain: settings.drain.clone(),
            gap_milliseconds: settings.gap_milliseconds(),
            is_alone: pod.ready() && traffic.stand_in(pod, serving) != StandIn::Serves,
            hooks: settings.hooks.clone(),
        }
    }

    /// Of an operation that has been granted. Who else served at that time is in the reason.
    #[must_use]
    pub fn granted(grant: &Grant, gap_milliseconds: Option<u32>) -> Self {
        let Grant { mode, mode_reason, unless_serving, .. } = grant;
        let mode = Mode { mode: mode.clone(), reason: mode_reason.clone(), unless_serving: *unless_serving };
        Self { mode, drain: grant.drain.clone(), gap_milliseconds, is_alone: false, hooks: grant.hooks.clone() }
    }
}

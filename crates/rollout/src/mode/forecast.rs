//! What is expected of an operation of a pod.

use hitless_api::pod::PodView;
use hitless_api::{DrainSpec, Grant, GrantMode, Hook};

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
    /// The same until it is ready.
    pub ready_milliseconds: Option<u32>,
    /// The pod serves, and no other pod does where its connections come from.
    pub is_alone: bool,
    /// The pod serves, and another pod does for all clients but those of this Service.
    pub lone_service: Option<String>,
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
        let companion_serves = Mode::word(&mode.reason) == Mode::COMPANION;
        let is_away = mode.mode != GrantMode::Stay;
        let stand_in = if pod.ready() && !companion_serves && is_away {
            traffic.stand_in_while_unready(pod, serving)
        } else {
            StandIn::Serves
        };
        let (is_alone, lone_service) = match stand_in {
            StandIn::Serves => (false, None),
            StandIn::ExceptFor(service) | StandIn::ExceptOnNode(service) => (false, Some(service.to_owned())),
            StandIn::OnOtherNodes(_) | StandIn::None => (true, None),
        };
        Self {
            mode,
            drain: settings.drain.clone(),
            gap_milliseconds: settings.gap_milliseconds(),
            ready_milliseconds: settings.ready_milliseconds(),
            is_alone,
            lone_service,
            hooks: settings.hooks.clone(),
        }
    }

    /// Of an operation that has been granted. Who else served at that time is in the reason.
    #[must_use]
    pub fn granted(grant: &Grant, gap_milliseconds: Option<u32>) -> Self {
        let (unless_serving, unless_in_flight) = (grant.unless_serving, grant.unless_in_flight);
        let (mode, reason) = (grant.mode.clone(), grant.mode_reason.clone());
        let mode = Mode { mode, reason, unless_serving, unless_in_flight };
        let (drain, hooks) = (grant.drain.clone(), grant.hooks.clone());
        let (ready_milliseconds, lone_service) = (None, None);
        Self { mode, drain, gap_milliseconds, ready_milliseconds, is_alone: false, lone_service, hooks }
    }
}

//! How a pod is to be observed, and what for.

use hitless_api::DrainSpec;
use hitless_api::pod::PodView;

use crate::drain::{has_udp, must_listen, sctp_port};

/// How a pod is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What the looking is for.
    pub stage: Stage,
    /// Treatment of its ports.
    pub drain: DrainSpec,
    /// Seconds between two probes, for each probe that opens a connection.
    pub probe_periods: Vec<u32>,
    /// containerID of each container that is operated, as the pod's status has it.
    pub containers: Vec<String>,
    /// Somebody is certain to listen in the pod: if nobody is seen to, nothing can be counted.
    pub must_listen: bool,
    /// A port where the pod serves by SCTP: nothing can be counted.
    pub sctp: Option<u16>,
    /// It serves by UDP, too: as long as datagrams come, it is not quiet.
    pub udp: bool,
}

impl Target {
    /// For the pod as it is now.
    #[must_use]
    pub fn new(pod: &PodView, stage: Stage, drain: DrainSpec, containers: Vec<String>) -> Self {
        let probe_periods = pod.containers.iter().flat_map(|container| &container.probe_periods).copied().collect();
        let (must_listen, sctp, udp) = (must_listen(pod), sctp_port(pod, &drain), has_udp(pod, &drain));
        Self { stage, drain, probe_periods, containers, must_listen, sctp, udp }
    }
}

/// What a pod's connections are looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The endpoint is still there: they are only counted.
    Leaving,
    /// The pod reports NotReady: new connections must stop, and idle ones may be closed.
    Draining,
    /// The same, and those that are left are reset.
    Destroying,
    /// Nobody is left; the containers are being replaced.
    Replacing,
}

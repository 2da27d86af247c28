//! How a pod is taken out of traffic and how the result is judged; resolved by the controller into each grant.

mod of_pod;
mod overrides;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use of_pod::InvalidDrain;
pub use overrides::DrainOverrides;

/// What happens to connections that are still there after [`DrainSpec::straggler_after_seconds`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StragglerPolicy {
    /// Wait for them until the deadline, then operate.
    Wait,
    /// Treat the remaining ones as given up and operate.
    #[default]
    Close,
    /// Reset them, and operate once they are gone.
    Destroy,
    /// At the deadline give the operation up and put the pod back into service.
    Abort,
}

/// What travels on a port, and so which connections may be closed by us when idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PortTreatment {
    /// HTTP/1.x: an idle keep-alive connection is closed kindly.
    Http1,
    /// HTTP/2, gRPC: waited for.
    Http2,
    /// Any other TCP protocol: waited for.
    Tcp,
    /// Not waited for: UDP has no connections.
    Udp,
    /// Not counted at all.
    Ignore,
}

/// Treatment of one container port; ports that are not listed are treated as [`PortTreatment::Tcp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortDrain {
    /// Port number as the pod listens on it.
    pub port: u16,
    /// What travels on it.
    pub treat: PortTreatment,
}

/// How long to wait for whom before a container is operated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DrainSpec {
    /// Shortest time between leaving service and the operation, in seconds. The kubelet needs about one to settle.
    #[serde(default = "defaults::min_seconds")]
    pub min_seconds: u32,
    /// After this many seconds out of service `stragglers` applies.
    #[serde(default = "defaults::straggler_after_seconds")]
    pub straggler_after_seconds: u32,
    /// Policy for connections that outstay `stragglerAfterSeconds`.
    #[serde(default)]
    pub stragglers: StragglerPolicy,
    /// After this many seconds out of service the container is operated whatever is still open (or, with `Abort`, not at all).
    #[serde(default = "defaults::deadline_seconds")]
    pub deadline_seconds: u32,
    /// On a port that is not HTTP/1 a connection is not waited for once no data has passed on it for so many seconds; absent: it is
    /// waited for until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_after_seconds: Option<u32>,
    /// Longest time that new connections are parked by a Hold, in milliseconds from the first parked one.
    #[serde(default = "defaults::hold_cap_milliseconds")]
    pub hold_cap_milliseconds: u32,
    /// Ports whose treatment is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = DrainSpec::MAX_PORTS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["port"]))]
    pub ports: Vec<PortDrain>,
}

/// How an operated container is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifySpec {
    /// The new containers must be ready within this many seconds after they were started, else they are rolled back. The time that the
    /// old ones take to stop is not counted (docs/contract.md#bad-version).
    #[serde(default = "defaults::progress_seconds")]
    pub progress_seconds: u32,
    /// It must stay ready for this many seconds before the pod returns to service.
    #[serde(default)]
    pub soak_seconds: u32,
    /// No other pod of the workload served when this was granted, so nobody stands in while the kubelet starts a container again that has
    /// ended: the second crash is the verdict, unless `crashes` says otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// The kubelet's next attempt is not waited for once a new container has ended so often, and no more than the time allows. Absent: with
    /// `alone` the second crash is the verdict, else the kubelet tries again until the time is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crashes: Option<u32>,
}

impl VerifySpec {
    /// A container of which nothing else tells that it runs, neither a readiness or startup probe nor a listening port, is taken to
    /// run once it has run for so long, in seconds: the kubelet calls it ready as soon as it is started (docs/contract.md#bad-version).
    pub const RUNS_FOR_SECONDS: u8 = 3;
}

mod defaults {
    pub(super) const fn min_seconds() -> u32 {
        1
    }
    pub(super) const fn straggler_after_seconds() -> u32 {
        30
    }
    pub(super) const fn deadline_seconds() -> u32 {
        60
    }
    pub(super) const fn hold_cap_milliseconds() -> u32 {
        2500
    }
    pub(super) const fn progress_seconds() -> u32 {
        600
    }
}

impl Default for DrainSpec {
    fn default() -> Self {
        Self {
            min_seconds: defaults::min_seconds(),
            straggler_after_seconds: defaults::straggler_after_seconds(),
            stragglers: StragglerPolicy::default(),
            deadline_seconds: defaults::deadline_seconds(),
            idle_after_seconds: None,
            hold_cap_milliseconds: defaults::hold_cap_milliseconds(),
            ports: Vec::new(),
        }
    }
}

impl Default for VerifySpec {
    fn default() -> Self {
        Self { progress_seconds: defaults::progress_seconds(), soak_seconds: 0, alone: false, crashes: None }
    }
}

impl DrainSpec {
    /// Most ports in a grant (its schema).
    pub const MAX_PORTS: usize = 64;
    /// Longest Hold that may be wanted, in milliseconds: a Linux client's last try before a time-out of five seconds is at four.
    pub const LONGEST_HOLD_MILLISECONDS: u32 = 4000;
    /// Longest [`Self::min_seconds`] that may be wanted.
    pub const LONGEST_MIN_SECONDS: u32 = 3600;
    /// Longest [`Self::straggler_after_seconds`] and [`Self::deadline_seconds`] that may be wanted: a day.
    pub const LONGEST_DEADLINE_SECONDS: u32 = 86_400;

    /// What an agent's features must contain for a grant to set [`Self::idle_after_seconds`]: one that does not know the field can't
    /// read the grant.
    pub const IDLE_AFTER_FEATURE: &str = "idleAfter";

    /// Whether somebody has set [`Self::straggler_after_seconds`]: so long everybody is waited for then, also those whom waiting does not
    /// end.
    #[must_use]
    pub const fn has_straggler_time_of_its_own(&self) -> bool {
        self.straggler_after_seconds != defaults::straggler_after_seconds()
    }

    /// A port on which connections outlast a request: the first of those treated as `http2` or `tcp`.
    #[must_use]
    pub fn long_lived_port(&self) -> Option<u16> {
        let outlasts = |treat| match treat {
            PortTreatment::Http2 | PortTreatment::Tcp => true,
            PortTreatment::Http1 | PortTreatment::Udp | PortTreatment::Ignore => false,
        };
        self.ports.iter().find(|known| outlasts(known.treat)).map(|known| known.port)
    }

    /// How connections to `port` are treated.
    #[must_use]
    pub fn treatment(&self, port: u16) -> PortTreatment {
        self.ports.iter().find(|known| known.port == port).map_or(PortTreatment::Tcp, |known| known.treat)
    }
}

//! Single fields of a drain, as annotations and policies give them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DrainSpec, PortDrain, StragglerPolicy};

/// Fields of [`DrainSpec`] that somebody sets; what is absent is left to whoever is asked next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DrainOverrides {
    /// Shortest time between leaving service and the operation, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = DrainSpec::LONGEST_MIN_SECONDS))]
    pub min_seconds: Option<u32>,
    /// After this many seconds out of service `stragglers` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = DrainSpec::LONGEST_DEADLINE_SECONDS))]
    pub straggler_after_seconds: Option<u32>,
    /// What happens to connections that outstay `stragglerAfterSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stragglers: Option<StragglerPolicy>,
    /// After this many seconds out of service the container is operated whatever is still open (or, with `Abort`, not at all).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = DrainSpec::LONGEST_DEADLINE_SECONDS))]
    pub deadline_seconds: Option<u32>,
    /// On a port that is not HTTP/1 a connection is not waited for once no data has passed on it for so many seconds, pings of its
    /// protocol included; absent: it is waited for until it ends. For pools that keep connections open which nobody uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = DrainSpec::LONGEST_DEADLINE_SECONDS))]
    pub idle_after_seconds: Option<u32>,
    /// Longest time that new connections are parked, in milliseconds from the first parked one. Clients that give up after five
    /// seconds try for the last time after four.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = DrainSpec::LONGEST_HOLD_MILLISECONDS))]
    pub hold_cap_milliseconds: Option<u32>,
    /// What travels on single ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = DrainSpec::MAX_PORTS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["port"]))]
    pub ports: Vec<PortDrain>,
}

impl DrainOverrides {
    /// Sets the fields of `spec` that are given here.
    pub(super) fn apply(&self, spec: &mut DrainSpec) {
        fn set<T: Copy>(field: &mut T, given: Option<T>) {
            *field = given.unwrap_or(*field);
        }
        set(&mut spec.min_seconds, self.min_seconds);
        set(&mut spec.straggler_after_seconds, self.straggler_after_seconds);
        set(&mut spec.stragglers, self.stragglers);
        set(&mut spec.deadline_seconds, self.deadline_seconds);
        spec.idle_after_seconds = self.idle_after_seconds.or(spec.idle_after_seconds);
        set(&mut spec.hold_cap_milliseconds, self.hold_cap_milliseconds);
        // These come first, so that weaker ones are left out where there are too many.
        let weaker = std::mem::take(&mut spec.ports);
        for port in &self.ports {
            match spec.ports.iter_mut().find(|known| known.port == port.port) {
                Some(known) => *known = *port,
                None => spec.ports.push(*port),
            }
        }
        for port in weaker {
            if !spec.ports.iter().any(|known| known.port == port.port) {
                spec.ports.push(port);
            }
        }
    }

    /// What is not as the schema of [`crate::DrainPolicy`] wants it; an annotation has no schema.
    pub(super) fn fault(&self) -> Option<String> {
        let most = |name: &str, value: Option<u32>, limit: u32| {
            value.filter(|value| *value > limit).map(|value| format!("{name} is {value}, and at most {limit}"))
        };
        let none = |name: &str, value: Option<u32>| (value == Some(0)).then(|| format!("{name} is 0, and at least 1"));
        let (day, hold, ports) =
            (DrainSpec::LONGEST_DEADLINE_SECONDS, DrainSpec::LONGEST_HOLD_MILLISECONDS, DrainSpec::MAX_PORTS);
        most("minSeconds", self.min_seconds, DrainSpec::LONGEST_MIN_SECONDS)
            .or_else(|| most("stragglerAfterSeconds", self.straggler_after_seconds, day))
            .or_else(|| most("deadlineSeconds", self.deadline_seconds, day))
            .or_else(|| most("holdCapMilliseconds", self.hold_cap_milliseconds, hold))
            .or_else(|| most("idleAfterSeconds", self.idle_after_seconds, day))
            .or_else(|| none("holdCapMilliseconds", self.hold_cap_milliseconds))
            .or_else(|| none("idleAfterSeconds", self.idle_after_seconds))
            .or_else(|| (self.ports.len() > ports).then(|| format!("more than {ports} ports")))
    }
}

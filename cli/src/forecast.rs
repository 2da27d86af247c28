//! Which way a pod goes, and what clients notice of it, in words.

use std::fmt;

use hitless_api::{DrainSpec, GrantMode, StragglerPolicy};
use hitless_rollout::mode::{Forecast, Mode};
use serde::Serialize;

/// Leave or Hold, beforehand or as it was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Expected {
    pub(crate) mode: GrantMode,
    /// In CamelCase first, then in words; as the controller writes it into the grant.
    pub(crate) mode_reason: String,
    /// For people.
    pub(crate) clients_see: String,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode.as_str())?;
        // Grants of old have none.
        if self.mode_reason.is_empty() { Ok(()) } else { write!(f, " — {}", self.mode_reason) }
    }
}

impl From<&Forecast> for Expected {
    fn from(forecast: &Forecast) -> Self {
        let Forecast { mode, drain, gap_milliseconds, ready_milliseconds: _, is_alone, lone_service, hooks: _ } =
            forecast;
        let alone = match (is_alone, lone_service) {
            (true, _) => Some("no other pod serves, so new connections fail until it is back".to_owned()),
            (false, Some(service)) => Some(format!(
                "no other pod serves clients of Service {service}, so their new connections fail until it is back"
            )),
            (false, None) => None,
        };
        Self {
            mode: mode.mode.clone(),
            mode_reason: mode.reason.clone(),
            clients_see: if mode.unless_serving {
                "nothing: what is replaced serves nobody, and the pod stays in service".to_owned()
            } else {
                clients_see(&mode.mode, drain, *gap_milliseconds, alone.as_deref())
            },
        }
    }
}

impl Expected {
    /// The pod would leave only because nobody knows yet how long its workload is away.
    pub(crate) fn is_for_unknown_gap(&self) -> bool {
        Mode::word(&self.mode_reason) == Mode::UNKNOWN_GAP
    }
}

/// `alone`: it serves, and whom no other pod serves, in words.
fn clients_see(mode: &GrantMode, drain: &DrainSpec, gap: Option<u32>, alone: Option<&str>) -> String {
    match mode {
        GrantMode::Leave => leave(drain, alone),
        GrantMode::Hold => hold(drain.hold_cap_milliseconds, gap),
        GrantMode::Stay => "nothing: nothing in the pod is replaced, and it stays in service".to_owned(),
        GrantMode::Unknown(_) => "this kubectl-hitless does not know the mode".to_owned(),
    }
}

fn leave(drain: &DrainSpec, alone: Option<&str>) -> String {
    let (early, late) = (drain.straggler_after_seconds.min(drain.deadline_seconds), drain.deadline_seconds);
    let has_endless = drain.long_lived_port().is_some() && !drain.has_straggler_time_of_its_own();
    let stragglers = match drain.stragglers {
        StragglerPolicy::Close if has_endless => {
            format!("up to {early} s (those of a pool about 10 s), then cut off")
        }
        StragglerPolicy::Close => format!("up to {early} s, then cut off"),
        StragglerPolicy::Destroy => format!("up to {early} s, then reset"),
        StragglerPolicy::Wait => format!("up to {late} s, then cut off"),
        StragglerPolicy::Abort => format!("up to {late} s; if some are open then, the pod stays as it is"),
    };
    let alone = alone.map(|words| format!("; {words}")).unwrap_or_default();
    format!("the pod leaves its Services, its connections are waited for {stragglers}{alone}")
}

fn hold(cap: u32, gap: Option<u32>) -> String {
    match gap {
        Some(gap) if gap <= cap => format!("new connections wait about {gap} ms (learned gap), at most {cap} ms"),
        Some(gap) => format!(
            "new connections wait for {cap} ms and are refused then, until the new process listens after about {gap} ms \
             (learned gap)"
        ),
        None => format!(
            "new connections wait until the new process listens, at most {cap} ms, and are refused then; how long it takes is \
             not known yet"
        ),
    }
}

#[cfg(test)]
mod tests {
    use hitless_api::{PortDrain, PortTreatment};

    use super::*;

    #[test]
    fn who_is_held_waits_for_the_gap_and_is_refused_after_the_cap() {
        let sees = |gap| clients_see(&GrantMode::Hold, &DrainSpec::default(), gap, None);
        assert_eq!(sees(Some(300)), "new connections wait about 300 ms (learned gap), at most 2500 ms");
        assert!(sees(Some(2500)).ends_with("at most 2500 ms"));
        assert!(sees(Some(2600)).contains("wait for 2500 ms and are refused then"), "{}", sees(Some(2600)));
        assert!(sees(None).contains("at most 2500 ms, and are refused then"), "{}", sees(None));
    }

    #[test]
    fn what_becomes_of_connections_that_stay_is_the_policys() {
        let sees = |stragglers| {
            let drain = DrainSpec { stragglers, ..DrainSpec::default() };
            clients_see(&GrantMode::Leave, &drain, Some(300), None)
        };
        let begin = "the pod leaves its Services, its connections are waited for up to";
        for (stragglers, end) in [
            (StragglerPolicy::Close, "30 s, then cut off"),
            (StragglerPolicy::Destroy, "30 s, then reset"),
            (StragglerPolicy::Wait, "60 s, then cut off"),
            (StragglerPolicy::Abort, "60 s; if some are open then, the pod stays as it is"),
        ] {
            assert_eq!(sees(stragglers), format!("{begin} {end}"));
        }
        let ports = vec![PortDrain { port: 5432, treat: PortTreatment::Tcp }];
        let pool = |straggler_after_seconds| {
            let drain = DrainSpec { straggler_after_seconds, ports: ports.clone(), ..DrainSpec::default() };
            clients_see(&GrantMode::Leave, &drain, None, None)
        };
        assert_eq!(pool(30), format!("{begin} 30 s (those of a pool about 10 s), then cut off"));
        assert_eq!(pool(20), format!("{begin} 20 s, then cut off"));
        let alone = clients_see(&GrantMode::Leave, &DrainSpec::default(), None, Some("nobody else serves"));
        assert!(alone.ends_with("; nobody else serves"), "{alone}");
    }
}

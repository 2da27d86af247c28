//! Settings of the controller.

use std::net::SocketAddr;
use std::path::PathBuf;

use hitless_api::names::{CONTROLLER, CONTROLLER_PORT};
use hitless_gate::settings::{ImplicitPercent, SkippedKinds};
use hitless_runtime::config::{ConfigError, Settings};
use hitless_runtime::telemetry::Format;
use hitless_workloads::{Component, Components};

/// Settings, read once at start-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `POD_NAME`: names this process in the Lease and in Events.
    pub pod: String,
    /// `HITLESS_LEASE`: name of the Lease in `hitless-system` whose holder leads. All controllers of a cluster need the same.
    pub lease: String,
    /// `HITLESS_LISTEN`: where the health endpoint is.
    pub listen: SocketAddr,
    /// `HITLESS_LOG`: which log lines are written, e.g. `info` or `hitless_controller=debug,info`.
    pub log: String,
    /// `HITLESS_LOG_FORMAT`: `text` or `json`.
    pub log_format: Format,
    /// What holds for all rules. `HITLESS_IMPLICIT_PERCENT`: budget of pods that nothing else limits, 1 to 100 or `off`; default 25.
    /// `SKIP_POD_TRANSITION_RULES`, upstream's name: comma-separated kinds of rules (`availablePolicy`, `labelCheck`, `webhook`) that
    /// are not evaluated.
    pub gate: hitless_gate::Settings,
    /// `HITLESS_COMPONENTS`: comma-separated components of the manifests that are installed, whose kinds of workloads it looks after,
    /// too: `kusionstack`. None by default.
    pub components: Vec<Component>,
    /// `KUBECONFIG`: to run outside a pod; else the pod's service account is used.
    pub kubeconfig: Option<PathBuf>,
}

impl Config {
    /// Reads the settings; the error names the one that is missing or makes no sense.
    pub fn read<F: Fn(&str) -> Option<String>>(settings: &Settings<F>) -> Result<Self, ConfigError> {
        Ok(Self {
            pod: settings.required("POD_NAME")?,
            lease: settings.optional("HITLESS_LEASE").unwrap_or_else(|| CONTROLLER.to_owned()),
            listen: settings.parsed("HITLESS_LISTEN", SocketAddr::from(([0, 0, 0, 0], CONTROLLER_PORT)))?,
            log: settings.optional("HITLESS_LOG").unwrap_or_else(|| "info".to_owned()),
            log_format: settings.parsed("HITLESS_LOG_FORMAT", Format::default())?,
            gate: hitless_gate::Settings {
                implicit: settings.parsed(hitless_gate::Settings::IMPLICIT_PERCENT, ImplicitPercent::default())?.0,
                skipped_kinds: settings.parsed(hitless_gate::Settings::SKIPPED_KINDS, SkippedKinds::default())?.0,
            },
            components: settings.parsed(Components::SETTING, Components::default())?.0,
            kubeconfig: settings.optional("KUBECONFIG").map(PathBuf::from),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_gate::ImplicitBudget;

    #[test]
    fn only_the_pods_name_is_required() {
        let read = |pod: Option<&'static str>| {
            Config::read(&Settings::new(move |name| if name == "POD_NAME" { pod.map(str::to_owned) } else { None }))
        };
        let config = read(Some("p")).unwrap();
        assert_eq!((config.listen.port(), config.lease.as_str()), (CONTROLLER_PORT, CONTROLLER));
        assert_eq!(read(None), Err(ConfigError::Missing("POD_NAME")));
        assert_eq!(config.gate, hitless_gate::Settings::default());
    }

    #[test]
    fn the_gate_is_set_or_refused_by_name() {
        let read = |name: &'static str, value: &'static str| {
            Config::read(&Settings::new(move |wanted| match wanted {
                "POD_NAME" => Some("p".to_owned()),
                wanted => (wanted == name).then(|| value.to_owned()),
            }))
        };
        assert_eq!(read("HITLESS_IMPLICIT_PERCENT", "off").unwrap().gate.implicit, None);
        assert_eq!(read("HITLESS_IMPLICIT_PERCENT", "50").unwrap().gate.implicit, Some(ImplicitBudget { percent: 50 }));
        let skipped = read("SKIP_POD_TRANSITION_RULES", "webhook, labelCheck").unwrap().gate.skipped_kinds;
        assert_eq!(skipped.into_iter().collect::<Vec<_>>(), ["labelCheck", "webhook"]);
        for (name, value) in [
            ("HITLESS_IMPLICIT_PERCENT", "0"),
            ("HITLESS_IMPLICIT_PERCENT", "many"),
            ("SKIP_POD_TRANSITION_RULES", "webhooks"),
        ] {
            let error = read(name, value).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}

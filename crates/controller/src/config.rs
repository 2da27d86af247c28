//! Settings of the controller.

use std::net::SocketAddr;
use std::path::PathBuf;

use hitless_api::names::{CONTROLLER, CONTROLLER_PORT};
use hitless_runtime::config::{ConfigError, Settings};
use hitless_runtime::telemetry::Format;

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
            kubeconfig: settings.optional("KUBECONFIG").map(PathBuf::from),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pods_name_is_required() {
        let read = |pod: Option<&'static str>| {
            Config::read(&Settings::new(move |name| if name == "POD_NAME" { pod.map(str::to_owned) } else { None }))
        };
        let config = read(Some("p")).unwrap();
        assert_eq!((config.listen.port(), config.lease.as_str()), (CONTROLLER_PORT, CONTROLLER));
        assert_eq!(read(None), Err(ConfigError::Missing("POD_NAME")));
    }
}

//! Settings of the agent.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use hitless_api::names::AGENT_PORT;
use hitless_runtime::config::{ConfigError, Settings};
use hitless_runtime::prefix::{Prefix, Prefixes};
use hitless_runtime::telemetry::Format;

/// Where the unix socket is, unless it is said.
const SOCKET: &str = "/run/hitless/agent.sock";

/// Where `manifests/exec-hooks` mounts the node's control groups. Not over the agent's own, which are always there: whether
/// commands can be run is told by this.
const CGROUP: &str = "/host/sys/fs/cgroup";

/// Settings, read once at start-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `NODE_NAME`: the node this agent serves.
    pub node: String,
    /// `HITLESS_LISTEN`: where the HTTP endpoint is.
    pub listen: SocketAddr,
    /// `HITLESS_SOCKET`: where the unix socket is; set to nothing, there is none.
    pub socket: Option<PathBuf>,
    /// `HITLESS_TRUSTED`: addresses and prefixes that see at the endpoint what the node sees.
    pub trusted: Vec<Prefix>,
    /// `HITLESS_LOG`: which log lines are written, e.g. `info` or `hitless_agent=debug,info`.
    pub log: String,
    /// `HITLESS_LOG_FORMAT`: `text` or `json`.
    pub log_format: Format,
    /// `HITLESS_PROC`: the `/proc` of the node's process namespace.
    pub proc_root: PathBuf,
    /// `HITLESS_CGROUP`: the node's `/sys/fs/cgroup`, writable; only hooks that run commands need it.
    pub cgroup_root: PathBuf,
}

impl Config {
    /// Reads the settings; the error names the one that is missing or makes no sense.
    pub fn read<F: Fn(&str) -> Option<String>>(settings: &Settings<F>) -> Result<Self, ConfigError> {
        Ok(Self {
            node: settings.required("NODE_NAME")?,
            listen: settings.parsed("HITLESS_LISTEN", SocketAddr::from((Ipv6Addr::UNSPECIFIED, AGENT_PORT)))?,
            socket: settings.or_off("HITLESS_SOCKET", SOCKET).map(PathBuf::from),
            trusted: settings.parsed("HITLESS_TRUSTED", Prefixes::default())?.0,
            log: settings.optional("HITLESS_LOG").unwrap_or_else(|| "info".to_owned()),
            log_format: settings.parsed("HITLESS_LOG_FORMAT", Format::default())?,
            proc_root: settings.parsed("HITLESS_PROC", PathBuf::from("/proc"))?,
            cgroup_root: settings.parsed("HITLESS_CGROUP", PathBuf::from(CGROUP))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_nodes_name_is_required() {
        let read = |node: Option<&'static str>, listen: Option<&'static str>| {
            Config::read(&Settings::new(move |name| match name {
                "NODE_NAME" => node.map(str::to_owned),
                "HITLESS_LISTEN" => listen.map(str::to_owned),
                _ => None,
            }))
        };
        assert_eq!(read(Some("n1"), None).unwrap().listen.port(), AGENT_PORT);
        assert_eq!(read(None, None), Err(ConfigError::Missing("NODE_NAME")));
        let error = read(Some("n1"), Some("9754")).unwrap_err().to_string();
        assert!(error.contains("HITLESS_LISTEN"), "{error}");
    }
}

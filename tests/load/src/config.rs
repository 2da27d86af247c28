//! What the load client is asked to do, and the limits it keeps whatever it is asked.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Most requests per second, fresh and keep-alive together.
pub const MAX_PER_SECOND: u32 = 2_000;
/// Longest run; together with [`MAX_PER_SECOND`] it bounds a run to 43 million requests.
pub const MAX_DURATION: Duration = Duration::from_hours(6);
/// Most kept-alive connections.
pub const MAX_CONNECTIONS: u32 = 1_000;
/// Most requests that may wait at once when nothing answers (rate × timeout).
pub const MAX_OUTSTANDING: u64 = 20_000;
/// Most targets.
pub const MAX_TARGETS: usize = 256;

const MAX_PATH_BYTES: usize = 1_024;
const MAX_DELAY: Duration = Duration::from_mins(1);

/// One load run. [`LoadConfig::new`] fills in everything but the targets.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// Where to send requests: fresh ones in turn, kept-alive connections spread evenly. Private or loopback only.
    pub targets: Vec<SocketAddr>,
    /// Requests per second that each open a connection of their own; 0 for none.
    pub fresh_per_second: u32,
    /// How many connections are kept alive; 0 for none.
    pub keepalive_connections: u32,
    /// Requests per second over all kept-alive connections together.
    pub keepalive_per_second: u32,
    /// How long the server is asked to take (`?d=`); zero asks for nothing.
    pub server_delay: Duration,
    /// From the moment a request is due until its last byte is here: connecting, waiting and a retry are all inside.
    pub timeout: Duration,
    /// Absolute path to ask for, with or without a query.
    pub path: String,
    /// The run ends by itself after this long.
    pub duration: Duration,
}

/// Why a run was refused. Nothing has been sent.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// No target at all, or more than [`MAX_TARGETS`].
    #[error("{0} targets given: give between 1 and {MAX_TARGETS} addresses such as 10.96.0.17:80")]
    Targets(usize),
    /// The address is not loopback, RFC 1918 or RFC 4193, or its port is 0.
    #[error(
        "refusing to send load to {0}: only loopback and private addresses (10/8, 172.16/12, 192.168/16, fc00::/7) with a port are allowed"
    )]
    NotPrivate(SocketAddr),
    /// Nothing to send.
    #[error("nothing to send: set a rate of fresh requests, or a rate and a number of kept-alive connections")]
    NothingToSend,
    /// A keep-alive rate without connections or connections without a rate.
    #[error("{connections} kept-alive connections with {per_second} requests per second: set both or neither")]
    HalfKeepalive {
        /// Connections asked for.
        connections: u32,
        /// Requests per second asked for.
        per_second: u32,
    },
    /// A number is outside its limits.
    #[error("{what} is {value}, outside {limits}")]
    OutOfBounds {
        /// The setting.
        what: &'static str,
        /// What was asked.
        value: String,
        /// What is allowed.
        limits: String,
    },
    /// The path could not stand in a request line.
    #[error(
        "path {0:?} must begin with '/' and hold at most {MAX_PATH_BYTES} printable ASCII characters, no spaces and no '#'"
    )]
    Path(String),
}

impl LoadConfig {
    /// The load this project's figures are given for: 100 fresh and 100 keep-alive requests per second, the latter on
    /// 10 connections, no delay, 5 s timeout, path `/`, at most [`MAX_DURATION`].
    #[must_use]
    pub fn new(targets: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self {
            targets: targets.into_iter().collect(),
            fresh_per_second: 100,
            keepalive_connections: 10,
            keepalive_per_second: 100,
            server_delay: Duration::ZERO,
            timeout: Duration::from_secs(5),
            path: "/".to_owned(),
            duration: MAX_DURATION,
        }
    }

    /// Checks every limit.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.targets.is_empty() || self.targets.len() > MAX_TARGETS {
            return Err(ConfigError::Targets(self.targets.len()));
        }
        if let Some(target) = self.targets.iter().find(|target| !may_be_loaded(**target)) {
            return Err(ConfigError::NotPrivate(*target));
        }
        self.validate_rates()?;
        within("the timeout", self.timeout, Duration::from_millis(1), Duration::from_mins(1))?;
        within("the duration", self.duration, Duration::from_millis(1), MAX_DURATION)?;
        within("the server delay", self.server_delay, Duration::ZERO, MAX_DELAY)?;
        let printable = self.path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !self.path.starts_with('/') || self.path.len() > MAX_PATH_BYTES || !printable {
            return Err(ConfigError::Path(self.path.clone()));
        }
        Ok(())
    }

    fn validate_rates(&self) -> Result<(), ConfigError> {
        let (connections, per_second) = (self.keepalive_connections, self.keepalive_per_second);
        if (connections == 0) != (per_second == 0) {
            return Err(ConfigError::HalfKeepalive { connections, per_second });
        }
        let total = self.fresh_per_second.saturating_add(per_second);
        if total == 0 {
            return Err(ConfigError::NothingToSend);
        }
        within("the number of requests per second", total, 1, MAX_PER_SECOND)?;
        within("the number of kept-alive connections", connections, 0, MAX_CONNECTIONS)?;
        let waiting = u128::from(total) * self.timeout.as_millis() / 1_000;
        within("rate × timeout", waiting, 0, u128::from(MAX_OUTSTANDING))
    }

    /// Path and query of each request.
    pub(crate) fn request_target(&self) -> String {
        if self.server_delay.is_zero() {
            return self.path.clone();
        }
        let separator = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{separator}d={}", self.path, self.server_delay.as_millis())
    }
}

/// Load is aimed at what is ours: this machine and private networks. Link-local is left out because cloud metadata
/// services live there.
fn may_be_loaded(target: SocketAddr) -> bool {
    let private = match target.ip().to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_private(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local(),
    };
    private && target.port() != 0
}

fn within<T: Copy + PartialOrd + std::fmt::Debug>(
    what: &'static str,
    value: T,
    from: T,
    to: T,
) -> Result<(), ConfigError> {
    if value >= from && value <= to {
        return Ok(());
    }
    Err(ConfigError::OutOfBounds { what, value: format!("{value:?}"), limits: format!("{from:?} to {to:?}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(target: &str) -> LoadConfig {
        LoadConfig::new([target.parse().unwrap()])
    }

    #[test]
    fn private_and_loopback_targets_are_accepted() {
        for target in ["127.0.0.1:80", "10.96.0.1:80", "172.31.255.1:1", "192.168.1.1:80", "[::1]:80", "[fd00::1]:80"] {
            assert_eq!(config(target).validate(), Ok(()), "{target}");
        }
    }

    #[test]
    fn public_link_local_and_mapped_targets_are_refused() {
        for target in [
            "8.8.8.8:80",
            "169.254.169.254:80",
            "172.32.0.1:80",
            "[2001:db8::1]:80",
            "[::ffff:8.8.8.8]:80",
            "10.0.0.1:0",
        ] {
            let refused = config(target).validate().unwrap_err();
            assert_eq!(refused, ConfigError::NotPrivate(target.parse().unwrap()));
        }
    }

    #[test]
    fn every_bound_is_kept() {
        let good = config("10.0.0.1:80");
        let bad: [fn(&mut LoadConfig); 9] = [
            |c| c.targets.clear(),
            |c| c.fresh_per_second = MAX_PER_SECOND,
            |c| c.keepalive_connections = 0,
            |c| c.keepalive_connections = MAX_CONNECTIONS + 1,
            |c| c.duration = MAX_DURATION + Duration::from_secs(1),
            |c| c.timeout = Duration::ZERO,
            |c| c.server_delay = Duration::from_mins(2),
            |c| (c.fresh_per_second, c.timeout) = (1_000, Duration::from_mins(1)),
            |c| (c.fresh_per_second, c.keepalive_connections, c.keepalive_per_second) = (0, 0, 0),
        ];
        for (index, spoil) in bad.iter().enumerate() {
            let mut config = good.clone();
            spoil(&mut config);
            assert!(config.validate().is_err(), "case {index}");
        }
        assert_eq!(good.validate(), Ok(()));
    }

    #[test]
    fn a_path_cannot_smuggle_a_second_request() {
        for path in ["", "x", "/a b", "/a\r\nHost: b", "/é", "/#x"] {
            let config = LoadConfig { path: path.to_owned(), ..config("10.0.0.1:80") };
            assert_eq!(config.validate(), Err(ConfigError::Path(path.to_owned())));
        }
    }

    #[test]
    fn the_delay_joins_the_query() {
        let mut config = config("10.0.0.1:80");
        assert_eq!(config.request_target(), "/");
        config.server_delay = Duration::from_millis(20);
        assert_eq!(config.request_target(), "/?d=20");
        config.path = "/a?b=c".to_owned();
        assert_eq!(config.request_target(), "/a?b=c&d=20");
    }
}

//! Where a runtime API listens: `unix:/path` or `tcp://host:port`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a runtime API listens. TCP has neither encryption nor a password: whoever reaches the port controls HAProxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A unix socket, by its absolute path.
    Unix(PathBuf),
    /// Host and port, such as `10.0.0.9:9999` or `[fd00::9]:9999`.
    Tcp(String),
}

/// Why an endpoint is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no address of a HAProxy runtime API ({why}): write unix:/path or tcp://host:port")]
pub struct EndpointError {
    given: String,
    why: &'static str,
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(given: &str) -> Result<Self, EndpointError> {
        let refused = |why| EndpointError { given: given.to_owned(), why };
        if let Some(path) = given.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() { Ok(Self::Unix(path)) } else { Err(refused("the path is not absolute")) };
        }
        let Some(authority) = given.strip_prefix("tcp://") else { return Err(refused("neither unix: nor tcp://")) };
        let Some((host, port)) = authority.rsplit_once(':') else { return Err(refused("no port")) };
        if port.parse::<u16>().map_or(true, |port| port == 0) {
            return Err(refused("the port is not a number from 1 to 65535"));
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let good = match bare {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte)),
        };
        if good { Ok(Self::Tcp(authority.to_owned())) } else { Err(refused("no host before the port")) }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(authority) => write!(f, "tcp://{authority}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_and_tcp_are_read_and_written_the_same() {
        for given in
            ["unix:/run/haproxy/admin.sock", "tcp://10.0.0.9:9999", "tcp://lb.shop.svc:9999", "tcp://[fd00::9]:1"]
        {
            assert_eq!(given.parse::<Endpoint>().map(|endpoint| endpoint.to_string()), Ok(given.to_owned()));
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_to_write() {
        for given in [
            "",
            "unix:admin.sock",
            "/run/a.sock",
            "http://lb:80",
            "tcp://lb",
            "tcp://:80",
            "tcp://lb:0",
            "tcp://a b:1",
            "tcp://fd00::9:1",
        ] {
            let refused = given.parse::<Endpoint>().unwrap_err().to_string();
            assert!(refused.contains("write unix:/path or tcp://host:port"), "{refused}");
        }
    }
}

//! Names of pools and servers, and the mark by which our servers are known.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Longest name, in bytes.
const LONGEST_NAME: usize = 255;
/// Longest mark, in bytes.
const LONGEST_MARK: usize = 63;
/// Between the parts of a server's name. A mark can't have it, and no address has it.
const BETWEEN: char = '_';

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Of a pool or a server.
    #[error("{0:?} is no name of a pool or server: use 1 to 255 letters, digits, dots, colons, dashes and underscores")]
    Name(String),
    /// Of whoever registers servers.
    #[error("{0:?} is no mark: use 1 to 63 letters, digits, dots and dashes")]
    Mark(String),
}

/// Characters that HAProxy takes in names (`invalid_char` in its sources). They end no command and no word of one.
fn valid(name: &str) -> bool {
    let character = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(character)
}

/// A backend or server group, as the provider calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolName(String);

impl PoolName {
    /// Takes a name that is safe in commands and addresses.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidName> {
        let name = name.into();
        if valid(&name) { Ok(Self(name)) } else { Err(InvalidName::Name(name)) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A server in a pool, as the provider calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(String);

impl ServerName {
    /// Takes a name that is safe in commands.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidName> {
        let name = name.into();
        if valid(&name) { Ok(Self(name)) } else { Err(InvalidName::Name(name)) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who registers: the beginning of all names of our servers, such as `hitless`. Two clusters that share a pool need two marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// Takes a mark that can be told from the rest of a name.
    pub fn new(mark: impl Into<String>) -> Result<Self, InvalidName> {
        let mark = mark.into();
        if mark.len() <= LONGEST_MARK && valid(&mark) && !mark.contains([BETWEEN, ':']) {
            Ok(Self(mark))
        } else {
            Err(InvalidName::Mark(mark))
        }
    }

    /// Our name for the server with this address, such as `hitless_10.1.2.3_8080`. An address has one name, so no server can be
    /// registered twice.
    #[must_use]
    pub fn name_of(&self, address: SocketAddr) -> ServerName {
        ServerName(format!("{}{BETWEEN}{}{BETWEEN}{}", self.0, address.ip(), address.port()))
    }

    /// The address in a name that [`Self::name_of`] has made; of all other names nothing.
    #[must_use]
    pub fn address_of(&self, name: &ServerName) -> Option<SocketAddr> {
        let rest = name.0.strip_prefix(&self.0)?.strip_prefix(BETWEEN)?;
        let (ip, port) = rest.rsplit_once(BETWEEN)?;
        let address = SocketAddr::new(ip.parse::<IpAddr>().ok()?, port.parse().ok()?);
        // An address can be written in several ways; we use one.
        (self.name_of(address) == *name).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        Mark::new("hitless").unwrap()
    }

    #[test]
    fn a_name_says_the_address_of_both_families() {
        for (address, name) in [("10.1.2.3:8080", "hitless_10.1.2.3_8080"), ("[fd00::1]:80", "hitless_fd00::1_80")] {
            let address = address.parse().unwrap();
            assert_eq!(mark().name_of(address).as_str(), name);
            assert_eq!(mark().address_of(&ServerName::new(name).unwrap()), Some(address));
        }
    }

    #[test]
    fn names_that_others_could_have_given_are_not_ours() {
        for name in [
            "hitless",
            "hitless_web",
            "hitless_web_80",
            "hitless-b_10.1.2.3_80",
            "hitless_10.1.2.3_080",
            "hitless_fd00:0::1_80",
            "hitless_10.1.2.3_99999",
            "web_10.1.2.3_80",
        ] {
            assert_eq!(mark().address_of(&ServerName::new(name).unwrap()), None, "{name}");
        }
    }

    #[test]
    fn a_name_that_would_end_a_command_is_refused() {
        for name in ["", "a b", "a;b", "a\nb", "a/b", "ä", &"a".repeat(256)] {
            assert!(PoolName::new(name).is_err(), "{name:?}");
            assert!(ServerName::new(name).is_err(), "{name:?}");
        }
        for mark in ["", "a_b", "a:b", "a b", &"a".repeat(64)] {
            assert!(Mark::new(mark).is_err(), "{mark:?}");
        }
    }
}

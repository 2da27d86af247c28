//! Addresses in settings.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses that begin alike, e.g. `10.0.0.0/8`; one address alone is `192.0.2.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u32,
}

impl Prefix {
    /// Whether the address is one of them.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros() >= self.length,
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros() >= self.length,
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A text that is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address and no prefix; write e.g. 192.0.2.7 or 10.0.0.0/8, several separated by commas")]
pub struct InvalidPrefix(String);

impl FromStr for Prefix {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        let invalid = || InvalidPrefix(text.to_owned());
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(whole), |length| length.parse().map_err(|_| invalid()))?;
        if length <= whole { Ok(Self { address, length }) } else { Err(invalid()) }
    }
}

/// Prefixes separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes(pub Vec<Prefix>);

impl FromStr for Prefixes {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        text.split(',').map(|prefix| prefix.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_that_makes_no_sense_is_refused_in_words() {
        for text in ["", "10.0.0.0/33", "fd00::/129", "10.0.0.0/", "node-1", "10.0.0.1,"] {
            let error = text.parse::<Prefixes>().unwrap_err().to_string();
            assert!(error.contains("no address"), "{error}");
        }
    }

    #[test]
    fn a_prefix_holds_the_addresses_that_begin_like_it() {
        let holds = |prefix: &str, address: &str| prefix.parse::<Prefix>().unwrap().holds(address.parse().unwrap());
        assert!(holds("10.0.0.0/8", "10.255.0.1") && !holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("192.0.2.7", "192.0.2.7") && !holds("192.0.2.7", "192.0.2.8"));
        assert!(holds("fd00::/8", "fd12::1") && !holds("fd00::/8", "fe00::1"));
        assert!(holds("0.0.0.0/0", "192.0.2.7") && !holds("0.0.0.0/0", "::1"), "of one family only");
    }
}

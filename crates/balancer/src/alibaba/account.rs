//! As whom the APIs are called, in which region, and how patiently.

use std::fmt;
use std::time::Duration;

use hitless_runtime::backoff::Backoff;

use super::sign::Credentials;

/// Longest id of a region or a VPC, in bytes.
const LONGEST: usize = 64;

/// Why an API can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Not an address.
    #[error("{0:?} is no address of an API: write https://host")]
    Address(String),
    /// Not the id of a region.
    #[error("{0:?} is no region: write its id, such as cn-hangzhou")]
    Region(String),
    /// Not the id of a VPC.
    #[error("{0:?} is no VPC: write its id, such as vpc-bp1j7w3gc1cexjqd")]
    Vpc(String),
    /// TLS can't be set up.
    #[error("TLS for the API can't be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// A region, such as `cn-hangzhou`. It is a part of the APIs' addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region(String);

impl Region {
    /// Takes lower-case letters and digits, in two parts or more between dashes.
    pub fn new(id: impl Into<String>) -> Result<Self, ApiError> {
        let id = id.into();
        let parts = id.split('-').count();
        if parts >= 2 && is_id(&id) { Ok(Self(id)) } else { Err(ApiError::Region(id)) }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A VPC, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vpc(String);

impl Vpc {
    /// Takes `vpc-` and what follows.
    pub fn new(id: impl Into<String>) -> Result<Self, ApiError> {
        let id = id.into();
        if id.starts_with("vpc-") && is_id(&id) { Ok(Self(id)) } else { Err(ApiError::Vpc(id)) }
    }
}

impl fmt::Display for Vpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Begins with a letter, and has no empty part between dashes.
fn is_id(id: &str) -> bool {
    let part =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    id.len() <= LONGEST && id.starts_with(|first: char| first.is_ascii_lowercase()) && id.split('-').all(part)
}

/// How often a call is repeated, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    /// Between two attempts.
    pub pause: Backoff,
    /// Most attempts of one call.
    pub attempts: u32,
    /// For all attempts of one call together.
    pub limit: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        let pause = Backoff::new(Duration::from_millis(500), Duration::from_secs(8));
        Self { pause, attempts: 5, limit: Duration::from_secs(30) }
    }
}

/// As whom the APIs of a region are called.
#[derive(Clone, Debug)]
pub struct Account {
    pub(super) region: Region,
    pub(super) credentials: Credentials,
    pub(super) retries: Retries,
    /// Of all APIs, instead of the public ones.
    pub(super) address: Option<String>,
}

impl Account {
    /// With this access key, at the public APIs of the region.
    #[must_use]
    pub fn new(region: Region, credentials: Credentials) -> Self {
        Self { region, credentials, retries: Retries::default(), address: None }
    }

    /// All APIs are at `https://host`, or at `http://host:port`: a proxy or a test.
    #[must_use]
    pub fn at(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// With other limits of repetition.
    #[must_use]
    pub const fn with_retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_of_regions_are_taken() {
        for region in ["cn-hangzhou", "ap-southeast-1", "cn-shanghai-finance-1"] {
            assert_eq!(Region::new(region).unwrap().to_string(), region);
        }
        let long = format!("cn-{}", "a".repeat(62));
        for region in
            ["", "cn", "cn-", "-hangzhou", "cn--hangzhou", "CN-hangzhou", "cn-hang.zhou", "cn-a/b", "1-a", &long]
        {
            let error = Region::new(region).unwrap_err().to_string();
            assert!(error.contains("such as cn-hangzhou"), "{error}");
        }
    }

    #[test]
    fn only_ids_of_vpcs_are_taken() {
        assert_eq!(Vpc::new("vpc-bp1").unwrap().to_string(), "vpc-bp1");
        for vpc in ["", "vpc", "vpc-", "vsw-bp1", "vpc-a&b"] {
            assert!(matches!(Vpc::new(vpc), Err(ApiError::Vpc(_))), "{vpc:?}");
        }
    }
}

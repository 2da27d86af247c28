//! One call of the API: signed, bounded, and repeated while the API is throttled or in trouble.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hitless_runtime::backoff::{Backoff, shortened};
use hitless_runtime::http_client::{self, Body, RequestError, Tls};
use http::{Request, Uri};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::ServerName as TlsName;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{sleep, timeout};

use crate::{PoolName, ProviderError, ServerName};

use super::answer::Refusal;
use super::sign::{self, Credentials, Unsigned};

const VERSION: &str = "2022-04-30";
const FORM: &str = "application/x-www-form-urlencoded";
/// Longest answer, in bytes: a page of 100 servers has some 30,000.
const LONGEST: usize = 1 << 20;
/// What RFC 3986 leaves as it is, besides letters and digits.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Where the API is, and as whom it is called.
#[derive(Clone, Debug)]
pub struct Api {
    host: String,
    port: u16,
    /// As the API sees it; without a port that is the scheme's own.
    authority: String,
    tls: Option<Arc<ClientConfig>>,
    credentials: Credentials,
    retries: Retries,
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

/// Why an API can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Not an address.
    #[error("{0:?} is no address of an API: write https://host")]
    Address(String),
    /// TLS can't be set up.
    #[error("TLS for the API can't be set up: {0}")]
    Tls(#[from] rustls::Error),
}

impl Api {
    /// The public API of a region, such as `cn-hangzhou`.
    pub fn of_region(region: &str, credentials: Credentials) -> Result<Self, ApiError> {
        Self::at(&format!("https://nlb.{region}.aliyuncs.com"), credentials)
    }

    /// An API at `https://host`, or at `http://host:port` for a proxy or a test.
    pub fn at(address: &str, credentials: Credentials) -> Result<Self, ApiError> {
        let refused = || ApiError::Address(address.to_owned());
        let uri: Uri = address.parse().map_err(|_| refused())?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(refused()) };
        if uri.path() != "/" || uri.query().is_some() {
            return Err(refused());
        }
        let (tls, port) = match scheme {
            "https" => (Some(trust()?), 443),
            "http" => (None, 80),
            _ => return Err(refused()),
        };
        let port = authority.port_u16().unwrap_or(port);
        let host = authority.host().to_owned();
        Ok(Self { host, port, authority: authority.to_string(), tls, credentials, retries: Retries::default() })
    }

    /// With other limits of repetition.
    #[must_use]
    pub const fn with_retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// Calls until there is an answer, a refusal that stays, or a limit of repetition.
    pub(super) async fn call(&self, operation: &Operation) -> Result<Vec<u8>, ProviderError> {
        match timeout(self.retries.limit, self.attempts(operation)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ProviderError::TimedOut {
                endpoint: self.authority.clone(),
                request: operation.action.to_owned(),
                limit: self.retries.limit,
            }),
        }
    }

    async fn attempts(&self, operation: &Operation) -> Result<Vec<u8>, ProviderError> {
        let mut failures = 0;
        loop {
            let (status, answer) = self.attempt(operation).await?;
            if (200..300).contains(&status) {
                return Ok(answer);
            }
            failures += 1;
            let refusal = Refusal::read(&answer);
            if !refusal.passes(status) || failures >= self.retries.attempts {
                return Err(refusal.error(operation));
            }
            sleep(shortened(self.retries.pause.delay(failures))).await;
        }
    }

    /// Each attempt has a date, a nonce and so a signature of its own. The client token stays.
    async fn attempt(&self, operation: &Operation) -> Result<(u16, Vec<u8>), ProviderError> {
        let request = self.request(operation).map_err(|error| operation.unexpected(error.to_string()))?;
        let unreachable = |source| ProviderError::Unreachable { endpoint: self.authority.clone(), source };
        let addresses = tokio::net::lookup_host((self.host.trim_matches(['[', ']']), self.port)).await;
        let addresses: Vec<SocketAddr> = addresses.map_err(unreachable)?.collect();
        let away = |error: RequestError| unreachable(std::io::Error::other(error));
        let answer = http_client::send(&addresses, self.tls()?, request).await.map_err(away)?;
        let status = answer.status().as_u16();
        match answer.body(LONGEST).await.map_err(away)? {
            (body, false) => Ok((status, body)),
            (_, true) => Err(ProviderError::TooLong { request: operation.action.to_owned(), limit: LONGEST }),
        }
    }

    fn request(&self, operation: &Operation) -> http::Result<Request<Body>> {
        let form = operation.form();
        let unsigned = Unsigned {
            host: &self.authority,
            action: operation.action,
            version: VERSION,
            query: "",
            body: Some((FORM, form.as_bytes())),
            now: Timestamp::now(),
            nonce: &sign::nonce(),
        };
        let mut request = Request::post("/");
        for (name, value) in sign::header_fields(&self.credentials, &unsigned) {
            request = request.header(name, value);
        }
        request.header("accept", "application/json").body(Body::from(form))
    }

    fn tls(&self) -> Result<Option<Tls>, ProviderError> {
        let Some(config) = &self.tls else { return Ok(None) };
        let name = TlsName::try_from(self.host.clone()).map_err(|error| ProviderError::Unreachable {
            endpoint: self.authority.clone(),
            source: std::io::Error::other(error),
        })?;
        Ok(Some(Tls { config: Arc::clone(config), name }))
    }
}

fn trust() -> Result<Arc<ClientConfig>, ApiError> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    Ok(Arc::new(http_client::tls()?.with_root_certificates(roots).with_no_client_auth()))
}

/// An action and its parameters.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) action: &'static str,
    pub(super) pool: PoolName,
    /// Which server it is about, for errors.
    pub(super) server: Option<ServerName>,
    parameters: Vec<(&'static str, String)>,
}

impl Operation {
    pub(super) fn new(action: &'static str, pool: &PoolName) -> Self {
        let parameters = vec![("ServerGroupId", pool.to_string())];
        Self { action, pool: pool.clone(), server: None, parameters }
    }

    pub(super) fn about(mut self, server: &ServerName) -> Self {
        self.server = Some(server.clone());
        self
    }

    pub(super) fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.parameters.push((name, value.to_string()));
        self
    }

    pub(super) fn unexpected(&self, why: String) -> ProviderError {
        ProviderError::Unexpected { request: self.action.to_owned(), why }
    }

    fn form(&self) -> String {
        let encoded = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
        let pair = |(name, value): &(&str, String)| format!("{}={}", encoded(name), encoded(value));
        self.parameters.iter().map(pair).collect::<Vec<_>>().join("&")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_encoded_as_rfc_3986_says() {
        let operation = Operation::new("A", &PoolName::new("sgp-1").unwrap()).with("Servers.1.Weight", "a b*~/+ü");
        assert_eq!(operation.form(), "ServerGroupId=sgp-1&Servers.1.Weight=a%20b%2A~%2F%2B%C3%BC");
    }

    #[test]
    fn only_addresses_of_apis_are_taken() {
        let at = |address| Api::at(address, Credentials::new("id", "secret"));
        assert!(at("https://nlb.cn-hangzhou.aliyuncs.com").is_ok_and(|api| api.port == 443 && api.tls.is_some()));
        assert!(at("http://127.0.0.1:8080").is_ok_and(|api| api.port == 8080 && api.tls.is_none()));
        for address in ["", "nlb", "ftp://nlb", "https://nlb/path", "https://nlb/?a=b"] {
            assert!(matches!(at(address), Err(ApiError::Address(_))), "{address:?}");
        }
    }
}

//! One call of the API: signed, bounded, and repeated while the API is throttled or in trouble.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use hitless_runtime::backoff::shortened;
use hitless_runtime::http_client::{self, Body, RequestError, Tls};
use http::{Request, Uri};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::ServerName as TlsName;
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::{PoolName, ProviderError, ServerName};

use super::account::{Account, ApiError, Region};
use super::refusal::Refusal;
use super::service::{Placement, Service};
use super::sign::{self, Unsigned};

const FORM: &str = "application/x-www-form-urlencoded";
/// Longest answer, in bytes: a page of 100 servers has some 30,000.
const LONGEST: usize = 1 << 20;
/// Most entries on a page.
const PAGE: usize = 100;
/// Most pages; a server group has 1,000 servers at most.
const MOST_PAGES: usize = 50;
/// What RFC 3986 leaves as it is, besides letters and digits.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Where an API is, and as whom it is called.
#[derive(Clone, Debug)]
pub(super) struct Api {
    service: Service,
    account: Arc<Account>,
    host: String,
    port: u16,
    /// As the API sees it; without a port that is the scheme's own.
    authority: String,
    tls: Option<Arc<ClientConfig>>,
}

/// A page of a listing.
pub(super) trait Page: DeserializeOwned {
    /// Where the next page begins, if there is one.
    fn next_token(&self) -> Option<&str>;
}

impl Api {
    /// An API of the account's region.
    pub(super) fn new(service: Service, account: &Arc<Account>) -> Result<Self, ApiError> {
        let public = || format!("https://{}", service.host(&account.region));
        Self::at(&account.address.clone().unwrap_or_else(public), service, account)
    }

    fn at(address: &str, service: Service, account: &Arc<Account>) -> Result<Self, ApiError> {
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
        let authority = authority.to_string();
        Ok(Self { service, account: Arc::clone(account), host, port, authority, tls })
    }

    /// The account's region, for operations that have it among their parameters.
    pub(super) fn region(&self) -> &Region {
        &self.account.region
    }

    /// All pages of a listing, one after the other.
    pub(super) async fn pages<P: Page>(&self, operation: &Operation) -> Result<Vec<P>, ProviderError> {
        let mut pages: Vec<P> = Vec::new();
        while pages.len() < MOST_PAGES {
            let mut next = operation.clone().with("MaxResults", PAGE);
            if let Some(token) = pages.last().and_then(Page::next_token) {
                next = next.with("NextToken", token);
            }
            let page: P = self.read(&next).await?;
            let is_last = page.next_token().is_none();
            pages.push(page);
            if is_last {
                return Ok(pages);
            }
        }
        Err(operation.unexpected(format!("it has more than {MOST_PAGES} pages")))
    }

    /// Calls, and reads the answer.
    pub(super) async fn read<A: DeserializeOwned>(&self, operation: &Operation) -> Result<A, ProviderError> {
        operation.answer(&self.call(operation).await?)
    }

    /// Calls until there is an answer, a refusal that stays, or a limit of repetition.
    pub(super) async fn call(&self, operation: &Operation) -> Result<Vec<u8>, ProviderError> {
        match timeout(self.account.retries.limit, self.attempts(operation)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ProviderError::TimedOut {
                endpoint: self.authority.clone(),
                request: operation.action.to_owned(),
                limit: self.account.retries.limit,
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
            if !refusal.passes(status) || failures >= self.account.retries.attempts {
                return Err(refusal.error(self.service, operation));
            }
            sleep(shortened(self.account.retries.pause.delay(failures))).await;
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
        let parameters = operation.parameters();
        let (query, body) = match self.service.placement() {
            Placement::Query => (parameters.as_str(), None),
            Placement::Form => ("", Some((FORM, parameters.as_bytes()))),
        };
        let unsigned = Unsigned {
            host: &self.authority,
            action: operation.action,
            version: self.service.version(),
            query,
            body,
            now: Timestamp::now(),
            nonce: &sign::nonce(),
        };
        let path = if query.is_empty() { "/".to_owned() } else { format!("/?{query}") };
        let mut request = Request::post(path);
        for (name, value) in sign::header_fields(&self.account.credentials, &unsigned) {
            request = request.header(name, value);
        }
        let body = body.map(|(_, body)| body.to_vec()).unwrap_or_default();
        request.header("accept", "application/json").body(Body::from(body))
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
        Self { action, pool: pool.clone(), server: None, parameters: Vec::new() }
    }

    pub(super) fn about(mut self, server: &ServerName) -> Self {
        self.server = Some(server.clone());
        self
    }

    pub(super) fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.parameters.push((name, value.to_string()));
        self
    }

    /// What an answer says.
    pub(super) fn answer<A: DeserializeOwned>(&self, answer: &[u8]) -> Result<A, ProviderError> {
        serde_json::from_slice(answer).map_err(|error| self.unexpected(error.to_string()))
    }

    pub(super) fn unexpected(&self, why: String) -> ProviderError {
        ProviderError::Unexpected { request: self.action.to_owned(), why }
    }

    /// Sorted, as signatures need them, and encoded.
    fn parameters(&self) -> String {
        let encoded = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
        let mut sorted: Vec<&(&str, String)> = self.parameters.iter().collect();
        sorted.sort_unstable();
        let pair = |(name, value): &(&str, String)| format!("{}={}", encoded(name), encoded(value));
        sorted.into_iter().map(pair).collect::<Vec<_>>().join("&")
    }
}

#[cfg(test)]
mod tests {
    use super::super::sign::Credentials;
    use super::*;

    fn account() -> Account {
        Account::new(Region::new("cn-hangzhou").unwrap(), Credentials::new("id", "secret"))
    }

    #[test]
    fn parameters_are_sorted_and_encoded_as_rfc_3986_says() {
        let operation = Operation::new("A", &PoolName::new("sgp-1").unwrap());
        let operation = operation.with("Servers.1.Weight", "a b*~/+ü").with("ServerGroupId", "sgp-1").with("A.2", 1);
        assert_eq!(operation.parameters(), "A.2=1&ServerGroupId=sgp-1&Servers.1.Weight=a%20b%2A~%2F%2B%C3%BC");
    }

    #[test]
    fn without_an_address_the_public_api_is_called() {
        let api = Api::new(Service::Alb, &Arc::new(account())).unwrap();
        assert_eq!((api.authority.as_str(), api.port, api.tls.is_some()), ("alb.cn-hangzhou.aliyuncs.com", 443, true));
    }

    #[test]
    fn only_addresses_of_apis_are_taken() {
        let at = |address: &str| Api::new(Service::Nlb, &Arc::new(account().at(address)));
        assert!(at("https://nlb.cn-hangzhou.aliyuncs.com").is_ok_and(|api| api.port == 443 && api.tls.is_some()));
        assert!(at("http://127.0.0.1:8080").is_ok_and(|api| api.port == 8080 && api.tls.is_none()));
        for address in ["", "nlb", "ftp://nlb", "https://nlb/path", "https://nlb/?a=b"] {
            assert!(matches!(at(address), Err(ApiError::Address(_))), "{address:?}");
        }
    }
}

//! One HTTP request to a pod: no proxy, no redirect, no repetition, and no more of the answer than is of use.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hitless_api::{Hook, HookMethod, HookScheme, HttpHook};
use hitless_runtime::http_client::{self, Tls};
use http::header::{ACCEPT, CONNECTION, HOST, RETRY_AFTER, USER_AGENT};
use http::{Method, Request};
use rustls::pki_types::ServerName;

use super::answer::{Verdict, of_http};
use super::trust;

/// So much of an answer's body is read.
const LONGEST_BODY: usize = 16 * 1024;

const AGENT: &str = concat!("hitless-agent/", env!("CARGO_PKG_VERSION"));

/// Why a request has no answer, for people.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No connection or no answer.
    #[error("{0}{1}")]
    Send(#[source] http_client::RequestError, &'static str),
    /// There is no way to begin TLS.
    #[error("TLS can't be used: {0}")]
    Provider(#[from] rustls::Error),
    /// The request can't be written as HTTP.
    #[error("the request can't be sent: {0}")]
    Request(#[from] http::Error),
}

/// Calls a hook of the pod with this address; `key` tells the operation and the hook. Has no end of its own.
pub async fn call(hook: &HttpHook, address: IpAddr, key: &str) -> (Verdict, String) {
    match send(hook, address, key).await {
        Ok(answer) => answer,
        Err(error) => (Verdict::Failed, error.to_string()),
    }
}

async fn send(hook: &HttpHook, address: IpAddr, key: &str) -> Result<(Verdict, String), RequestError> {
    let address = SocketAddr::new(address, hook.port);
    let method = match hook.method {
        HookMethod::Get => Method::GET,
        HookMethod::Post => Method::POST,
    };
    let request = Request::builder()
        .method(method)
        .uri(&hook.path)
        .header(HOST, address.to_string())
        .header(USER_AGENT, AGENT)
        .header(ACCEPT, "application/json, */*")
        .header(CONNECTION, "close")
        .header(Hook::HEADER, key)
        .body(http_client::Body::default())?;
    let tls = match hook.scheme {
        HookScheme::Http => None,
        HookScheme::Https => Some(trusting(address.ip())?),
    };
    let answer = http_client::send(&[address], tls, request).await.map_err(with_advice)?;
    let status = answer.status().as_u16();
    let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned);
    let (body, is_cut) = answer.body(LONGEST_BODY).await.map_err(with_advice)?;
    Ok(of_http(status, retry_after.as_deref(), &body, is_cut))
}

fn with_advice(error: http_client::RequestError) -> RequestError {
    let is_tls = matches!(error, http_client::RequestError::Tls(..));
    RequestError::Send(error, if is_tls { "; is the hook's scheme right?" } else { "" })
}

/// TLS with the pod at this address, whose certificate the kubelet's probes don't verify either: who could stand between the node and its
/// own pod could be the pod.
///
/// # Errors
/// If there is no way to begin TLS.
pub(crate) fn trusting(address: IpAddr) -> Result<Tls, rustls::Error> {
    let builder = http_client::tls()?;
    let verifier = Arc::new(trust::Anybody::new(builder.crypto_provider()));
    let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok(Tls { config: Arc::new(config), name: ServerName::from(address) })
}

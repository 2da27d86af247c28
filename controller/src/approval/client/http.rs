//! One HTTP request to an approver.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hitless_runtime::http_client::{self, Tls};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use hitless_gate::approval::target::{Scheme, Target};

/// Most bytes of an answer.
pub const LARGEST_BODY: usize = 1024 * 1024;

const JSON: &str = "application/json";
const AGENT: &str = concat!("hitless-controller/", env!("CARGO_PKG_VERSION"));

/// Why a request has no answer, for people.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No name that a certificate could be for.
    #[error("{0:?} is no name that a certificate could be for")]
    Name(String),
    /// No connection or no answer, and what to do about it.
    #[error("{0}{1}")]
    Send(#[source] http_client::RequestError, &'static str),
    /// The request can't be written as HTTP.
    #[error("the request can't be sent: {0}")]
    Request(#[from] http::Error),
    /// Not 2xx.
    #[error("the answer is HTTP {0}{1}")]
    Status(u16, &'static str),
    /// The body is too long.
    #[error("the answer has more than {LARGEST_BODY} bytes")]
    TooLong,
}

/// Sends one request to `target` at one of `addresses`, and returns the body of the answer.
/// `tls` is used where the target says so.
pub async fn send(
    target: &Target,
    addresses: &[SocketAddr],
    tls: Arc<ClientConfig>,
    method: Method,
    body: Vec<u8>,
) -> Result<Vec<u8>, RequestError> {
    let mut request = Request::builder()
        .method(method)
        .uri(&target.path)
        .header(HOST, &target.authority)
        .header(USER_AGENT, AGENT)
        .header(ACCEPT, JSON);
    if !body.is_empty() {
        request = request.header(CONTENT_TYPE, JSON);
    }
    if let Some((user, password)) = &target.credentials {
        request = request.header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))));
    }
    let request = request.body(body.into())?;
    let tls = match target.scheme {
        Scheme::Plain => None,
        Scheme::Tls => {
            let name = ServerName::try_from(target.host.clone());
            Some(Tls { config: tls, name: name.map_err(|_| RequestError::Name(target.host.clone()))? })
        }
    };
    let answer = http_client::send(addresses, tls, request).await.map_err(with_advice)?;
    let status = answer.status();
    if status.is_redirection() {
        return Err(RequestError::Status(status.as_u16(), "; redirects are not followed, give the final address"));
    }
    if !status.is_success() {
        return Err(RequestError::Status(status.as_u16(), ""));
    }
    match answer.body(LARGEST_BODY).await.map_err(with_advice)? {
        (body, false) => Ok(body),
        (_, true) => Err(RequestError::TooLong),
    }
}

/// rustls names the fault; what to do about the usual ones is added.
fn with_advice(error: http_client::RequestError) -> RequestError {
    use rustls::CertificateError::{BadSignature, NotValidForName, NotValidForNameContext, UnknownIssuer};
    use rustls::Error::InvalidCertificate;
    let fault = match &error {
        http_client::RequestError::Tls(_, error) => error.get_ref(),
        _ => None,
    };
    let fault = fault.and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let advice = match fault {
        // The second: there is an authority of that name in the bundle, with another key.
        Some(InvalidCertificate(UnknownIssuer | BadSignature)) => {
            "; put the certificate of the approver's authority into webhook.clientConfig.caBundle"
        }
        Some(InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
            "; the certificate must have the name of the URL among its subject alternative names"
        }
        Some(InvalidCertificate(rustls::CertificateError::Other(other)))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            "; the approver shows an authority's certificate, it needs one of its own that is signed by it"
        }
        _ => "",
    };
    RequestError::Send(error, advice)
}

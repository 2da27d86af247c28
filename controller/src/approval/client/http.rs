//! One HTTP/1.1 request on a connection of its own: no proxy, no redirect, no retry.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::target::{Scheme, Target};

/// Most bytes of an answer.
pub const LARGEST_BODY: usize = 1024 * 1024;

const JSON: &str = "application/json";
const AGENT: &str = concat!("hitless-controller/", env!("CARGO_PKG_VERSION"));

/// Why a request has no answer, for people.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// DNS.
    #[error("the name can't be resolved: {0}")]
    Resolve(io::Error),
    /// TCP.
    #[error("no connection to {0}: {1}")]
    Connect(SocketAddr, io::Error),
    /// The name has no address.
    #[error("the name has no address")]
    NoAddress,
    /// No name that a certificate could be for.
    #[error("{0:?} is no name that a certificate could be for")]
    Name(String),
    /// TLS.
    #[error("no secure connection: {0}{1}")]
    Tls(io::Error, &'static str),
    /// HTTP.
    #[error("no answer: {0}")]
    Http(#[from] hyper::Error),
    /// The request can't be written as HTTP.
    #[error("the request can't be sent: {0}")]
    Request(#[from] http::Error),
    /// Not 2xx.
    #[error("the answer is HTTP {0}{1}")]
    Status(u16, &'static str),
    /// The body is too long or ends too early.
    #[error("{0}")]
    Body(String),
}

/// Sends one request to `target` at one of `addresses` (to `target`'s name where there are none), and returns the body of the answer.
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
    let request = request.body(Full::new(Bytes::from(body)))?;
    let stream = connect(target, addresses).await?;
    match target.scheme {
        Scheme::Plain => exchange(stream, request).await,
        Scheme::Tls => {
            let name =
                ServerName::try_from(target.host.clone()).map_err(|_| RequestError::Name(target.host.clone()))?;
            let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(tls_error)?;
            exchange(stream, request).await
        }
    }
}

async fn connect(target: &Target, addresses: &[SocketAddr]) -> Result<TcpStream, RequestError> {
    let resolved;
    let addresses = if addresses.is_empty() {
        // getaddrinfo on a thread of its own. In glibc 2.34 and later it needs no plug-ins, so it works in a static binary too.
        resolved = lookup_host((target.host.as_str(), target.port)).await.map_err(RequestError::Resolve)?;
        &resolved.collect::<Vec<_>>()
    } else {
        addresses
    };
    let mut error = RequestError::NoAddress;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(failure) => error = RequestError::Connect(*address, failure),
        }
    }
    Err(error)
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Vec<u8>, RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with this function, whatever comes of it: its errors are the answer's too.
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let response = sender.send_request(request).await?;
    let status = response.status();
    if status.is_redirection() {
        return Err(RequestError::Status(status.as_u16(), "; redirects are not followed, give the final address"));
    }
    if !status.is_success() {
        return Err(RequestError::Status(status.as_u16(), ""));
    }
    read(response.into_body()).await
}

async fn read(body: Incoming) -> Result<Vec<u8>, RequestError> {
    match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(body) => Ok(body.to_bytes().to_vec()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(RequestError::Body(format!("the answer has more than {LARGEST_BODY} bytes")))
        }
        Err(error) => Err(RequestError::Body(format!("the answer breaks off: {error}"))),
    }
}

/// rustls names the fault; what to do about the usual ones is added.
fn tls_error(error: io::Error) -> RequestError {
    use rustls::CertificateError::{BadSignature, NotValidForName, NotValidForNameContext, UnknownIssuer};
    use rustls::Error::InvalidCertificate;
    let fault = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
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
    RequestError::Tls(error, advice)
}

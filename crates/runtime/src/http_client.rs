//! One HTTP/1.1 request on a connection of its own: no proxy, no redirect, no retry, and no more of the answer than is asked
//! for. It has no end of its own: the caller bounds its time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::response::Parts;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ConfigBuilder, WantsVerifier};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

/// Body of a request.
pub type Body = Full<Bytes>;

/// Why a request has no answer, for people.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// There is nothing to connect to.
    #[error("the name has no address")]
    NoAddress,
    /// TCP.
    #[error("no connection to {0}: {1}")]
    Connect(SocketAddr, io::Error),
    /// TLS.
    #[error("no TLS with {0}: {1}")]
    Tls(SocketAddr, io::Error),
    /// HTTP.
    #[error("no HTTP answer: {0}")]
    Http(#[from] hyper::Error),
    /// The body ends too early.
    #[error("the answer breaks off: {0}")]
    Body(hyper::Error),
}

/// How TLS is spoken, and with whom.
pub struct Tls {
    /// Which certificates are accepted.
    pub config: Arc<ClientConfig>,
    /// Whose certificate it must be.
    pub name: ServerName<'static>,
}

/// The beginning of TLS that all requests share.
pub fn tls() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

/// An answer. The connection ends with it.
pub struct Answer {
    head: Parts,
    body: Incoming,
    _connection: AbortOnDropHandle<hyper::Result<()>>,
}

impl Answer {
    /// Its status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.head.status
    }

    /// Its header fields.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The first `longest` bytes of the body, and whether there is more.
    pub async fn body(mut self, longest: usize) -> Result<(Vec<u8>, bool), RequestError> {
        let mut bytes = Vec::new();
        while let Some(frame) = self.body.frame().await {
            let Ok(data) = frame.map_err(RequestError::Body)?.into_data() else { continue };
            let room = longest - bytes.len();
            bytes.extend_from_slice(&data[..data.len().min(room)]);
            if data.len() > room {
                return Ok((bytes, true));
            }
        }
        Ok((bytes, false))
    }
}

/// Sends a request to the first of these addresses that accepts a connection.
pub async fn send(addresses: &[SocketAddr], tls: Option<Tls>, request: Request<Body>) -> Result<Answer, RequestError> {
    let (address, stream) = connect(addresses).await?;
    match tls {
        None => exchange(stream, request).await,
        Some(Tls { config, name }) => {
            let stream = TlsConnector::from(config).connect(name, stream).await;
            exchange(stream.map_err(|error| RequestError::Tls(address, error))?, request).await
        }
    }
}

async fn connect(addresses: &[SocketAddr]) -> Result<(SocketAddr, TcpStream), RequestError> {
    let mut error = RequestError::NoAddress;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok((*address, stream)),
            Err(failure) => error = RequestError::Connect(*address, failure),
        }
    }
    Err(error)
}

async fn exchange<S>(stream: S, request: Request<Body>) -> Result<Answer, RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Its errors are the answer's, too.
    let connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Answer { head, body, _connection: connection })
}

//! One HTTP request to a pod: no proxy, no redirect, no repetition, and no more of the answer than is of use.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hitless_api::{Hook, HookMethod, HookScheme, HttpHook};
use http::header::{ACCEPT, CONNECTION, HOST, RETRY_AFTER, USER_AGENT};
use http::{Method, Request};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::answer::{Verdict, of_http};
use super::trust;

/// So much of an answer's body is read.
const LONGEST_BODY: usize = 16 * 1024;

const AGENT: &str = concat!("hitless-agent/", env!("CARGO_PKG_VERSION"));

/// Why a request has no answer, for people.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// TCP.
    #[error("no connection to {0}: {1}")]
    Connect(SocketAddr, io::Error),
    /// TLS.
    #[error("no TLS with {0}: {1}; is the hook's scheme right?")]
    Tls(SocketAddr, io::Error),
    /// There is no way to begin TLS.
    #[error("TLS can't be used: {0}")]
    Provider(#[from] rustls::Error),
    /// HTTP.
    #[error("no HTTP answer: {0}")]
    Http(#[from] hyper::Error),
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
        .body(Empty::<Bytes>::new())?;
    let stream = TcpStream::connect(address).await.map_err(|error| RequestError::Connect(address, error))?;
    match hook.scheme {
        HookScheme::Http => exchange(stream, request).await,
        HookScheme::Https => {
            let config = Arc::new(config()?);
            let name = ServerName::from(address.ip());
            let stream = TlsConnector::from(config).connect(name, stream).await;
            exchange(stream.map_err(|error| RequestError::Tls(address, error))?, request).await
        }
    }
}

/// The kubelet's probes don't verify certificates either: who could stand between the node and its own pod could be the pod.
fn config() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(trust::Anybody::new(&provider));
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

async fn exchange<S>(stream: S, request: Request<Empty<Bytes>>) -> Result<(Verdict, String), RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with this function, whatever comes of it: its errors are the answer's too.
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned);
    let (body, is_cut) = read(response.into_body()).await?;
    Ok(of_http(status, retry_after.as_deref(), &body, is_cut))
}

/// The beginning of the body, and whether there is more.
async fn read(mut body: Incoming) -> Result<(Vec<u8>, bool), hyper::Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let room = LONGEST_BODY - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

//! Approvers with real sockets and certificates made for the test.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// An authority.
pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// For `caBundle`.
    pub(crate) fn bundle(&self) -> String {
        STANDARD.encode(&self.pem)
    }

    pub(crate) fn server(&self, names: &[&str]) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        config(vec![certificate.der().clone()], key)
    }
}

/// A certificate that is its own authority, as `openssl req -x509` makes it.
pub(crate) fn self_signed_authority(name: &str) -> (ServerConfig, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    let bundle = STANDARD.encode(certificate.pem());
    (config(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap()), bundle)
}

fn config(chain: Vec<rustls::pki_types::CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> ServerConfig {
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap()
}

/// How a server answers.
#[derive(Clone, Debug)]
pub(crate) enum Manner {
    /// These bytes, then the connection is closed.
    Says(Vec<u8>),
    /// Never.
    Silent,
    /// A head, then body bytes without an end.
    Endless,
}

/// `200` with this body.
pub(crate) fn ok(body: &str) -> Manner {
    Manner::Says(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

/// A server that lives as long as this.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Every request as it came in.
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    pub(crate) async fn start(tls: Option<ServerConfig>, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&seen);
        let acceptor = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let serve = async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                match &acceptor {
                    None => answer(stream, &manner, &requests).await,
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            answer(stream, &manner, &requests).await;
                        }
                    }
                }
            }
        };
        Self { address, seen, _task: AbortOnDropHandle::new(tokio::spawn(serve)) }
    }

    pub(crate) fn request(&self) -> String {
        self.seen.lock().unwrap().last().cloned().unwrap_or_default()
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, manner: &Manner, seen: &Mutex<Vec<String>>) {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    while !complete(&request) {
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(read) => request.extend_from_slice(&part[..read]),
        }
    }
    seen.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
    match manner {
        Manner::Says(bytes) => {
            let _ = stream.write_all(bytes).await;
            let _ = stream.shutdown().await;
        }
        Manner::Silent => std::future::pending().await,
        Manner::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{").await;
            while stream.write_all(&[b' '; 4096]).await.is_ok() {}
        }
    }
}

fn complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0_usize)
}

//! An external approver, as webhook rules ask one: a real TLS server on the control plane's address.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hitless_cluster::{Cluster, Place};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// How it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Connections are closed before they can say anything.
    Dead,
    /// "No", in these words.
    Refuses(String),
    /// "Yes", after this time.
    Approves(Duration),
}

/// A running approver. Its thread ends with the process.
pub struct Approver {
    /// `clientConfig.url`.
    pub url: String,
    /// `clientConfig.caBundle`.
    pub ca_bundle: String,
    manner: Arc<Mutex<Manner>>,
    approved: Arc<Mutex<Vec<String>>>,
}

impl Approver {
    /// Starts one on the control plane of `cluster`, where pods can reach it.
    pub fn start(cluster: &Cluster, manner: Manner) -> anyhow::Result<Self> {
        let listener =
            cluster.in_network(Place::ControlPlane, || TcpListener::bind((cluster.control_plane(), 0)))??;
        let address = listener.local_addr()?;
        let (config, ca_bundle) = certificate(address)?;
        let server = Self {
            url: format!("https://{address}/approve"),
            ca_bundle,
            manner: Arc::new(Mutex::new(manner)),
            approved: Arc::default(),
        };
        let (manner, approved) = (Arc::clone(&server.manner), Arc::clone(&server.approved));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let manner = manner.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let (config, approved) = (Arc::clone(&config), Arc::clone(&approved));
                // A client that goes away in between is the client's business.
                thread::spawn(move || answer(stream, config, &manner, &approved));
            }
        });
        Ok(server)
    }

    /// From now on it answers like this.
    pub fn set(&self, manner: Manner) {
        *self.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }

    /// Names of the pods that it has approved, in that order.
    #[must_use]
    pub fn approved(&self) -> Vec<String> {
        self.approved.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A server certificate for `address`, and the authority that signed it as `caBundle` has it.
fn certificate(address: SocketAddr) -> anyhow::Result<(Arc<ServerConfig>, String)> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let bundle = STANDARD.encode(authority.self_signed(&authority_key)?.pem());
    let key = KeyPair::generate()?;
    let issuer = Issuer::new(authority, authority_key);
    let certificate = CertificateParams::new(vec![address.ip().to_string()])?.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| anyhow::anyhow!("{error}"))?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    Ok((Arc::new(config), bundle))
}

fn answer(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    manner: &Manner,
    approved: &Mutex<Vec<String>>,
) -> anyhow::Result<()> {
    if *manner == Manner::Dead {
        return Ok(());
    }
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut stream = StreamOwned::new(ServerConnection::new(config)?, stream);
    let asked = request(&mut stream)?;
    let names: Vec<String> = asked["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|each| each["name"].as_str().map(str::to_owned))
        .collect();
    let body = match manner {
        Manner::Dead => return Ok(()),
        Manner::Refuses(message) => json!({"success": false, "message": message, "traceId": asked["traceId"]}),
        Manner::Approves(after) => {
            thread::sleep(*after);
            approved.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
            json!({"success": true, "message": "", "traceId": asked["traceId"]})
        }
    };
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    stream.conn.send_close_notify();
    stream.flush()?;
    Ok(())
}

/// Body of one request.
fn request(stream: impl std::io::Read) -> anyhow::Result<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().context("content-length")?;
        }
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    serde_json::from_slice(&body).context("the request is not JSON")
}

//! `/healthz`, `/readyz` and `/metrics`; programs merge their own routes into the router.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::liveness::Heartbeat;
use crate::readiness::Readiness;

/// Connections that may wait to be accepted, as in tokio.
const BACKLOG: i32 = 1024;
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the three routes answer from.
#[derive(Clone, Debug)]
pub struct Health {
    /// For `/readyz`.
    pub readiness: Readiness,
    /// For `/healthz`.
    pub heartbeat: Heartbeat,
    /// For `/metrics`.
    pub registry: Arc<Registry>,
}

/// The endpoint can't be offered.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address}: {source}; is another instance running on this host, or is the port taken?")]
pub struct BindError {
    address: SocketAddr,
    source: std::io::Error,
}

/// A registry with what every program has: build and process metrics.
#[must_use]
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    crate::telemetry::register_build(&mut registry);
    registry.register_collector(Box::new(crate::process::ProcessCollector::default()));
    registry
}

/// The three routes.
pub fn router(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(health)
}

/// Takes the port, so that a taken one is an error at start-up. `[::]` is all addresses of both families, whatever
/// `net.ipv6.bindv6only` says; where the kernel has no IPv6 it is those of IPv4.
///
/// # Errors
/// If the port is taken, or the address is none of this host's.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    let is_all = address.is_ipv6() && address.ip().is_unspecified();
    let bound = match is_all.then(|| bind_both(address)) {
        None => TcpListener::bind(address).await,
        Some(Err(error)) if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        Some(bound) => bound,
    };
    bound.map_err(|source| BindError { address, source })
}

fn bind_both(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_only_v6(false)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Serves until `token` is cancelled, then finishes the requests that have begun.
pub async fn serve(listener: TcpListener, router: Router, token: CancellationToken) -> std::io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(token.cancelled_owned()).await
}

async fn healthz(State(health): State<Health>) -> Response {
    let now = Instant::now();
    if health.heartbeat.alive(now) {
        return "ok\n".into_response();
    }
    let age = health.heartbeat.age(now).as_secs();
    (StatusCode::SERVICE_UNAVAILABLE, format!("the main loop has not turned for {age} s\n")).into_response()
}

async fn readyz(State(health): State<Health>) -> Response {
    let missing = health.readiness.missing();
    if missing.is_empty() {
        return "ok\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("missing: {}\n", missing.join(", "))).into_response()
}

async fn metrics(State(health): State<Health>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &health.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    async fn fetch(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn all_addresses_are_those_of_both_families() {
        let listener = bind("[::]:0".parse().unwrap()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "::1"] {
            let client = TcpStream::connect((host, port)).await.unwrap();
            let (_, from) = listener.accept().await.unwrap();
            assert_eq!(from.ip().to_canonical(), client.local_addr().unwrap().ip(), "{host}");
        }
        assert!(bind(SocketAddr::from(([0, 0, 0, 0], port))).await.is_err(), "the port is taken for IPv4, too");
    }

    #[tokio::test]
    async fn answers_from_the_state_and_stops_when_asked() {
        let readiness = Readiness::default();
        let guard = readiness.guard("pods listed");
        let health = Health { readiness, heartbeat: Heartbeat::new(Instant::now()), registry: Arc::new(registry()) };
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let token = CancellationToken::new();
        let own = Router::new().route("/own", get(async || "mine"));
        let server = tokio::spawn(serve(listener, router(health).merge(own), token.clone()));

        let answer = fetch(address, "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("missing: pods listed\n"), "{answer}");
        guard.done();
        assert!(fetch(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(fetch(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        let answer = fetch(address, "/metrics").await;
        assert!(answer.contains("hitless_build_info{version="), "{answer}");
        assert!(fetch(address, "/own").await.ends_with("mine"));

        token.cancel();
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_taken_port_is_named() {
        let first = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = first.local_addr().unwrap();
        assert!(bind(address).await.unwrap_err().to_string().contains(&address.to_string()));
    }
}

//! The server: three ports, and no grace at all when it is told to end.

use std::convert::Infallible;
use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::Body;
use axum::extract::Query;
use axum::routing::get;
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _, stream};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, interval, sleep_until};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_tungstenite::accept_async;
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, health_reporter};

/// Name of the gRPC service whose health changes all the time.
pub const GRPC_SERVICE: &str = "stream";
/// Between two lines of a download, and between two changes of health.
const BEAT: Duration = Duration::from_millis(100);

/// A port of the pod and of its Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name, by which hitless knows what travels on it.
    pub name: &'static str,
    /// Its number in the pod.
    pub number: u16,
}

impl Port {
    /// Downloads and `/healthz`.
    pub const HTTP: Self = Self { name: "http", number: 8080 };
    /// gRPC by HTTP/2 without TLS.
    pub const GRPC: Self = Self { name: "grpc", number: 8081 };
    /// Websockets. Not called `http`: there an idle connection would be taken for one between two requests.
    pub const WEBSOCKET: Self = Self { name: "ws", number: 8082 };
    /// All of them.
    pub const ALL: [Self; 3] = [Self::HTTP, Self::GRPC, Self::WEBSOCKET];

    /// Listens on it, on all addresses of both families.
    pub async fn listen(self) -> anyhow::Result<TcpListener> {
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, self.number))
            .await
            .with_context(|| format!("listen on {}", self.number))
    }
}

/// Serves until it is dropped.
///
/// # Errors
/// If one of the servers ends.
pub async fn serve(http: TcpListener, grpc: TcpListener, websocket: TcpListener) -> anyhow::Result<()> {
    let (reporter, health) = health_reporter();
    // Before anybody can ask for it.
    reporter.set_service_status(GRPC_SERVICE, ServingStatus::Serving).await;
    let router = Router::new().route("/healthz", get(async || "ok")).route("/download", get(download));
    let grpc =
        tonic::transport::Server::builder().add_service(health).serve_with_incoming(TcpListenerStream::new(grpc));
    tokio::select! {
        ended = axum::serve(http, router) => ended.context("HTTP"),
        ended = grpc => ended.context("gRPC"),
        () = websockets(websocket) => anyhow::bail!("websockets ended"),
        () = change_health(reporter) => anyhow::bail!("health ended"),
    }
}

async fn change_health(reporter: HealthReporter) {
    let mut ticks = interval(BEAT);
    for status in [ServingStatus::Serving, ServingStatus::NotServing].into_iter().cycle() {
        ticks.tick().await;
        reporter.set_service_status(GRPC_SERVICE, status).await;
    }
}

#[derive(Deserialize)]
struct Download {
    milliseconds: u64,
}

/// A line each beat, and `end` as the last one.
async fn download(Query(wanted): Query<Download>) -> Body {
    let end = Instant::now() + Duration::from_millis(wanted.milliseconds);
    let lines = stream::unfold(false, move |ended| async move {
        let next = Instant::now() + BEAT;
        sleep_until(next.min(end)).await;
        let line = if next < end { "more\n" } else { "end\n" };
        (!ended).then_some((Ok::<_, Infallible>(Bytes::from_static(line.as_bytes())), next >= end))
    });
    Body::from_stream(lines)
}

async fn websockets(listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(echo(stream))),
            // No descriptors left, or a client that has gone again.
            Err(_) => tokio::time::sleep(BEAT).await,
        }
    }
}

/// Errors end this connection and concern no other.
async fn echo(stream: TcpStream) {
    let Ok(mut socket) = accept_async(stream).await else { return };
    while let Some(Ok(message)) = socket.next().await {
        if message.is_text() && socket.send(message).await.is_err() {
            return;
        }
    }
}

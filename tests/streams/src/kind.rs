//! The kinds of streams, and the client of each.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::time::{Instant, interval, timeout_at};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::server::{GRPC_SERVICE, Port};

/// What kind of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A response body that grows slowly, by HTTP/1.1.
    Download,
    /// Messages in both directions.
    Websocket,
    /// Messages of a server, by HTTP/2.
    Grpc,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Download, Self::Websocket, Self::Grpc];

    /// The Service's port for it.
    #[must_use]
    pub const fn port(self) -> Port {
        match self {
            Self::Download => Port::HTTP,
            Self::Websocket => Port::WEBSOCKET,
            Self::Grpc => Port::GRPC,
        }
    }

    /// Keeps a stream open for `lasts`, then ends it as clients of its kind do.
    ///
    /// # Errors
    /// If it could not be opened, or ended before that.
    pub(crate) async fn run(self, server: SocketAddr, lasts: Duration) -> anyhow::Result<()> {
        match self {
            Self::Download => download(server, lasts).await,
            Self::Websocket => websocket(server, lasts).await,
            Self::Grpc => grpc(server, lasts).await,
        }
    }
}

/// The server decides when it is complete; the connection is for this request only.
async fn download(server: SocketAddr, lasts: Duration) -> anyhow::Result<()> {
    let stream = TcpStream::connect(server).await.context("connect")?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let path = format!("/download?milliseconds={}", lasts.as_millis());
    let request = Request::get(path).header("host", server.to_string()).header("connection", "close");
    let mut body = sender.send_request(request.body(Empty::<Bytes>::new())?).await.context("no answer")?.into_body();
    let mut last = Bytes::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.context("the body was cut")?.into_data() {
            last = data;
        }
    }
    ensure!(last.ends_with(b"end\n"), "the body ended early, with {last:?}");
    connection.await?.context("the connection was cut")
}

/// Says something twice a second and expects an echo of each.
async fn websocket(server: SocketAddr, lasts: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + lasts;
    let stream = TcpStream::connect(server).await.context("connect")?;
    let (mut socket, _) = client_async(format!("ws://{server}/"), stream).await.context("handshake")?;
    let mut ticks = interval(Duration::from_millis(500));
    while Instant::now() < end {
        ticks.tick().await;
        socket.send(Message::text("hello")).await.context("send")?;
        match socket.next().await {
            Some(Ok(Message::Text(_))) => {}
            other => bail!("instead of an echo came {other:?}"),
        }
    }
    socket.close(None).await.context("close")?;
    while let Some(message) = socket.next().await {
        message.context("after our close")?;
    }
    Ok(())
}

/// The health service's stream of changes: the server changes its mind many times a second.
async fn grpc(server: SocketAddr, lasts: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + lasts;
    let channel = Endpoint::from_shared(format!("http://{server}"))?.connect().await.context("connect")?;
    let request = HealthCheckRequest { service: GRPC_SERVICE.to_owned() };
    let mut changes = HealthClient::new(channel).watch(request).await.context("no stream")?.into_inner();
    while let Ok(message) = timeout_at(end, changes.message()).await {
        ensure!(message.context("the stream was cut")?.is_some(), "the stream ended");
    }
    Ok(())
}

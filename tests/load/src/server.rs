//! The reference server: what the pods of the demo, the end-to-end tests and the benchmarks run.
//!
//! It answers `<version> <hostname> <start id>` on every path (`?d=MS` delays the answer), `ok` on `/healthz`, and hooks on `/hook`.
//! How it ends is the point of it: see [`Mode`].

mod config;
mod request;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::io::{self, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use config::{Fail, Mode, ServerConfig, ServerConfigError};
use request::Request;

/// How long a graceful end waits for requests that are under way.
const DRAIN: Duration = Duration::from_secs(20);
/// Pause after a failed accept (no descriptors left), so that the server does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// Answers on `listener` until `shutdown`. [`Mode::Naive`] then returns at once and cuts every connection off;
/// [`Mode::Graceful`] first closes the listener, ends idle connections with a FIN and finishes requests under way.
pub async fn serve(listener: TcpListener, config: ServerConfig, shutdown: CancellationToken) {
    let config = Arc::new(config);
    let hooks = Arc::new(AtomicUsize::new(0));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _peer)) => {
                    connections.spawn(answer_all(stream, Arc::clone(&config), Arc::clone(&hooks), shutdown.clone()));
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    if config.mode == Mode::Graceful {
        let drained = async { while connections.join_next().await.is_some() {} };
        let _drained_or_given_up = timeout(DRAIN, drained).await;
    }
}

/// Errors end the connection and concern nobody else.
async fn answer_all(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    hooks: Arc<AtomicUsize>,
    shutdown: CancellationToken,
) {
    let _ended = answer_each(stream, &config, &hooks, &shutdown).await;
}

async fn answer_each(
    mut stream: TcpStream,
    config: &ServerConfig,
    hooks: &AtomicUsize,
    shutdown: &CancellationToken,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(1024);
    while let Some(request) = next_request(&mut stream, &mut buffer, config, shutdown).await? {
        if !request.delay.is_zero() {
            sleep(request.delay).await;
        }
        let graceful_end = config.mode == Mode::Graceful && shutdown.is_cancelled();
        let closes = request.closes || graceful_end;
        stream.write_all(&request.answer(config, hooks, closes)).await?;
        if closes {
            break;
        }
    }
    stream.shutdown().await
}

/// The next request; `None` at the end of the connection: the client's, or a graceful end between two requests.
async fn next_request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    config: &ServerConfig,
    shutdown: &CancellationToken,
) -> io::Result<Option<Request>> {
    loop {
        if let Some(request) = Request::take(buffer)? {
            return Ok(Some(request));
        }
        let idle = buffer.is_empty() && config.mode == Mode::Graceful;
        let read = tokio::select! {
            biased;
            read = stream.read_buf(buffer) => read?,
            () = shutdown.cancelled(), if idle => 0,
        };
        if read == 0 {
            return Ok(None);
        }
    }
}
